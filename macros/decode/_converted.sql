{#-
    A value in its declared type. What the type cannot hold exactly becomes NULL here, with all that it is a part of, and is named
    by `_misfit`: nothing is rounded, cut off or guessed. A floating-point number is the nearest one.
-#}
{% macro _converted(d, value, type, name=none) -%}
    {{ return(cdc._typed_value(value, type) if d.traits.columns else cdc._text_value(d, value, type, name)) }}
{%- endmacro %}


{#-
    A raw column in its declared type. Spark knows `typeof` while it plans, so that of these branches one is left, and of a column
    that has its declared type already nothing but the column. What a plain cast would cut is converted from its text, as in all
    formats.
-#}
{% macro _typed_value(value, type) -%}
    {%- set raw = "typeof(" ~ value ~ ")" -%}
    {%- set same = "lower(" ~ raw ~ ") = lower(typeof(cast(null as " ~ type ~ ")))" -%}
    {%- set plain = "try_cast(" ~ value ~ " as " ~ type ~ ")" -%}
    {%- set text = "cast(" ~ value ~ " as string)" -%}
    {%- if type in cdc._integer_types() -%}
        {%- set whole = "try_cast(" ~ cdc._exact_decimal(text, "decimal(20,0)") ~ " as " ~ type ~ ")" -%}
        {{ return("if(" ~ raw ~ " rlike '^(float|double|decimal|timestamp)', " ~ whole ~ ", " ~ plain ~ ")") }}
    {%- elif cdc._decimal_digits(type) -%}
        {{ return("if(" ~ same ~ " or " ~ raw ~ " rlike 'int$', " ~ plain ~ ", " ~ cdc._exact_decimal(text, type) ~ ")") }}
    {%- elif type == "double" -%}
        {{ return("if(" ~ raw ~ " <> 'string', " ~ plain ~ ", " ~ cdc._finite(text, type) ~ ")") }}
    {%- elif type in ["float", "real"] -%}
        {{ return("if(" ~ raw ~ " not rlike '^(string|double|decimal)', " ~ plain ~ ", " ~ cdc._finite(text, type) ~ ")") }}
    {%- elif type == "date" or type.startswith("timestamp") -%}
        {{ return("if(" ~ same ~ ", " ~ plain ~ ", " ~ cdc._moment_of_text(text, type) ~ ")") }}
    {%- elif type == "boolean" -%}
        {{ return("if(" ~ same ~ ", " ~ plain ~ ", try_cast(" ~ text ~ " as boolean))") }}
    {%- elif type.startswith("array<") or type.startswith("struct<") -%}
        {%- set json = "cast(from_json(" ~ cdc._as_json("struct(" ~ value ~ " as value)")
            ~ ", 'value variant').value as string)" -%}
        {{ return("if(" ~ same ~ ", " ~ plain ~ ", " ~ cdc._nested_value(cdc._plain_json(), json, type) ~ ")") }}
    {%- endif -%}
    {{ return(plain) }}
{%- endmacro %}


{#- Text to a declared type. -#}
{% macro _text_value(d, text, type, name) -%}
    {%- set encoding = d.encodings.get(name) -%}
    {%- if type == "string" -%}
        {{ return(cdc._labels(d, text, name) if encoding == "labels" else text) }}
    {%- elif type == "binary" -%}
        {{ return(cdc._bytes(text, encoding or d.traits.bytes or "hex")) }}
    {%- elif cdc._decimal_digits(type) -%}
        {%- set plain = cdc._exact_decimal(text, type) -%}
        {%- if not cdc._keeps_tokens(d, type) and encoding != "base64" -%}
            {{ return(plain) }}
        {%- endif -%}
        {%- set written = "get(transform(array(" ~ cdc._number_text(d, text, type, name) ~ "), number -> "
            ~ cdc._exact_decimal("number", type) ~ "), 0)" -%}
        {#- Spark interprets lambdas: a number that stands there as one needs none. -#}
        {{ return(written if encoding else "case when left(" ~ text ~ ", 1) in ('\"', '{') then " ~ written ~ " else " ~ plain ~ " end") }}
    {%- elif type == "date" or type.startswith("timestamp") -%}
        {{ return(cdc._moment(d, text, type, name)) }}
    {%- elif type in ["float", "real", "double"] -%}
        {{ return(cdc._finite(text, type)) }}
    {%- elif type.startswith("array<") or type.startswith("struct<") -%}
        {{ return(cdc._nested_value(d, text, type, name)) }}
    {%- elif type.startswith("map<") -%}
        {{ return("from_json(" ~ text ~ ", " ~ cdc._literal(type) ~ ")") }}
    {%- endif -%}
    {{ return("try_cast(" ~ text ~ " as " ~ type ~ ")") }}
{%- endmacro %}


{#-
    JSON text to an array or struct: part by part, for from_json would give NULL for a part that does not fit, and pass numbers
    through a double. A part that does not fit makes the whole NULL. Fields that are not declared are not read, as columns are
    not; an object that has fields but none of the declared ones does not fit.
-#}
{% macro _nested_value(d, text, type, name=none, depth=0) -%}
    {%- set item, parts, whole = "item_" ~ depth, "parts_" ~ depth, "whole_" ~ depth -%}
    {%- set inner = cdc._item_type(type) -%}
    {%- if inner == "string" -%}
        {{ return("cast(from_json(" ~ text ~ ", 'array<variant>') as array<string>)") }}
    {%- elif inner -%}
        {%- set given = "nullif(to_json(" ~ item ~ "), 'null')" if cdc._keeps_tokens(d, inner)
            else "cast(" ~ item ~ " as string)" -%}
        {%- set value = cdc._part_value(d, given, inner, name, depth) -%}
        {{ return("get(transform(array(transform(from_json(" ~ text ~ ", 'array<variant>'), " ~ item ~ " -> struct(" ~ given
            ~ " is not null as given, " ~ value ~ " as value))), " ~ parts ~ " -> if(exists(" ~ parts
            ~ ", part -> part.given and part.value is null), null, " ~ parts ~ ".value)), 0)") }}
    {%- endif -%}
    {%- set names, texts, values, misfits = [], [], [], [] -%}
    {%- for field, field_type in cdc._struct_fields(type).items() -%}
        {%- set name_of_field = field | replace("`", "") -%}
        {%- set at, quoted = cdc._quoted(loop.index), cdc._quoted(name_of_field) -%}
        {%- do names.append(cdc._literal(name_of_field | lower)) -%}
        {%- do texts.append("cast(get(map_values(map_filter(" ~ item ~ ", (field, value) -> lower(field) = " ~ names | last
            ~ ")), 0) as string) as " ~ at) -%}
        {%- do values.append(cdc._part_value(cdc._plain_json(d.traits.bytes), parts ~ "." ~ at, field_type, none, depth)
            ~ " as " ~ quoted) -%}
        {%- do misfits.append("(" ~ parts ~ "." ~ at ~ " is not null and " ~ whole ~ "." ~ quoted ~ " is null)") -%}
    {%- endfor -%}
    {%- set known = "(size(" ~ item ~ ") = 0 or exists(map_keys(" ~ item ~ "), field -> lower(field) in ("
        ~ (names | join(", ")) ~ ")))" -%}
    {{ return("get(transform(array(from_json(" ~ text ~ ", 'map<string, variant>')), " ~ item ~ " -> if(" ~ known
        ~ ", get(transform(array(struct(" ~ (texts | join(", ")) ~ ")), " ~ parts ~ " -> get(transform(array(struct(" ~ (values | join(", "))
        ~ ")), " ~ whole ~ " -> if(" ~ (misfits | join(" or ")) ~ ", null, " ~ whole ~ ")), 0)), 0), null)), 0)") }}
{%- endmacro %}


{% macro _part_value(d, text, type, name, depth) -%}
    {%- if type.startswith("array<") or type.startswith("struct<") -%}
        {{ return(cdc._nested_value(d, text, type, name, depth + 1)) }}
    {%- endif -%}
    {{ return(cdc._text_value(d, text, type, name)) }}
{%- endmacro %}


{#- How the fields of a struct are read: as they stand in JSON that no format has its own way with. -#}
{% macro _plain_json(bytes="base64") -%}
    {{ return({"format": none, "traits": {"bytes": bytes or "base64"}, "encodings": {}}) }}
{%- endmacro %}


{#- True where a value is there but its type cannot hold it exactly. -#}
{% macro _misfit(d, column) -%}
    {%- if column.type == "string" and column.name not in d.encodings -%}
        {{ return("false") }}
    {%- endif -%}
    {#- In this order: what fits is not made text to see that it is there. -#}
    {{ return(cdc._quoted(column.name) ~ " is null and cast(" ~ cdc._given(column.name) ~ " as string) is not null") }}
{%- endmacro %}


{#-
    The labels of MySQL's ENUM or SET for the number that Canal gives: the place of the label, or a bit for each. They stand in
    the type that the message states. A number without a label becomes NULL, and so do all where the message states no type.
-#}
{% macro _labels(d, number, name) -%}
    {%- set names = [] -%}
    {%- for known in cdc._names_of(d, name) -%}{%- do names.append(cdc._literal(known | lower)) -%}{%- endfor -%}
    {%- set types = "from_json(get_json_object(_payload, '$.mysqlType'), 'map<string, string>')" -%}
    {%- set kind = "get(map_values(map_filter(" ~ types ~ ", (name, type) -> lower(name) in (" ~ (names | join(", "))
        ~ "))), 0)" -%}
    {%- set labels = "transform(regexp_extract_all(kind, " ~ cdc._literal("'((?:[^']|'')*)'") ~ ", 1), label -> replace(label, "
        ~ cdc._literal("''") ~ ", " ~ cdc._literal("'") ~ "))" -%}
    {%- set bits = "reverse(conv(" ~ number ~ ", 10, 2))" -%}
    {{ return("case when " ~ number ~ " is not null then get(transform(transform(array(" ~ kind
        ~ "), kind -> struct(lower(left(kind, 4)) as kind, " ~ labels ~ " as labels)), type -> case"
        ~ " when type.kind = 'enum' and " ~ number ~ " = '0' then ''"
        ~ " when type.kind = 'enum' then get(type.labels, try_cast(" ~ number ~ " as int) - 1)"
        ~ " when type.kind = 'set(' and " ~ number ~ " rlike '^[0-9]{1,20}$'"
        ~ " and cast(" ~ number ~ " as decimal(20, 0)) <= 18446744073709551615"
        ~ " and length(" ~ bits ~ ") <= greatest(size(type.labels), 1)"
        ~ " then array_join(filter(type.labels, (label, place) -> substr(" ~ bits ~ ", place + 1, 1) = '1'), ',') end), 0) end") }}
{%- endmacro %}


{#- What a column of this type can be encoded as, besides plain text. -#}
{% macro _encodings_of(type, format=none) -%}
    {%- if cdc._element_type(type) -%}
        {{ return(cdc._encodings_of(cdc._element_type(type))) }}
    {%- elif type == "string" and format == "canal" -%}
        {{ return(["labels"]) }}
    {%- elif type == "date" or type.startswith("timestamp") -%}
        {{ return(["iso", "epoch_days", "epoch_seconds", "epoch_millis", "epoch_micros", "epoch_nanos"]) }}
    {%- elif cdc._decimal_digits(type) -%}
        {{ return(["number", "base64"]) }}
    {%- elif type == "binary" -%}
        {{ return(["hex", "base64", "latin1", "text"]) }}
    {%- endif -%}
    {{ return([]) }}
{%- endmacro %}


{#- The type of an array's elements, where they are plain. -#}
{% macro _element_type(type) -%}
    {%- set found = modules.re.fullmatch("array<\\s*([^<>]+?)\\s*>", type) -%}
    {{ return(found.group(1) if found else none) }}
{%- endmacro %}


{#- Precision and scale, none where the type is no decimal. -#}
{% macro _decimal_digits(type) -%}
    {%- set found = modules.re.fullmatch("(?:decimal|dec|numeric)(?:\\(\\s*(\\d+)\\s*(?:,\\s*(\\d+)\\s*)?\\))?", type) -%}
    {{ return([(found.group(1) or 10) | int, (found.group(2) or 0) | int] if found else none) }}
{%- endmacro %}


{% macro _integer_types() -%}
    {{ return(["tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"]) }}
{%- endmacro %}


{#- A cast to decimal rounds in silence. Few texts have more digits behind the point than the scale: only those are looked at. -#}
{% macro _exact_decimal(text, type) -%}
    {%- set scale = cdc._decimal_digits(type)[1] -%}
    {%- set point = "locate('.', " ~ text ~ ")" -%}
    {%- set short = "(" ~ point ~ " = 0 or length(" ~ text ~ ") - " ~ point ~ " <= " ~ scale ~ ") and not contains(" ~ text
        ~ ", 'E') and not contains(" ~ text ~ ", 'e')" -%}
    {%- set fraction = "length(rtrim('0', regexp_extract(" ~ text ~ ", '[.]([0-9]*)', 1)))" -%}
    {%- set exponent = "coalesce(try_cast(nullif(regexp_extract(" ~ text ~ ", '[eE]([-+]?[0-9]+)', 1), '') as int), 0)" -%}
    {%- set is_zero = text ~ " rlike '^ *[-+]?[0.]+[eE]'" -%}
    {{ return("case when (" ~ short ~ ") or " ~ fraction ~ " - " ~ exponent ~ " <= " ~ scale ~ " or " ~ is_zero ~ " then try_cast("
        ~ text ~ " as " ~ type ~ ") end") }}
{%- endmacro %}


{#- Beyond the largest number a cast to a floating-point type answers infinity. -#}
{% macro _finite(text, type) -%}
    {%- set number = "try_cast(" ~ text ~ " as " ~ type ~ ")" -%}
    {{ return("case when not (abs(" ~ number ~ ") = double('infinity') and " ~ text ~ " not ilike '%inf%') then "
        ~ number ~ " end") }}
{%- endmacro %}


{% macro _bytes(text, encoding) -%}
    {%- if encoding == "hex" -%}
        {{ return("try_to_binary(ltrim('\\\\x', " ~ text ~ "), 'hex')") }}
    {%- elif encoding == "latin1" -%}
        {{ return("case when " ~ text ~ " not rlike '[^\\\\x00-\\\\xff]' then encode(" ~ text ~ ", 'iso-8859-1') end") }}
    {%- elif encoding == "text" -%}
        {{ return("cast(" ~ text ~ " as binary)") }}
    {%- endif -%}
    {{ return("try_to_binary(" ~ text ~ ", 'base64')") }}
{%- endmacro %}


{#- A date or time: ISO text, or a number since 1970 whose unit is declared or stands in the event's own schema. -#}
{% macro _moment(d, text, type, name) -%}
    {%- set encoding = d.encodings.get(name) -%}
    {%- if encoding == "iso" or (not encoding and d.format != "debezium") -%}
        {{ return(cdc._moment_of_text(cdc._date_text(d, text, type), type)) }}
    {%- elif encoding -%}
        {{ return(cdc._moment_of_micros(cdc._epoch_micros(text, encoding), type)) }}
    {%- endif -%}
    {%- set number = "try_cast(" ~ text ~ " as bigint)" -%}
    {%- set micros -%}
        case substring_index({{ cdc._field(name) }}.name, '.', -1)
            when 'Timestamp' then {{ cdc._epoch_micros(text, "epoch_millis") }}
            when 'MicroTimestamp' then {{ cdc._epoch_micros(text, "epoch_micros") }}
            when 'NanoTimestamp' then {{ cdc._epoch_micros(text, "epoch_nanos") }}
            {{ "else" if type == "date" else "when 'Date' then" }} {{ cdc._epoch_micros(text, "epoch_days") }}
        end
    {%- endset -%}
    case
        when {{ number }} is null then {{ cdc._moment_of_text(cdc._date_text(d, text, type), type) }}
        else get(transform(array({{ micros }}), micros -> {{ cdc._moment_of_micros("micros", type) }}), 0)
    end
{%- endmacro %}


{#- Debezium writes a date with a zone, `2020-02-29Z`, which Spark does not read (`time.precision.mode: isostring`). -#}
{% macro _date_text(d, text, type) -%}
    {%- if d.format != "debezium" or type != "date" -%}
        {{ return(text) }}
    {%- endif -%}
    {{ return("if(length(" ~ text ~ ") = 11, rtrim('Z', " ~ text ~ "), " ~ text ~ ")") }}
{%- endmacro %}


{#-
    Spark also reads 'now', '12:00' and '2020' as times, cuts fractions off behind the sixth digit, times off a date, and the zone
    off a time without one: there only UTC stands for no zone, as Debezium writes it (`time.precision.mode: isostring`).
-#}
{% macro _moment_of_text(text, type) -%}
    {%- set whole = "" if type != "date" else " and (length(" ~ text ~ ") <= 10 or try_cast(" ~ text
        ~ " as timestamp_ntz) = cast(try_cast(" ~ text ~ " as date) as timestamp_ntz))" -%}
    {%- set zoneless = "" if type != "timestamp_ntz" else " and not (substr(" ~ text ~ ", 12) rlike '[-+A-Za-z]' and " ~ text
        ~ " not rlike '(Z|UTC|GMT|[-+]00(:?00)?)$')" -%}
    {%- set cut = " and not (locate('.', " ~ text ~ ") between 1 and length(" ~ text ~ ") - 7 and " ~ text
        ~ " rlike '[.][0-9]{6}[0-9]*[1-9]')" -%}
    {{ return("case when substr(" ~ text ~ ", 5, 1) = '-' and length(" ~ text ~ ") >= 8" ~ cut ~ zoneless ~ whole
        ~ " then try_cast(" ~ text ~ " as " ~ type ~ ") end") }}
{%- endmacro %}


{#- Microseconds since 1970, NULL where they do not hold the value. -#}
{% macro _epoch_micros(text, unit) -%}
    {%- set number = "try_cast(" ~ text ~ " as bigint)" -%}
    {%- if unit == "epoch_nanos" -%}
        {{ return("if(" ~ number ~ " % 1000 = 0, " ~ number ~ " div 1000, null)") }}
    {%- elif unit == "epoch_micros" -%}
        {{ return(number) }}
    {%- endif -%}
    {{ return("try_multiply(" ~ number ~ ", " ~ {"epoch_days": 86400000000, "epoch_seconds": 1000000, "epoch_millis": 1000}[unit]
        ~ "L)") }}
{%- endmacro %}


{#- In the years 1 to 9999, as other readers of the tables know no others. -#}
{% macro _moment_of_micros(micros, type) -%}
    case
        when {{ micros }} between -62135596800000000 and 253402300799999999 then
            {%- if type == "date" %}
            if({{ micros }} % 86400000000 = 0, date_add(date'1970-01-01', cast({{ micros }} div 86400000000 as int)), null)
            {%- elif type == "timestamp_ntz" %}
            timestampadd(microsecond, {{ micros }}, timestamp_ntz'1970-01-01 00:00:00')
            {%- else %}
            timestamp_micros({{ micros }})
            {%- endif %}
    end
{%- endmacro %}


{#- A number since 1970 as a timestamp. -#}
{% macro _instant(text, unit) -%}
    {{ return(cdc._moment_of_micros(cdc._epoch_micros(text, unit), "timestamp")) }}
{%- endmacro %}


{#- Whether the text of a value must show if it was a number or a text: Debezium writes decimals as base64. -#}
{% macro _keeps_tokens(d, type) -%}
    {{ return(d.format == "debezium" and cdc._decimal_digits(type) is not none) }}
{%- endmacro %}


{#-
    The text of a decimal. Debezium writes it as a number, as text, as the bytes of its unscaled value, or as these bytes with a
    scale. Text that could be read both as a number and as bytes is not guessed at.
-#}
{% macro _number_text(d, text, type, name) -%}
    {%- set inner = "trim(both '\"' from " ~ text ~ ")" if cdc._keeps_tokens(d, type) else text -%}
    {%- set scale = "cast(" ~ cdc._decimal_digits(type)[1] ~ " as int)" -%}
    {%- set field = cdc._field(name) -%}
    {%- if d.encodings.get(name) == "base64" -%}
        {{ return(cdc._number_of_bytes(inner, scale)) }}
    {%- elif d.encodings.get(name) == "number" -%}
        {{ return(inner) }}
    {%- endif -%}
    {#- A pair of bytes and scale, or NULL where the text is the number. -#}
    get(transform(array(case
        when startswith({{ text }}, '{')
            then from_json({{ text }}, 'value string, scale int')
        when not startswith({{ text }}, '"') then null
        when {{ field }}.name like '%.Decimal'
            then struct({{ inner }} as value, try_cast({{ field }}.parameters['scale'] as int) as scale)
        when {{ field }} is null and length({{ inner }}) % 4 = 0 and try_to_binary({{ inner }}, 'base64') is not null
            then struct({{ inner }} as value, if(try_cast({{ inner }} as double) is null, {{ scale }}, null) as scale)
    end), pair -> if(pair is null, {{ inner }}, {{ cdc._number_of_bytes("pair.value", "pair.scale") }})), 0)
{%- endmacro %}


{#- Big-endian two's complement bytes, up to 16 of them, as the text of a number with this scale. -#}
{% macro _number_of_bytes(base64, scale) -%}
    get(transform(
        transform(
            transform(
                array(hex(try_to_binary({{ base64 }}, 'base64'))),
                bytes -> if(length(bytes) between 2 and 32, lpad(bytes, 32, if(bytes >= '8', 'F', '0')), null)
            ),
            bytes -> cast(
                try_add(
                    try_multiply(
                        cast(conv(left(bytes, 16), 16, -10) as decimal(20, 0)), cast(18446744073709551616 as decimal(20, 0))
                    ),
                    cast(conv(right(bytes, 16), 16, 10) as decimal(20, 0))
                ) as string
            )
        ),
        number -> case
            when {{ scale }} not between -100 and 100 then null
            when {{ scale }} <= 0 then concat(number, repeat('0', -{{ scale }}))
            else concat(
                if(startswith(number, '-'), '-', ''),
                regexp_replace(
                    lpad(ltrim('-', number), greatest(length(ltrim('-', number)), {{ scale }} + 1), '0'),
                    concat('([0-9]{', {{ scale }}, '})$'),
                    '.$1'
                )
            )
        end
    ), 0)
{%- endmacro %}
