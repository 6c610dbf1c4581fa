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


{% macro _integer_types() -%}
    {{ return(["tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"]) }}
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
