{#-
    Keys whose only event is a full image. Every rule of the fold is about what an event finds at its key, and these find nothing.
    Most keys of a first load are such, and windows and lists cost them more than all else.
-#}

{#- The events of `timed_events` as two CTEs: `sole_events`, those of such keys, and `other_events`. -#}
{% macro _sole_events(spec) -%}
    {%- set event_order = cdc._event_order(spec) -%}
placed_events as (
    select
        *,
        {{ cdc._is_full_image() }}
        and lag(true) over ({{ event_order }}) is null
        and lead(true) over ({{ event_order }}) is null as __cdc_is_sole
    from timed_events
),

sole_events as (
    select *
    from placed_events
    where __cdc_is_sole
),

other_events as (
    select * except (__cdc_is_sole)
    from placed_events
    where not __cdc_is_sole
)
{%- endmacro %}


{#- The versions of `sole_events`, without a fold. -#}
{% macro _sole_versions(spec) -%}
select
    {{ cdc._column_list(spec.key_columns) }},
    {%- for column in spec.value_columns %}
    _values.{{ cdc._quoted(column) }},
    {%- endfor %}
    _seq,
    if(true, null, _seq) as _seq_end,
    {{ spec.time }} as _cdc_created_at,
    _seq as _cdc_seq,
    {{ cdc._no_events(spec) }} as _events,
    {%- if spec.counted %}
    {{ cdc._counted_effects({"inserted": "_is_new"}) }} as _effects,
    {%- endif %}
    {{ cdc._version_id(spec, "_event_id") }} as dbt_scd_id,
    {{ spec.time }} as dbt_updated_at,
    {{ spec.time }} as dbt_valid_from,
    if(true, null, {{ spec.time }}) as dbt_valid_to,
    _event_id,
    true as _cdc_is_latest
from sole_events
{%- endmacro %}
