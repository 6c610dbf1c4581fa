{#-
    wal2json, format-version 1: one message a transaction, its changes in the array `change`, in order.
    https://github.com/eulerto/wal2json
-#}
{% macro _decode_wal2json_v1(d) -%}
    {%- set change = "kind: string, schema: string, table: string, columnnames: array<string>, columnvalues: array<variant>, "
        ~ "oldkeys: struct<keynames: array<string>, keyvalues: array<variant>>" -%}
    {%- set schema = "change array<struct<" ~ change ~ ">>, timestamp string, nextlsn string, _corrupt_record string" -%}
    {%- set lsn = cdc._lsn("_message.nextlsn") -%}
    {%- set position = "case when " ~ lsn ~ " is not null then struct(" ~ lsn ~ " as lsn, coalesce(_index, 0) as row_index) end" -%}
    {%- set columns = ["_change.columnnames", "_change.columnvalues"] -%}
    {%- set old_keys = ["_change.oldkeys.keynames", "_change.oldkeys.keyvalues"] -%}
with messages as (
    {{ cdc._parsed_messages(schema) | indent(4) }}
),

changes as (
    select *
    from messages
    lateral view outer posexplode(_message.change) changes as _index, _change
)

select *
from changes
lateral view outer inline(array(struct(
    case
        when _message._corrupt_record is not null then null
        when _change.kind in ('insert', 'update', 'delete', 'truncate') then upper(left(_change.kind, 1))
        {#- A transaction that changed nothing that is captured. -#}
        when _change.kind = 'message' or size(_message.change) = 0 then 'M'
    end,
    {{ cdc._image_of_arrays(columns[0], columns[1]) }},
    {{ cdc._image_of_arrays(old_keys[0], old_keys[1]) }},
    {{ cdc._sequence(d, position, "coalesce(_index, 0)") }},
    {{ d.event_time or "try_cast(_message.timestamp as timestamp)" }},
    case
        when _message._corrupt_record is not null or _message.change is null then 'unreadable payload'
        when _change.kind is null then 'no operation'
        when _change.kind not in ('insert', 'update', 'delete', 'truncate', 'message')
            then concat('unknown operation ', _change.kind)
        when not {{ cdc._arrays_pair(columns[0], columns[1]) }} then 'column names and values do not pair'
        when not {{ cdc._arrays_pair(old_keys[0], old_keys[1]) }} then 'old key names and values do not pair'
    end,
    {{ cdc._dotted(["_change.schema", "_change.table"]) }}
))) change as _cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem, _cdc_table
{%- endmacro %}
