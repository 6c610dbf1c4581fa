{#-
    Debezium's change events: with and without the schema/payload envelope, or flattened by its unwrap transform, event by
    event as it comes. https://debezium.io/documentation/reference/stable/connectors/

    An update of the key comes as a delete of the old one and a create of the new one at the same position; with `old_key` the
    create is known to continue the old row. Tombstones, messages, heartbeats, borders of transactions and DDL are left out.

    MongoDB's connector writes a document as JSON text inside the JSON. What a whole document does not have is NULL, and not unset.
-#}
{% macro _decode_debezium(d) -%}
    {%- set schema = cdc._debezium_schema(d) -%}
    {%- set marks = "_message.__op, _message.__deleted, _message.payload.__op, _message.payload.__deleted" -%}
    {%- set op = "__cdc_event.op" -%}
with messages as (
    {{ cdc._parsed_messages(schema) | indent(4) }}
),

opened_messages as (
    select
        *,
        case
            when coalesce({{ marks }}) is not null then {{ cdc._debezium_row() }}
            when coalesce(_message.payload.source.collection, _message.source.collection) is not null
                then {{ cdc._debezium_document(d) | indent(16) }}
            else struct(
                coalesce(_message.payload.op, _message.op) as op,
                coalesce(_message.payload.before, _message.before) as before,
                coalesce(_message.payload.after, _message.after) as after,
                coalesce(_message.payload.source, _message.source) as source,
                coalesce(_message.payload.transaction, _message.transaction).total_order as total_order,
                _message._corrupt_record is not null or (_message is null and __cdc_payload is not null) as is_corrupt,
                false as is_whole,
                cast(null as string) as problem
            )
        end as __cdc_event,
        {{ cdc._may_be_unavailable(d) | indent(8) }} as __cdc_may_be_unavailable
    from messages
)

select
    *,
    case
        when __cdc_event.is_corrupt then null
        when {{ op }} in ('c', 'r') then {{ "if(" ~ d.old_key ~ " is not null, 'U', 'I')" if d.old_key else "'I'" }}
        when {{ op }} = 'u' then 'U'
        when {{ op }} = 'd' then 'D'
        when {{ op }} = 't' then 'T'
        when {{ op }} = 'm' or __cdc_payload is null or {{ cdc._debezium_control() }} then 'M'
    end as __cdc_operation,
    {{ cdc._available(d, "__cdc_event.after") | indent(4) }} as __cdc_image,
    case
        {%- if d.old_key %}
        when {{ op }} in ('c', 'r') then {{ cdc._debezium_key(d.old_key) }}
        {%- endif %}
        when {{ op }} = 'u' then {{ cdc._available(d, "__cdc_event.before") | indent(8) }}
        {%- if d.message_key %}
        when {{ op }} = 'd' and __cdc_event.before is null then {{ cdc._debezium_key(d.message_key) }}
        {%- endif %}
        when {{ op }} = 'd' then __cdc_event.before
    end as __cdc_before,
    coalesce(__cdc_event.is_whole, false) as __cdc_is_whole,
    {{ cdc._sequence(d, cdc._debezium_position()) }} as __cdc_seq,
    {{ cdc._event_time(d) or cdc._debezium_time() }} as __cdc_ts,
    case
        when __cdc_event.is_corrupt then 'unreadable payload'
        when __cdc_event.problem is not null then __cdc_event.problem
        when {{ op }} is null then 'no operation'
        when {{ op }} not in ('c', 'r', 'u', 'd', 't', 'm') then concat('unknown operation ', {{ op }})
        when {{ op }} in ('c', 'r', 'u') and __cdc_event.after is null then 'no after image'
    end as __cdc_problem,
    {{ cdc._dotted(["__cdc_event.source.db", "__cdc_event.source.schema",
        "coalesce(__cdc_event.source.table, __cdc_event.source.collection)"]) }} as __cdc_table
from opened_messages
{%- endmacro %}


{#- What is read of a message. Its schema only where a type needs it: it is far longer than the event. -#}
{% macro _debezium_schema(d) -%}
    {%- set source = [] -%}
    {%- for field in cdc._debezium_source_fields() -%}{%- do source.append(field ~ ": string") -%}{%- endfor -%}
    {%- set event = "op string, before map<string, variant>, after map<string, variant>, "
        ~ "source struct<" ~ (source | join(", ")) ~ ">, transaction struct<total_order: string>, __op string, __deleted string" -%}
    {%- set field = "field: string, name: string, parameters: map<string, string>" -%}
    {%- set fields = "schema struct<fields: array<struct<" ~ field ~ ", fields: array<struct<" ~ field ~ ">>>>>, " -%}
    {%- set needed = [] -%}
    {%- for column in d.columns if cdc._needs_field(d, column) -%}{%- do needed.append(column.name) -%}{%- endfor -%}
    {{ return((fields if needed else "") ~ "payload struct<" ~ event ~ ">, " ~ event ~ ", _corrupt_record string") }}
{%- endmacro %}


{#- Whether the text of a column means nothing without the event's own schema. -#}
{% macro _needs_field(d, column) -%}
    {%- set type = cdc._element_type(column.type) or column.type -%}
    {{ return(d.format == "debezium" and column.name not in d.encodings and (type == "date" or type.startswith("timestamp")
        or cdc._decimal_digits(type) is not none)) }}
{%- endmacro %}


{#- How the event's own schema describes a column; NULL where it brings none. -#}
{% macro _debezium_field(d, name) -%}
    {%- set names = [] -%}
    {%- for known in cdc._names_of(d, name) -%}{%- do names.append(cdc._literal(known)) -%}{%- endfor -%}
    {{ return(
        "get(filter(coalesce(get(filter(_message.schema.fields, f -> f.field in ('after', 'before')), 0).fields, transform("
        ~ "_message.schema.fields, f -> struct(f.field, f.name, f.parameters))), f -> f.field in (" ~ (names | join(", ")) ~ ")), 0)"
    ) }}
{%- endmacro %}


{#- What is read of the source block: the table, the commit time, the positions of all connectors. -#}
{% macro _debezium_source_fields() -%}
    {{ return(["db", "schema", "table", "ts_ms", "ts_us", "lsn", "sequence", "file", "pos", "row", "commit_lsn", "change_lsn",
        "event_serial_no", "scn", "commit_scn", "rs_id", "ssn", "collection", "ord", "commit_version"]) }}
{%- endmacro %}


{#- A row flattened by the unwrap transform, in the shape of an unflattened event; it carries the lsn as __lsn or __source_lsn. -#}
{% macro _debezium_row() -%}
    {%- set deleted = "coalesce(lower(cast(flat['__deleted'] as string)) = 'true' or cast(flat['__op'] as string) = 'd', false)" -%}
    get(transform(
        array(coalesce(from_json(__cdc_payload, 'payload map<string, variant>').payload, from_json(__cdc_payload, 'map<string, variant>'))),
        flat -> struct(
            if({{ deleted }}, 'd', coalesce(cast(flat['__op'] as string), 'u')) as op,
            if({{ deleted }}, flat, null) as before,
            if({{ deleted }}, null, flat) as after,
            struct(
                {%- for field in cdc._debezium_source_fields() %}
                {%- set value = "coalesce(flat['__" ~ field ~ "'], flat['__source_" ~ field ~ "'])" %}
                cast({{ value }} as string) as {{ field }}{{ "," if not loop.last }}
                {%- endfor %}
            ) as source,
            cast(flat['__transaction_total_order'] as string) as total_order,
            flat is null as is_corrupt,
            false as is_whole,
            cast(null as string) as problem
        )
    ), 0)
{%- endmacro %}


{#-
    An event of MongoDB's connector, in the shape of the others. An update without the whole document has the changed fields: of a
    column of which only a part changed, it does not say what it is now.
-#}
{% macro _debezium_document(d) -%}
    {%- set source = [] -%}
    {%- for field in cdc._debezium_source_fields() -%}{%- do source.append(field ~ ": string") -%}{%- endfor -%}
    {%- set schema = "op string, before string, after string, filter string, "
        ~ "updateDescription struct<removedFields: array<string>, updatedFields: string, "
        ~ "truncatedArrays: array<struct<field: string>>>, source struct<" ~ (source | join(", "))
        ~ ">, transaction struct<total_order: string>, _corrupt_record string" -%}
    {%- set columns = [] -%}
    {%- for column in cdc._hashed_columns(d) -%}
        {%- for name in cdc._names_of(d, column.name) -%}{%- do columns.append(cdc._literal(name)) -%}{%- endfor -%}
    {%- endfor -%}
    {%- set no_fields = "from_json('{}', 'map<string, variant>')" -%}
    {%- set removed = "array_except(document.removed, array_append(map_keys(document.updated), '_id'))" -%}
    get(transform(
        transform(
            array(from_json(
                coalesce(get_json_object(__cdc_payload, '$.payload'), __cdc_payload),
                '{{ schema }}', map('columnNameOfCorruptRecord', '_corrupt_record')
            )),
            event -> struct(
                event,
                {{ cdc._document("event.before") }} as before,
                {{ cdc._document("event.after") }} as after,
                map_filter({{ cdc._document_key(d) }}, (name, value) -> name = '_id') as key,
                map_filter(
                    coalesce({{ cdc._document("event.updateDescription.updatedFields") }}, {{ no_fields }}),
                    (name, value) -> name <> '_id'
                ) as updated,
                coalesce(event.updateDescription.removedFields, cast(array() as array<string>)) as removed,
                coalesce(event.updateDescription.truncatedArrays.field, cast(array() as array<string>)) as truncated
            )
        ),
        document -> struct(
            document.event.op as op,
            coalesce(document.before, if(document.event.op = 'd', document.key, null)) as before,
            coalesce(document.after, if(
                document.event.op = 'u' and document.event.updateDescription is not null,
                map_concat(
                    coalesce(document.key, {{ no_fields }}),
                    document.updated,
                    map_from_arrays({{ removed }}, transform({{ removed }}, name -> parse_json('null')))
                ),
                null
            )) as after,
            document.event.source as source,
            document.event.transaction.total_order as total_order,
            document.event is null or document.event._corrupt_record is not null as is_corrupt,
            document.after is not null as is_whole,
            if(document.after is null and document.event.op = 'u', get(transform(
                filter(
                    concat(map_keys(document.updated), document.removed, transform(document.truncated, path -> concat(path, '.'))),
                    path -> contains(path, '.') and array_contains(array({{ columns | join(", ") }}), substring_index(path, '.', 1))
                ),
                path -> concat('a part of column ', substring_index(path, '.', 1), ' changed, and the event does not have the whole')
            ), 0), null) as problem
        )
    ), 0)
{%- endmacro %}


{#- A document as a map of its fields. -#}
{% macro _document(text) -%}
    {{ return(cdc._plain_fields("from_json(" ~ text ~ ", 'map<string, variant>')")) }}
{%- endmacro %}


{#- The `_id` of a document: in the filter of an older connector's event, else in the message key, as JSON text inside the JSON. -#}
{% macro _document_key(d) -%}
    {%- if not d.message_key -%}
        {{ return(cdc._document("event.filter")) }}
    {%- endif -%}
    {%- set key = "cast(" ~ d.message_key ~ " as string)" -%}
    {%- set id = "coalesce(get_json_object(" ~ key ~ ", '$.payload.id'), get_json_object(" ~ key ~ ", '$.id'))" -%}
    {%- set named = "map('_id', coalesce(try_parse_json(" ~ id ~ "), cast(" ~ id ~ " as variant)))" -%}
    {{ return("coalesce(" ~ cdc._document("event.filter") ~ ", " ~ cdc._plain_fields(named) ~ ")") }}
{%- endmacro %}


{#- MongoDB's extended JSON as plain values: `{"$oid": ".."}`, `{"$numberLong": ".."}`, `{"$date": ..}` and the like. -#}
{% macro _plain_fields(map) -%}
    {%- set fields = {} -%}
    {%- for name in ["oid", "symbol", "uuid", "date", "binary", "numberLong", "numberInt", "numberDecimal", "numberDouble"] -%}
        {%- do fields.update({name: "try_variant_get(value, '$[\"$" ~ name ~ "\"]', 'string')"}) -%}
    {%- endfor -%}
    {%- set number = "coalesce(" ~ fields.numberLong ~ ", " ~ fields.numberInt ~ ", " ~ fields.numberDecimal ~ ", "
        ~ fields.numberDouble ~ ")" -%}
    {%- set millis = "coalesce(try_variant_get(value, '$[\"$date\"][\"$numberLong\"]', 'string'), " ~ fields.date ~ ")" -%}
    {%- set moment = cdc._moment_of_micros(cdc._epoch_micros(millis, "epoch_millis"), "timestamp_ntz") -%}
    {%- set bytes = "try_variant_get(value, '$[\"$binary\"][\"base64\"]', 'string')" -%}
    transform_values({{ map }}, (name, value) -> if(
        contains(to_json(value), '"$'),
        coalesce(
            try_parse_json({{ number }}),
            cast(coalesce(
                {{ number }}, concat(cast({{ moment }} as string), 'Z'), {{ millis }}, {{ bytes }}, {{ fields.binary }},
                {{ fields.oid }}, {{ fields.uuid }}, {{ fields.symbol }}
            ) as variant),
            value
        ),
        value
    ))
{%- endmacro %}


{#- A message key or the old key of a header: JSON text, with or without the envelope. -#}
{% macro _debezium_key(expression) -%}
    {%- set text = "cast(" ~ expression ~ " as string)" -%}
    {{ return("coalesce(from_json(" ~ text ~ ", 'payload map<string, variant>').payload, from_json(" ~ text
        ~ ", 'map<string, variant>'))") }}
{%- endmacro %}


{#- Messages without an operation that are no changes: an enveloped tombstone, a heartbeat, a transaction's border, DDL. -#}
{% macro _debezium_control() -%}
    {%- set body = "coalesce(get_json_object(__cdc_payload, '$.payload'), __cdc_payload)" -%}
    coalesce(
        __cdc_event.op is null
        and (
            json_object_keys({{ body }}) = array('ts_ms')
            or (get_json_object({{ body }}, '$.status') in ('BEGIN', 'END') and get_json_object({{ body }}, '$.id') is not null)
            or get_json_object({{ body }}, '$.ddl') is not null
            or array_sort(json_object_keys(__cdc_payload)) = array('payload', 'schema')
            and get_json_object(__cdc_payload, '$.payload') is null
        ),
        false
    )
{%- endmacro %}


{#-
    The position, by what the connector gives: PostgreSQL (last commit before the transaction, lsn), MySQL (binlog file, offset,
    row), SQL Server and Db2 (commit lsn, change lsn, serial number), Oracle (commit SCN, SCN, rs_id, ssn), our own exports
    (commit of the table, deletes first), MongoDB (time of the operation log, order in that second). In PostgreSQL transactions
    overlap, so that the lsn alone would not order them as they were committed.
-#}
{% macro _debezium_position() -%}
    {%- set n = {} -%}
    {%- for field in ["lsn", "pos", "row", "event_serial_no", "scn", "commit_scn", "ssn", "ts_ms", "ord",
        "commit_version"] -%}
        {%- do n.update({field: "try_cast(__cdc_event.source." ~ field ~ " as bigint)"}) -%}
    {%- endfor -%}
    {#- Rows of PostgreSQL's incremental snapshots have their lsn in the sequence alone, `["22371240","22372032"]`. -#}
    {%- set part = "try_cast(split_part(__cdc_event.source.sequence, '\"', {}) as bigint)" -%}
    {%- do n.update({"lsn": "coalesce(" ~ n.lsn ~ ", " ~ part.format(-2) ~ ")"}) -%}
    {%- set order = "coalesce(try_cast(__cdc_event.total_order as bigint), 0L)" -%}
    {%- set file = cdc._binlog_file("__cdc_event.source.file") -%}
    case
        when {{ n.lsn }} is not null then array(
            coalesce({{ part.format(2) }}, {{ n.lsn }}), {{ n.lsn }}, {{ order }}
        )
        when {{ file }} is not null and {{ n.pos }} is not null
            then array({{ file }}, {{ n.pos }}, coalesce({{ n.row }}, 0L), {{ order }})
        when __cdc_event.source.commit_lsn is not null then concat(
            {{ cdc._hex_position("__cdc_event.source.commit_lsn", ":", 3) }},
            {{ cdc._hex_position("__cdc_event.source.change_lsn", ":", 3) }},
            array(coalesce({{ n.event_serial_no }}, 0L), {{ order }})
        )
        when {{ n.scn }} is not null then concat(
            array(coalesce({{ n.commit_scn }}, {{ n.scn }}), {{ n.scn }}),
            {{ cdc._hex_position("__cdc_event.source.rs_id", ".", 3) }},
            array(coalesce({{ n.ssn }}, 0L), {{ order }})
        )
        when {{ n.commit_version }} is not null then array({{ n.commit_version }}, coalesce({{ n.ord }}, 0L), {{ order }})
        when {{ n.ts_ms }} is not null and {{ n.ord }} is not null then array({{ n.ts_ms }}, {{ n.ord }}, {{ order }})
    end
{%- endmacro %}


{#- The commit at the source. The event's own ts_ms is the connector's clock; flattened rows may carry nothing else. -#}
{% macro _debezium_time() -%}
    {{ return("coalesce(" ~ cdc._instant("__cdc_event.source.ts_us", "epoch_micros") ~ ", "
        ~ cdc._instant("__cdc_event.source.ts_ms", "epoch_millis") ~ ")") }}
{%- endmacro %}


{#- An image without the values that were not logged. Spark interprets lambdas, so that no other event goes through this one. -#}
{% macro _available(d, image) -%}
    if(
        __cdc_may_be_unavailable,
        map_filter({{ image }}, (name, value) -> not {{ cdc._is_unavailable(d, "value") }}),
        {{ image }}
    )
{%- endmacro %}


{#-
    Whether a value may be missing from an event's images: its text holds a placeholder. The character codes and uuids in arrays are
    not found that way.
-#}
{% macro _may_be_unavailable(d) -%}
    {%- for column in d.columns if cdc._element_type(column.type) -%}
        {{ return("true") }}
    {%- endfor -%}
    {%- set text = cdc._literal(d.unavailable_value) -%}
    contains(__cdc_payload, {{ text }})
    or contains(__cdc_payload, base64(cast({{ text }} as binary)))
    or contains(__cdc_payload, lower(hex({{ text }})))
{%- endmacro %}


{#-
    Whether a value is Debezium's placeholder for one that did not change and was not logged. It takes the shape of the column's
    type: text, bytes in base64 or hexadecimal, arrays of these, its character codes in arrays of numbers, a fixed uuid in
    arrays of uuids, and key and value of an hstore.
-#}
{% macro _is_unavailable(d, value) -%}
    {%- set text = cdc._literal(d.unavailable_value) -%}
    {%- set printable = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~" -%}
    {%- set codes = [] -%}
    {%- for letter in d.unavailable_value -%}
        {%- do codes.append(printable.find(letter) + 32) -%}
    {%- endfor -%}
    {%- set md5 = local_md5(d.unavailable_value) -%}
    {%- set variant_digit = "89ab"["0123456789abcdef".find(md5[16]) % 4] -%}
    {%- set uuid = md5[:8] ~ "-" ~ md5[8:12] ~ "-3" ~ md5[13:16] ~ "-" ~ variant_digit ~ md5[17:20] ~ "-" ~ md5[20:] -%}
    {%- set bytes = "base64(cast(" ~ text ~ " as binary))" -%}
    coalesce(cast({{ value }} as string) in (
        {{ text }},
        {{ bytes }},
        lower(hex({{ text }})),
        concat('["', {{ text }}, '"]'),
        concat('["', {{ bytes }}, '"]'),
        '[{{ codes | join(",") }}]',
        '["{{ uuid }}"]',
        concat('{"', {{ text }}, '":"', {{ text }}, '"}')
    ), false)
{%- endmacro %}
