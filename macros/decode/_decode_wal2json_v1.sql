{#-
    wal2json, format-version 1: one message a transaction, its changes in the array `change`, in order.
    https://github.com/eulerto/wal2json
-#}
{% macro _decode_wal2json_v1(d) -%}
    {%- set change = "kind: string, schema: string, table: string, columnnames: array<string>, columnvalues: array<variant>, "
        ~ "oldkeys: struct<keynames: array<string>, keyvalues: array<variant>>" -%}
    {%- set schema = "change array<struct<" ~ change ~ ">>, timestamp string, nextlsn string, _corrupt_record string" -%}
    {%- set position = "case when __cdc_lsn is not null then struct(__cdc_lsn as lsn, coalesce(__cdc_index, 0) as row_index)"
        ~ " end" -%}
with messages as (
    {{ cdc._parsed_messages(schema) | indent(4) }}
),

sized_messages as (
    select
        * except (__cdc_payload),
        if(_message.change is null, null, size(_message.change)) as __cdc_size,
        {{ cdc._lsn("_message.nextlsn") }} as __cdc_lsn,
        {#- Each change of a large transaction would carry the whole of it. -#}
        if(size(_message.change) > 1, null, __cdc_payload) as __cdc_whole_payload
    from messages
),

changes as (
    select
        *,
        coalesce(
            __cdc_whole_payload,
            to_json(struct(_message.timestamp as timestamp, _message.nextlsn as nextlsn, array(__cdc_change) as change))
        ) as __cdc_payload
    from sized_messages
    lateral view outer posexplode(_message.change) changes as __cdc_index, __cdc_change
),

paired_changes as (
    select
        *,
        {{ cdc._arrays_pair("__cdc_change.columnnames", "__cdc_change.columnvalues") }} as __cdc_columns_pair,
        {{ cdc._arrays_pair("__cdc_change.oldkeys.keynames", "__cdc_change.oldkeys.keyvalues") }} as __cdc_old_keys_pair
    from changes
)

select
    *,
    case
        when __cdc_is_unreadable then null
        when __cdc_change.kind = 'insert' then 'I'
        when __cdc_change.kind = 'update' then 'U'
        when __cdc_change.kind = 'delete' then 'D'
        when __cdc_change.kind = 'truncate' then 'T'
        {#- A transaction that changed nothing that is captured. -#}
        when __cdc_change.kind = 'message' or __cdc_size = 0 then 'M'
    end as __cdc_operation,
    case when __cdc_columns_pair then map_from_arrays(__cdc_change.columnnames, __cdc_change.columnvalues) end as __cdc_image,
    case when __cdc_old_keys_pair then map_from_arrays(__cdc_change.oldkeys.keynames, __cdc_change.oldkeys.keyvalues) end as __cdc_before,
    {{ cdc._sequence(d, position, "coalesce(__cdc_index, 0)") }} as __cdc_seq,
    {{ cdc._event_time(d) or "try_cast(_message.timestamp as timestamp)" }} as __cdc_ts,
    case
        when __cdc_is_unreadable or __cdc_size is null then 'unreadable payload'
        when __cdc_change.kind is null then 'no operation'
        when __cdc_change.kind not in ('insert', 'update', 'delete', 'truncate', 'message')
            then concat('unknown operation ', __cdc_change.kind)
        when not __cdc_columns_pair then 'column names and values do not pair'
        when not __cdc_old_keys_pair then 'old key names and values do not pair'
    end as __cdc_problem,
    {{ cdc._dotted(["__cdc_change.schema", "__cdc_change.table"]) }} as __cdc_table
from paired_changes
{%- endmacro %}
