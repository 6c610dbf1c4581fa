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

images as (
    select
        * except (_payload),
        _message.data as _row,
        coalesce(_message.old, cast(array() as array<map<string, variant>>)) as _old,
        {#- Each row of a large message would carry the whole of it. -#}
        if(size(_message.data) > 1, null, _payload) as _whole_payload
    from messages
),

changes as (
    select
        *,
        coalesce(
            _whole_payload,
            to_json(struct(
                _message.database as database,
                _message.table as table,
                _message.type as type,
                _message.es as es,
                array(_images._row) as data,
                array(_images._old) as old
            ))
        ) as _payload
    from images
    lateral view outer posexplode(arrays_zip(_row, _old)) changes as _index, _images
)

select
    *,
    case
        when _is_unreadable then null
        when _message.type = 'TRUNCATE' then 'T'
        when {{ ddl }} then 'M'
        when _message.type in ('INSERT', 'INIT') then 'I'
        when _message.type in ('UPDATE', 'DELETE') then left(_message.type, 1)
    end as _cdc_operation,
    _images._row as _cdc_image,
    case _message.type when 'UPDATE' then _images._old when 'DELETE' then _images._row end as _cdc_before,
    {{ cdc._sequence(d, index="coalesce(_index, 0)") }} as _seq,
    {{ d.event_time or cdc._instant("_message.es", "epoch_millis") }} as _ts,
    case
        when _is_unreadable then 'unreadable payload'
        when _message.type is null then 'no operation'
        when _message.type <> 'TRUNCATE' and not {{ ddl }} and not {{ rows }} then concat('unknown operation ', _message.type)
        when {{ rows }} and _images._row is null then 'no row'
    end as _cdc_problem,
    {{ cdc._dotted(["_message.database", "_message.table"]) }} as _cdc_table
from changes
{%- endmacro %}
