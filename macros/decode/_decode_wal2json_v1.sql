{#-
    wal2json, format-version 1: one message a transaction, its changes in the array `change`, in order.
    https://github.com/eulerto/wal2json
-#}
{% macro _decode_wal2json_v1(d) -%}
    {%- set change = "kind: string, schema: string, table: string, columnnames: array<string>, columnvalues: array<variant>, "
        ~ "oldkeys: struct<keynames: array<string>, keyvalues: array<variant>>" -%}
    {%- set schema = "change array<struct<" ~ change ~ ">>, timestamp string, nextlsn string, _corrupt_record string" -%}
    {%- set position = "case when _cdc_lsn is not null then struct(_cdc_lsn as lsn, coalesce(_index, 0) as row_index) end" -%}
with messages as (
    {{ cdc._parsed_messages(schema) | indent(4) }}
),

sized_messages as (
    select
        * except (_payload),
        if(_message.change is null, null, size(_message.change)) as _size,
        {{ cdc._lsn("_message.nextlsn") }} as _cdc_lsn,
        {#- Each change of a large transaction would carry the whole of it. -#}
        if(size(_message.change) > 1, null, _payload) as _whole_payload
    from messages
),

changes as (
    select
        *,
        coalesce(
            _whole_payload,
            to_json(struct(_message.timestamp as timestamp, _message.nextlsn as nextlsn, array(_change) as change))
        ) as _payload
    from sized_messages
    lateral view outer posexplode(_message.change) changes as _index, _change
),

paired_changes as (
    select
        *,
        {{ cdc._arrays_pair("_change.columnnames", "_change.columnvalues") }} as _columns_pair,
        {{ cdc._arrays_pair("_change.oldkeys.keynames", "_change.oldkeys.keyvalues") }} as _old_keys_pair
    from changes
)

select
    *,
    case
        when _is_unreadable then null
        when _change.kind = 'insert' then 'I'
        when _change.kind = 'update' then 'U'
        when _change.kind = 'delete' then 'D'
        when _change.kind = 'truncate' then 'T'
        {#- A transaction that changed nothing that is captured. -#}
        when _change.kind = 'message' or _size = 0 then 'M'
    end as _cdc_operation,
    case when _columns_pair then map_from_arrays(_change.columnnames, _change.columnvalues) end as _cdc_image,
    case when _old_keys_pair then map_from_arrays(_change.oldkeys.keynames, _change.oldkeys.keyvalues) end as _cdc_before,
    {{ cdc._sequence(d, position, "coalesce(_index, 0)") }} as _seq,
    {{ d.event_time or "try_cast(_message.timestamp as timestamp)" }} as _ts,
    case
        when _is_unreadable or _size is null then 'unreadable payload'
        when _change.kind is null then 'no operation'
        when _change.kind not in ('insert', 'update', 'delete', 'truncate', 'message')
            then concat('unknown operation ', _change.kind)
        when not _columns_pair then 'column names and values do not pair'
        when not _old_keys_pair then 'old key names and values do not pair'
    end as _cdc_problem,
    {{ cdc._dotted(["_change.schema", "_change.table"]) }} as _cdc_table
from paired_changes
{%- endmacro %}
