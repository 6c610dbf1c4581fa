{#-
    Canal's flat messages: several rows in `data`, what their changed columns were in `old`, all values as text.
    https://github.com/alibaba/canal

    A message carries no position, only `es` in whole seconds and the number of a batch, which several messages share: the order
    has to be declared. Within a message the rows are in order.
-#}
{% macro _decode_canal(d) -%}
    {%- set schema = "database string, table string, type string, isDdl string, es string, data array<map<string, variant>>, "
        ~ "old array<map<string, variant>>, _corrupt_record string" -%}
    {%- set rows = "_message.type in ('INSERT', 'INIT', 'UPDATE', 'DELETE')" -%}
    {%- set ddl = "coalesce(_message.isDdl = 'true' or _message.type in ('CREATE', 'ALTER', 'ERASE', 'RENAME', 'QUERY', 'CINDEX', "
        ~ "'DINDEX'), false)" -%}
with messages as (
    {{ cdc._parsed_messages(schema) | indent(4) }}
),

changes as (
    select *
    from messages
    lateral view outer posexplode(_message.data) changes as _index, _row
)

select *
from changes
lateral view outer inline(array(struct(
    case
        when _message._corrupt_record is not null then null
        when _message.type = 'TRUNCATE' then 'T'
        when {{ ddl }} then 'M'
        when _message.type in ('INSERT', 'INIT') then 'I'
        when _message.type in ('UPDATE', 'DELETE') then left(_message.type, 1)
    end,
    _row,
    case _message.type when 'UPDATE' then get(_message.old, _index) when 'DELETE' then _row end,
    {{ cdc._sequence(d, index="coalesce(_index, 0)") }},
    {{ d.event_time or cdc._instant("_message.es", "epoch_millis") }},
    case
        when _message._corrupt_record is not null or _message is null then 'unreadable payload'
        when _message.type is null then 'no operation'
        when _message.type <> 'TRUNCATE' and not {{ ddl }} and not {{ rows }} then concat('unknown operation ', _message.type)
        when {{ rows }} and _row is null then 'no row'
    end,
    {{ cdc._dotted(["_message.database", "_message.table"]) }}
))) change as _cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem, _cdc_table
{%- endmacro %}
