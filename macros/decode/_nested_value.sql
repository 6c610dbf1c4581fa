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


{#- The type of an array's elements, where they are plain. -#}
{% macro _element_type(type) -%}
    {%- set found = modules.re.fullmatch("array<\\s*([^<>]+?)\\s*>", type) -%}
    {{ return(found.group(1) if found else none) }}
{%- endmacro %}
