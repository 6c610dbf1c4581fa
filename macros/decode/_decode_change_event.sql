{#-
    ChangeEvent(changeType, timestamp, columnNames, columnValues, oldKeyNames, oldKeyValues), as typed columns or as JSON
    text. Columns may be missing or in another order from event to event.
-#}
{% macro _decode_change_event(d) -%}
    {%- set schema = "changeType string, timestamp string, columnNames array<string>, columnValues array<string>, "
        ~ "oldKeyNames array<string>, oldKeyValues array<string>, _corrupt_record string" -%}
with change_events as (
    select
        *
        {%- if not d.payload %},
        cast(null as string) as _corrupt_record
        {%- endif %}
    from raw_events
    {%- if d.payload %}
    lateral view outer inline(
        array(from_json(_payload, '{{ schema }}', map('columnNameOfCorruptRecord', '_corrupt_record')))
    ) change_event as changetype, timestamp, columnnames, columnvalues, oldkeynames, oldkeyvalues, _corrupt_record
    {%- endif %}
)

select
    *,
    case lower(trim(changetype)) when 'insert' then 'I' when 'update' then 'U' when 'delete' then 'D' when 'truncate' then 'T' end
        as _cdc_operation,
    {{ cdc._image_of_arrays("columnnames", "columnvalues") }} as _cdc_image,
    {{ cdc._image_of_arrays("oldkeynames", "oldkeyvalues") }} as _cdc_before,
    {{ cdc._sequence(d, "try_cast(timestamp as bigint)") }} as _seq,
    {%- if d.event_time %}
    {{ d.event_time }} as _ts,
    {%- endif %}
    case
        when _corrupt_record is not null then 'unreadable payload'
        when changetype is null then 'no operation'
        when lower(trim(changetype)) not in ('insert', 'update', 'delete', 'truncate') then concat('unknown operation ', changetype)
        when not {{ cdc._arrays_pair("columnnames", "columnvalues") }} then 'column names and values do not pair'
        when not {{ cdc._arrays_pair("oldkeynames", "oldkeyvalues") }} then 'old key names and values do not pair'
    end as _cdc_problem
from change_events
{%- endmacro %}


{% macro _arrays_pair(names, values) -%}
    {{ return(
        "coalesce(size(" ~ names ~ ") = size(" ~ values ~ ") and size(array_distinct(array_compact(" ~ names ~ "))) = size("
        ~ names ~ "), coalesce(" ~ names ~ ", " ~ values ~ ") is null)"
    ) }}
{%- endmacro %}


{% macro _image_of_arrays(names, values) -%}
    {{ return("case when " ~ cdc._arrays_pair(names, values) ~ " then map_from_arrays(" ~ names ~ ", " ~ values ~ ") end") }}
{%- endmacro %}
