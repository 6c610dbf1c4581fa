{#-
    The known rows that new events touch, and what becomes of them, in a final table without a history. Histories have
    `_known_versions` and `_changed_versions` for it.
-#}

{#-
    The rows that a run may change, and whether the new events of their keys are in order after them: those of its keys, those
    that one of its truncates falls into, and the last truncate.
-#}
{% macro _known_lives(spec, events, has_truncates, bounds, is_single) -%}
    {%- set columns = cdc._column_list(cdc._life_columns(spec) | reject("equalto", "_events"), "known") ~ ", "
        ~ cdc._kept_events(spec, "known") -%}
    {%- set is_truncate = cdc._is_truncate_row(spec, "known") -%}
with touched_keys as (
    {{ cdc._touched_keys(spec, events, is_single) | indent(4) }}
    {%- if spec.by_position %}
    union
    select
        {{ cdc._column_list(spec.key_columns, "known") }},
        known._cdc_seq as _first_new
    from {{ spec.relation }} as known
    left semi join {{ events.relation }} as given on known._cdc_seq = given._seq
    {%- endif %}
)

select
    {{ columns }},
    {{ is_truncate }} as _is_truncate,
    {{ is_truncate }}
    {{- "" if has_truncates else
        " or touched_keys._first_new > coalesce(element_at(known._events, -1)._seq, known._cdc_seq)" }} as _is_in_order
from {{ spec.relation }} as known
left join touched_keys on {{ cdc._same(spec.key_columns, "known", "touched_keys") }}
where
    {#- A condition on the bounded column alone leaves out partitions as well as files. #}
    ({{ cdc._is_within(bounds, "known") }} or known.{{ cdc._quoted(spec.key_columns[0]) }} is null)
    and (touched_keys._first_new is not null or {{ is_truncate }})
{%- if has_truncates %}
union all
select
    {{ columns }},
    false as _is_truncate,
    false as _is_in_order
from {{ spec.relation }} as known
cross join (select max(_seq) as _last from {{ events.relation }} where _op = 'T') as last_truncate
left anti join touched_keys on {{ cdc._same(spec.key_columns, "known", "touched_keys") }}
where
    not {{ is_truncate }}
    and exists({{ "coalesce(known._events, array(" ~ cdc._sole_event(spec, "known") ~ "))" }}, event -> event._seq <= _last)
{%- endif %}
{%- endmacro %}


{#- Whether a row is the one without a key, that of the last truncate. -#}
{% macro _is_truncate_row(spec, alias) -%}
    {%- set no_key = [] -%}
    {%- for key in spec.key_columns -%}
        {%- do no_key.append(alias ~ "." ~ cdc._quoted(key) ~ " is null") -%}
    {%- endfor -%}
    {{ return("(" ~ (no_key | join(" and ")) ~ ")") }}
{%- endmacro %}


{#-
    The touched rows folded again with the new events. A row whose new events are in order takes part as it is, the others as the
    events that made them.
-#}
{% macro _changed_lives(spec, events, known) -%}
    {%- set columns = cdc._life_columns(spec) -%}
    {%- set time = "_ts," if spec.time == "_ts" else "" -%}
with known_lives as (
    select * from {{ known.relation }}
),

new_events as (
    select
        *,
        true as _is_new
    from {{ events.relation }}
    where _op <> 'T'
),

{{ cdc._state_events_of_lives(spec) }},

{{ cdc._remembered_events_of_lives(spec) }},
{%- set sources = ["new_events", "known_events"] %}
{%- if spec.recognizes %}

{{ cdc._recognized_events(spec) }},
{%- set sources = ["other_new_events", "other_known_events", "recalled_events"] %}
{%- endif %}
{%- if spec.truncated %}

truncates as (
    select
        _seq,
        {{ time }}
        _event_id
    from {{ events.relation }}
    where _op = 'T'
    union
    select
        element_at(_events, -1)._seq,
        {{ "element_at(_events, -1)._ts," if spec.time == "_ts" }}
        element_at(_events, -1)._event_id
    from known_lives
    where _is_truncate
),
{%- endif %}

events as (
    select {{ cdc._one_partition(not spec.splits) }}*
    from (
        select * from state_events
        {%- for source in sources %}
        union all
        select *, null as _state from {{ source }}
        {%- endfor %}
    ) as all_events
),

{{ cdc._lives(dict(spec, stateful=true, counted=true)) }}

select
    {{ cdc._column_list(columns, "lives") }},
    lives._effects,
    known._cdc_seq is not null as _is_known,
    case
        when lives._op = 'D' then if(known._cdc_seq is null, null, 'D')
        when not (struct({{ cdc._column_list(columns, "lives") }}) <=> struct({{ cdc._column_list(columns, "known") }})) then 'U'
    end as _current_op
from lives
left join known_lives as known on {{ cdc._same(spec.key_columns, "lives", "known") }}
{%- endmacro %}


{#- The rows whose new events are in order, each as one event: its state, or that it has ended. -#}
{% macro _state_events_of_lives(spec) -%}
state_events as (
    select
        {{ cdc._column_list(spec.key_columns) }},
        {{ cdc._values_struct(spec) }} as _values,
        if(_cdc_deleted_at is null, 'S', 'E') as _op,
        _cdc_seq as _seq,
        {{ "_cdc_updated_at as _ts," if spec.time == "_ts" }}
        coalesce(_event_id, element_at(_events, -1)._event_id) as _event_id,
        cast(array() as array<string>) as _unset,
        false as _is_new,
        struct(
            _cdc_created_at,
            _cdc_seq,
            _cdc_updated_at as dbt_updated_at,
            cast(null as string) as dbt_scd_id,
            _event_id,
            _events,
            {{ cdc._sole_event(spec) }} as _sole_event
        ) as _state
    from known_lives
    where _is_in_order and not _is_truncate
)
{%- endmacro %}


{#- The events behind the other rows. -#}
{% macro _remembered_events_of_lives(spec) -%}
unfolded_lives as (
    select
        *,
        {#- Of events at one position the last one made the row what it is. -#}
        array_max(filter(_remembered, event -> event._seq = _cdc_seq and event._op = 'U')) as _cdc_change,
        explode(_remembered) as _event
    from (
        select
            *,
            coalesce(_events, array({{ cdc._sole_event(spec) }})) as _remembered
        from known_lives
        where not _is_in_order and not _is_truncate
    ) as remembering_lives
),

known_events as (
    select
        {{ cdc._column_list(spec.key_columns) }},
        {#- Since its last change an event has the values of the row. What came before was replaced, and only differs from it. -#}
        {%- set own = "if(_event._seq > _cdc_seq or _event <=> _cdc_change, " ~ cdc._values_struct(spec) ~ ", null)" %}
        {{ "coalesce(_event._image, " ~ own ~ ")" if spec.keeps_images and spec.value_columns else own }} as _values,
        _event._op,
        _event._seq,
        {{ "_event._ts," if spec.time == "_ts" }}
        _event._event_id,
        _event._unset,
        false as _is_new
    from unfolded_lives
)
{%- endmacro %}
