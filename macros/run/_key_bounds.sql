{#-
    Where the keys of a step's rows are, by their first column: its range, and a list where the rows are few. As literals they let
    Delta leave out the files, and Parquet the parts of them, that no touched key can be in, and Spark the rows before it joins
    them. A column of a query over the rows; NULL where the type's literals do not say the same in every setting.
-#}
{% macro _key_range(spec, relation) -%}
    {%- set key = spec.key_columns[0] -%}
    {%- if cdc._literal_end(spec.types[key]) is none -%}
        {{ return("null") }}
    {%- endif -%}
    {%- set name = "cast(" ~ cdc._quoted(key) ~ " as string)" -%}
    {#- Bytes that are no UTF-8 cannot be written as a literal. -#}
    {%- set is_readable = "bool_and(coalesce(is_valid_utf8(" ~ name ~ "), true))" -%}
    {{ return(
        "if(" ~ is_readable ~ ", to_json(struct(cast(min(" ~ cdc._quoted(key) ~ ") as string) as low, "
        ~ "cast(max(" ~ cdc._quoted(key) ~ ") as string) as high, "
        ~ "if(count(*) <= " ~ cdc._listed_keys() ~ ", (select array_sort(collect_set(" ~ name ~ ")) from (select * from " ~ relation
        ~ " limit " ~ cdc._listed_keys() ~ ") as listed_rows), null) as listed)), null)"
    ) }}
{%- endmacro %}


{#- What `_key_range` found, for `_is_within`; none where it holds nothing back. -#}
{% macro _key_bounds(spec, found) -%}
    {%- if not found or found.get("low") is none or (found.low ~ found.high) | length > 200 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set key = spec.key_columns[0] -%}
    {%- set end = cdc._literal_end(spec.types[key]) -%}
    {%- set listed = found.get("listed") or [] -%}
    {%- set literals = [] -%}
    {%- for value in [found.low, found.high] + (listed if (listed | join) | length < 100000 else []) -%}
        {%- do literals.append(cdc._literal(value) if end == "'" else value ~ end) -%}
    {%- endfor -%}
    {{ return({"key": cdc._quoted(key), "low": literals[0], "high": literals[1], "listed": literals[2:]}) }}
{%- endmacro %}


{#- More keys make a statement longer than the rows they leave out are worth. -#}
{% macro _listed_keys() -%}
    {{ return(2000) }}
{%- endmacro %}


{#- What literals of a type end with: a quote those of text. None where they do not say the same in every setting. -#}
{% macro _literal_end(type) -%}
    {{ return({"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L", "string": "'"}.get(type)) }}
{%- endmacro %}


{#- Whether a row's key can be one of the touched ones; true of every row where nothing is known of them. -#}
{% macro _is_within(bounds, alias) -%}
    {%- if not bounds -%}
        {{ return("true") }}
    {%- endif -%}
    {%- set name = (alias ~ "." if alias else "") ~ bounds.key -%}
    {%- set listed = " and " ~ name ~ " in (" ~ (bounds.listed | join(", ")) ~ ")" if bounds.listed else "" -%}
    {{ return(name ~ " between " ~ bounds.low ~ " and " ~ bounds.high ~ listed) }}
{%- endmacro %}
