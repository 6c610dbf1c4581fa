{#-
    wal2json, format-version 2: one JSON object a change. Values are read as VARIANT, which keeps numerics exact where a
    string field would pass them through a double. https://github.com/eulerto/wal2json

    The order is (commit time, lsn). The lsn alone misleads: an INSERT is logged before it waits for the transaction that
    deletes the old row of its key, so the delete can carry the higher lsn; it always commits first.
-#}
{% macro _decode_wal2json_v2(d) -%}
    {%- set schema = "action string, timestamp string, lsn string, columns array<struct<name: string, value: variant>>, "
        ~ "identity array<struct<name: string, value: variant>>, schema string, table string, _corrupt_record string" -%}
select *
from raw_events
lateral view outer inline(transform(
    array(from_json(_payload, '{{ schema }}', map('columnNameOfCorruptRecord', '_corrupt_record'))),
    _message -> struct(
        case
            when _message.action in ('I', 'U', 'D', 'T') then _message.action
            when _message.action in ('B', 'C', 'M') then 'M'
        end,
        {{ cdc._image_of("_message.columns") }},
        {{ cdc._image_of("_message.identity") }},
        {{ cdc._sequence(d, cdc._commit_position("_message.timestamp", "_message.lsn")) }},
        {{ d.event_time or "try_cast(_message.timestamp as timestamp)" }},
        case
            when _message._corrupt_record is not null or _message is null then 'unreadable payload'
            when _message.action is null then 'no operation'
            when _message.action not in ('I', 'U', 'D', 'T', 'B', 'C', 'M') then concat('unknown operation ', _message.action)
            when _message.action in ('I', 'U', 'D') and not {{ cdc._names_are_unique("_message.columns") }}
                then 'a column is named twice'
            when _message.action in ('U', 'D') and not {{ cdc._names_are_unique("_message.identity") }}
                then 'a key column is named twice'
        end,
        {{ cdc._dotted(["_message.schema", "_message.table"]) }}
    )
)) change as _cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem, _cdc_table
{%- endmacro %}


{% macro _names_are_unique(pairs) -%}
    {{ return("coalesce(size(array_distinct(array_compact(transform(" ~ pairs ~ ", c -> c.name)))) = size(" ~ pairs ~ "), true)") }}
{%- endmacro %}


{#- An array of (name, value) as a map. Spark refuses a map that holds a name twice or a null one, and with it the whole run. -#}
{% macro _image_of(pairs) -%}
    {{ return(
        "case when " ~ cdc._names_are_unique(pairs) ~ " then map_from_entries(transform(" ~ pairs
        ~ ", c -> struct(c.name, c.value))) end"
    ) }}
{%- endmacro %}
