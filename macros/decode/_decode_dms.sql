{#-
    AWS Database Migration Service: messages of its Kafka and Kinesis targets (`payload`), or rows of its S3 target with the
    column Op. https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.html

    A column that is missing is NULL: DMS leaves NULLs out. Loaded rows come before all changes, since they carry no position;
    changes are ordered by commit time, transaction and record.
-#}
{% macro _decode_dms(d) -%}
    {{ return(cdc._decode_dms_messages(d) if d.payload else cdc._decode_dms_rows(d)) }}
{%- endmacro %}


{% macro _decode_dms_messages(d) -%}
    {%- set schema = "data map<string, variant>, `before-image` map<string, variant>, metadata map<string, string>, "
        ~ "_corrupt_record string" -%}
    {%- set operation = "_message.metadata['operation']" -%}
    {%- set committed = "try_cast(_message.metadata['commit-timestamp'] as timestamp)" -%}
    {#- When DMS wrote a record is no position: changes that were committed earlier are written later. -#}
    {%- set time -%}
        coalesce(
            {{ committed }},
            if({{ operation }} in ('load', 'truncate-table'), try_cast(_message.metadata['timestamp'] as timestamp), null)
        )
    {%- endset -%}
    {%- set position -%}
        case
            when {{ operation }} = 'load' then array(0L, 0L, 0L)
            when {{ committed }} is not null then array(
                unix_micros({{ committed }}),
                coalesce(try_cast(_message.metadata['transaction-id'] as bigint), 0L),
                coalesce(try_cast(_message.metadata['transaction-record-id'] as bigint), 0L)
            )
        end
    {%- endset -%}
    {%- set control = "coalesce(_message.metadata['record-type'] = 'control', false)" -%}
with messages as (
    {{ cdc._parsed_messages(schema) | indent(4) }}
)

select
    *,
    case
        when __cdc_is_unreadable then null
        when {{ operation }} in ('load', 'insert') then 'I'
        when {{ operation }} in ('update', 'delete') then upper(left({{ operation }}, 1))
        when {{ operation }} = 'truncate-table' then 'T'
        when {{ control }} then 'M'
    end as __cdc_operation,
    _message.data as __cdc_image,
    if({{ operation }} = 'delete', _message.data, coalesce(_message.`before-image`, {{ cdc._dms_before("_message.data") }})) as __cdc_before,
    {{ cdc._sequence(d, position) }} as __cdc_seq,
    {{ cdc._event_time(d) or time }} as __cdc_ts,
    case
        when __cdc_is_unreadable then 'unreadable payload'
        when {{ operation }} is null then 'no operation'
        when {{ operation }} not in ('load', 'insert', 'update', 'delete', 'truncate-table') and not {{ control }}
            then concat('unknown operation ', {{ operation }})
        {%- if not d.sequence_by %}
        when {{ operation }} = 'truncate-table' and {{ committed }} is null
            then 'truncate-table has no commit time to order it by: declare `sequence_by`'
        {%- endif %}
        when _message.data is null and {{ operation }} <> 'truncate-table' then 'no row'
    end as __cdc_problem,
    {{ cdc._dotted(["_message.metadata['schema-name']", "_message.metadata['table-name']"]) }} as __cdc_table
from messages
{%- endmacro %}


{#- Rows of files. Op is missing, or empty, in a full load. -#}
{% macro _decode_dms_rows(d) -%}
    {%- set given = d.operation or "cast(coalesce(__cdc_row['Op'], __cdc_row['op'], __cdc_row['OP']) as string)" -%}
    {%- set op = "nullif(upper(trim(" ~ given ~ ")), '')" -%}
    {%- set declared = cdc._sequence(d) -%}
with file_rows as (
    select
        *,
        from_json(__cdc_payload, 'map<string, variant>') as __cdc_row
    from raw_events
)

select
    *,
    case when {{ op }} is null then 'I' when {{ op }} in ('I', 'U', 'D') then {{ op }} end as __cdc_operation,
    __cdc_row as __cdc_image,
    if({{ op }} = 'D', __cdc_row, {{ cdc._dms_before("__cdc_row") }}) as __cdc_before,
    case
        when {{ op }} is null or ({{ declared }}) is not null
            then struct(if({{ op }} is null, 0, 1) as phase, {{ declared }} as position)
    end as __cdc_seq,
    {%- if d.event_time %}
    {{ cdc._event_time(d) }} as __cdc_ts,
    {%- endif %}
    case when {{ op }} not in ('I', 'U', 'D') then concat('unknown operation ', {{ op }}) end as __cdc_problem,
    {#- A file holds one table; where several are read as one, `where` tells them apart. -#}
    cast(null as string) as __cdc_table
from file_rows
{%- endmacro %}


{#- The before image among the columns of the row, as BI_<column>. -#}
{% macro _dms_before(row) -%}
    {%- set before = "map_filter(" ~ row ~ ", (name, value) -> startswith(name, 'BI_'))" -%}
    {{ return(
        "case when exists(map_keys(" ~ row ~ "), name -> startswith(name, 'BI_')) and size(array_distinct(map_keys(" ~ row
        ~ "))) = size(" ~ row ~ ") then transform_keys(" ~ before ~ ", (name, value) -> substr(name, 4)) end"
    ) }}
{%- endmacro %}
