{#-
    The change data feed of a Delta table, as table_changes() gives it. https://docs.delta.io/latest/delta-change-data-feed.html

    Pre-images are left out, but for those of keys that an update left: no other row says that they are gone. Within a version
    deletes come first, so that a row that is deleted and inserted anew is there.
-#}
{% macro _decode_delta_cdf(d) -%}
    {%- set left_key = "false" if d.keyless else "_cdc_images_after = 0" %}
with changed_rows as (
    select
        *
        {%- if not d.keyless %},
        count_if(_change_type <> 'update_preimage') over (
            partition by _commit_version, {{ cdc._column_list(d.key_columns) }}
        ) as _cdc_images_after
        {%- endif %}
    from raw_events
)

select
    *,
    case _change_type
        when 'insert' then 'I'
        when 'update_postimage' then 'U'
        when 'delete' then 'D'
        when 'update_preimage' then if({{ left_key }}, 'D', 'M')
    end as _cdc_operation,
    {{ cdc._sequence(d, "case when _commit_version is not null then struct(cast(_commit_version as bigint) as version, "
        ~ "if(_change_type in ('delete', 'update_preimage'), 0, 1) as image) end") }} as _seq,
    {%- if cdc._has_event_time(d) %}
    {{ d.event_time or "cast(_commit_timestamp as timestamp)" }} as _ts,
    {%- endif %}
    case
        when _change_type is null then 'no operation'
        when _change_type not in ('insert', 'update_postimage', 'delete', 'update_preimage')
            then concat('unknown operation ', _change_type)
    end as _cdc_problem
from changed_rows
{%- endmacro %}
