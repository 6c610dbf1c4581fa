{#-
    The range that the key of a step's rows lies in, by its first column: as literals it lets Delta leave out the files, and Parquet
    the parts of them, that no touched key can be in. None where the type's literals do not say the same in every setting.
-#}
{% macro _key_bounds(step, t) -%}
    {%- set key = t.key_columns[0] -%}
    {%- set suffixes = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"} -%}
    {%- if t.types[key] not in suffixes and t.types[key] != "string" -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set name = cdc._quoted(key) -%}
    {%- set found = run_query(
        "select cast(min(" ~ name ~ ") as string), cast(max(" ~ name ~ ") as string) from " ~ step.view
    ).rows[0] -%}
    {%- if found[0] is none or (found[0] ~ found[1]) | length > 200 -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set literals = [] -%}
    {%- for value in found -%}
        {%- do literals.append(cdc._literal(value) if t.types[key] == "string" else value ~ suffixes[t.types[key]]) -%}
    {%- endfor -%}
    {{ return({"key": name, "low": literals[0], "high": literals[1]}) }}
{%- endmacro %}


{#- Whether a row's key lies in a range; true of every row where there is none. -#}
{% macro _is_within(bounds, alias) -%}
    {%- if bounds is none -%}
        {{ return("true") }}
    {%- endif -%}
    {{ return(alias ~ "." ~ bounds.key ~ " between " ~ bounds.low ~ " and " ~ bounds.high) }}
{%- endmacro %}
