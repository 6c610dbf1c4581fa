{#-
    wal2json, format-version 2: one JSON object a change. Values are read as VARIANT, which keeps numerics exact where a
    string field would pass them through a double. https://github.com/eulerto/wal2json

    The order is (commit time, lsn). The lsn alone misleads: an INSERT is logged before it waits for the transaction that
    deletes the old row of its key, so the delete can carry the higher lsn; it always commits first.
-#}
{% macro _decode_wal2json_v2(d) -%}
    {%- set schema = "action string, timestamp string, lsn string, columns array<struct<name: string, value: variant>>, "
        ~ "identity array<struct<name: string, value: variant>>, schema string, table string, _corrupt_record string" -%}
    {#- NULL unless both are there: the slot needs include-timestamp and include-lsn. -#}
    {%- set position = "case when __cdc_committed_at is not null and __cdc_lsn is not null then "
        ~ "struct(__cdc_committed_at as committed_at, __cdc_lsn as lsn) end" -%}
with messages as (
    {{ cdc._parsed_messages(schema) | indent(4) }}
),

checked_messages as (
    select
        *,
        try_cast(_message.timestamp as timestamp) as __cdc_committed_at,
        {{ cdc._lsn("_message.lsn") }} as __cdc_lsn,
        {{ cdc._names_are_unique("_message.columns.name") }} as __cdc_columns_are_unique,
        {{ cdc._names_are_unique("_message.identity.name") }} as __cdc_keys_are_unique
    from messages
)

select
    *,
    case
        when _message.action in ('I', 'U', 'D', 'T') then _message.action
        when _message.action in ('B', 'C', 'M') then 'M'
    end as __cdc_operation,
    case when __cdc_columns_are_unique then map_from_arrays(_message.columns.name, _message.columns.value) end as __cdc_image,
    case when __cdc_keys_are_unique then map_from_arrays(_message.identity.name, _message.identity.value) end as __cdc_before,
    {{ cdc._sequence(d, position) }} as __cdc_seq,
    {{ cdc._event_time(d) or "__cdc_committed_at" }} as __cdc_ts,
    case
        when __cdc_is_unreadable then 'unreadable payload'
        when _message.action is null then 'no operation'
        when _message.action not in ('I', 'U', 'D', 'T', 'B', 'C', 'M') then concat('unknown operation ', _message.action)
        when _message.action in ('I', 'U', 'D') and not __cdc_columns_are_unique then 'a column is named twice'
        when _message.action in ('U', 'D') and not __cdc_keys_are_unique then 'a key column is named twice'
    end as __cdc_problem,
    {{ cdc._dotted(["_message.schema", "_message.table"]) }} as __cdc_table
from checked_messages
{%- endmacro %}


{#- Whether no name comes twice or is null: Spark refuses such a map, and with it the whole run. NULL without names. -#}
{% macro _names_are_unique(names) -%}
    {{ return("size(array_except(" ~ names ~ ", array(null))) = size(" ~ names ~ ")") }}
{%- endmacro %}
