{#-
    Oracle GoldenGate's JSON: operations with `before` and `after`, or rows with the columns beside the metadata.
    https://docs.oracle.com/en/middleware/goldengate/big-data/

    The order is `pos`, a number with leading zeros. `current_ts` is the clock of the writer and differs from replay to replay.
-#}
{% macro _decode_goldengate(d) -%}
    {%- set schema = "table string, op_type string, op_ts string, pos string, before map<string, variant>, "
        ~ "after map<string, variant>, _corrupt_record string" -%}
    {%- set op = "upper(trim(" ~ (d.operation or "_message.op_type") ~ "))" -%}
    {%- set names = {"I": "'I', 'INSERT'", "U": "'U', 'UPDATE'", "D": "'D', 'DELETE'", "T": "'T', 'TRUNCATE'"} -%}
with messages as (
    {{ cdc._parsed_messages(schema) | indent(4) }}
),

images as (
    select
        *,
        case
            when __cdc_is_unreadable then null
            {%- for letter, words in names.items() %}
            when {{ op }} in ({{ words }}) then '{{ letter }}'
            {%- endfor %}
        end as __cdc_operation,
        {{ cdc._goldengate_present("_message.before") }} as __cdc_old_image,
        case
            when _message.before is not null or _message.after is not null then {{ cdc._goldengate_present("_message.after") }}
            {#- Asked here and not above, where Spark would look for the keys of every event. -#}
            else
                case
                    when
                        not array_contains(json_object_keys(__cdc_payload), 'before')
                        and not array_contains(json_object_keys(__cdc_payload), 'after')
                        then {{ cdc._goldengate_present("from_json(__cdc_payload, 'map<string, variant>')") }}
                end
        end as __cdc_image
    from messages
)

select
    *,
    case __cdc_operation when 'D' then coalesce(__cdc_old_image, __cdc_image) when 'U' then __cdc_old_image end as __cdc_before,
    {{ cdc._sequence(d, "try_cast(case when _message.pos rlike '^[0-9]+$' then _message.pos end as decimal(38, 0))") }} as __cdc_seq,
    {{ cdc._event_time(d) or "try_cast(_message.op_ts as timestamp)" }} as __cdc_ts,
    case
        when __cdc_is_unreadable then 'unreadable payload'
        when {{ op }} is null then 'no operation'
        when __cdc_operation is null then concat('unknown operation ', {{ d.operation or "_message.op_type" }})
        when __cdc_operation in ('I', 'U') and __cdc_image is null then 'no after image'
    end as __cdc_problem,
    nullif(_message.table, '') as __cdc_table
from images
{%- endmacro %}


{#- An image without the columns that it marks as missing: their NULL means that they did not change. -#}
{% macro _goldengate_present(image) -%}
    {%- set missing = "cast(image[concat(name, '_isMissing')] as string) = 'true'" -%}
    if(
        contains(__cdc_payload, '_isMissing'),
        get(transform(
            array({{ image }}),
            image -> map_filter(image, (name, value) -> not endswith(name, '_isMissing') and not coalesce({{ missing }}, false))
        ), 0),
        {{ image }}
    )
{%- endmacro %}
