{#-
    ChangeEvent(changeType, timestamp, columnNames, columnValues, oldKeyNames, oldKeyValues), as typed columns or as JSON
    text. Columns may be missing or in another order from event to event.
-#}
{% macro _decode_change_event(d) -%}
    {%- set schema = "changeType string, timestamp string, columnNames array<string>, columnValues array<string>, "
        ~ "oldKeyNames array<string>, oldKeyValues array<string>, _corrupt_record string" -%}
with change_events as (
    {%- if d.payload %}
    select
        *,
        _message.*
    from ({{ cdc._parsed_messages(schema) | indent(4) }})
    {%- else %}
    select
        *,
        cast(null as string) as _corrupt_record
    from raw_events
    {%- endif %}
),

paired_events as (
    select
        *,
        {{ cdc._arrays_pair("columnnames", "columnvalues") }} as _columns_pair,
        {{ cdc._arrays_pair("oldkeynames", "oldkeyvalues") }} as _old_keys_pair
    from change_events
)

select
    *,
    case lower(trim(changetype)) when 'insert' then 'I' when 'update' then 'U' when 'delete' then 'D' when 'truncate' then 'T' end
        as _cdc_operation,
    case when _columns_pair then map_from_arrays(columnnames, columnvalues) end as _cdc_image,
    case when _old_keys_pair then map_from_arrays(oldkeynames, oldkeyvalues) end as _cdc_before,
    {{ cdc._sequence(d, "try_cast(timestamp as bigint)") }} as _seq,
    {%- if d.event_time %}
    {{ d.event_time }} as _ts,
    {%- endif %}
    case
        when _corrupt_record is not null then 'unreadable payload'
        when changetype is null then 'no operation'
        when lower(trim(changetype)) not in ('insert', 'update', 'delete', 'truncate') then concat('unknown operation ', changetype)
        when not _columns_pair then 'column names and values do not pair'
        when not _old_keys_pair then 'old key names and values do not pair'
    end as _cdc_problem
from paired_events
{%- endmacro %}


{#- Whether an array of names and one of values make a map, or are both missing. -#}
{% macro _arrays_pair(names, values) -%}
    {{ return(
        "coalesce(size(" ~ names ~ ") = size(" ~ values ~ ") and " ~ cdc._names_are_unique(names) ~ ", coalesce(" ~ names ~ ", "
        ~ values ~ ") is null)"
    ) }}
{%- endmacro %}
