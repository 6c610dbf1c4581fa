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
        * except (__cdc_payload),
        _message.data as __cdc_row,
        coalesce(_message.old, cast(array() as array<map<string, variant>>)) as __cdc_old,
        if(size(_message.data) > 1, from_json(get_json_object(__cdc_payload, '$.mysqlType'), 'map<string, string>'), null) as __cdc_types,
        {#- Each row of a large message would carry the whole of it. -#}
        if(size(_message.data) > 1, null, __cdc_payload) as __cdc_whole_payload
    from messages
),

changes as (
    select
        *,
        coalesce(
            __cdc_whole_payload,
            to_json(struct(
                _message.database as database,
                _message.table as table,
                _message.type as type,
                _message.es as es,
                __cdc_types as mysqlType,
                array(__cdc_images.__cdc_row) as data,
                array(__cdc_images.__cdc_old) as old
            ))
        ) as __cdc_payload
    from images
    lateral view outer posexplode(arrays_zip(__cdc_row, __cdc_old)) changes as __cdc_index, __cdc_images
)

select
    *,
    case
        when __cdc_is_unreadable then null
        when _message.type = 'TRUNCATE' then 'T'
        when {{ ddl }} then 'M'
        when _message.type in ('INSERT', 'INIT') then 'I'
        when _message.type in ('UPDATE', 'DELETE') then left(_message.type, 1)
    end as __cdc_operation,
    __cdc_images.__cdc_row as __cdc_image,
    case _message.type when 'UPDATE' then __cdc_images.__cdc_old when 'DELETE' then __cdc_images.__cdc_row end as __cdc_before,
    {{ cdc._sequence(d, index="coalesce(__cdc_index, 0)") }} as __cdc_seq,
    {{ cdc._event_time(d) or cdc._instant("_message.es", "epoch_millis") }} as __cdc_ts,
    case
        when __cdc_is_unreadable then 'unreadable payload'
        when _message.type is null then 'no operation'
        when _message.type <> 'TRUNCATE' and not {{ ddl }} and not {{ rows }} then concat('unknown operation ', _message.type)
        when {{ rows }} and __cdc_images.__cdc_row is null then 'no row'
    end as __cdc_problem,
    {{ cdc._dotted(["_message.database", "_message.table"]) }} as __cdc_table
from changes
{%- endmacro %}
