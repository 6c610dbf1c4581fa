{#-
    Maxwell's events: `data` is the row, `old` what the changed columns were. https://maxwells-daemon.io/dataformat/

    The order is (ts, bootstrap before change, binlog file and offset, xid, place in the transaction). Bootstrapped rows carry
    no position, so that ts has to come first; the last row of a transaction carries `commit` in place of xoffset.
-#}
{% macro _decode_maxwell(d) -%}
    {%- set schema = "database string, table string, type string, ts string, xid string, xoffset string, commit string, "
        ~ "position string, data map<string, variant>, old map<string, variant>, _corrupt_record string" -%}
    {%- set position -%}
        case
            when try_cast(_message.ts as bigint) is not null then array(
                try_cast(_message.ts as bigint),
                if(_message.type = 'bootstrap-insert', 0L, 1L),
                coalesce({{ cdc._binlog_file("substring_index(_message.position, ':', 1)") }}, 0L),
                coalesce(try_cast(substring_index(_message.position, ':', -1) as bigint), 0L),
                coalesce(try_cast(_message.xid as bigint), 0L),
                if(_message.commit = 'true', 9223372036854775807L, coalesce(try_cast(_message.xoffset as bigint), 0L))
            )
        end
    {%- endset -%}
with messages as (
    {{ cdc._parsed_messages(schema) | indent(4) }}
)

select
    *,
    case
        when __cdc_is_unreadable then null
        when _message.type in ('insert', 'bootstrap-insert') then 'I'
        when _message.type = 'update' then 'U'
        when _message.type = 'delete' then 'D'
        when {{ cdc._maxwell_control() }} then 'M'
    end as __cdc_operation,
    _message.data as __cdc_image,
    case _message.type when 'update' then _message.old when 'delete' then _message.data end as __cdc_before,
    {{ cdc._sequence(d, position) }} as __cdc_seq,
    {{ cdc._event_time(d) or cdc._instant("_message.ts", "epoch_seconds") }} as __cdc_ts,
    case
        when __cdc_is_unreadable then 'unreadable payload'
        when _message.type is null then 'no operation'
        when _message.type not in ('insert', 'bootstrap-insert', 'update', 'delete') and not {{ cdc._maxwell_control() }}
            then concat('unknown operation ', _message.type)
        when _message.data is null then 'no row'
    end as __cdc_problem,
    {{ cdc._dotted(["_message.database", "_message.table"]) }} as __cdc_table
from messages
{%- endmacro %}


{#- Records that are no change of a row: borders of a bootstrap and DDL. -#}
{% macro _maxwell_control() -%}
    {{ return("coalesce(_message.type in ('bootstrap-start', 'bootstrap-complete') or _message.type like 'table-%' or "
        ~ "_message.type like 'database-%', false)") }}
{%- endmacro %}
