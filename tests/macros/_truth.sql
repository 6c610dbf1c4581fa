{#-
    The database's own final rows of a source table of the shop, in the declared types. The folder `data/truth`, or the one that the
    variable `cdc_truth` names, has a file for each table, with the text of each column.
-#}
{% macro _truth(relation) -%}
    {%- if not execute -%}
        {{ return("select 1 as _") }}
    {%- endif -%}
    {%- set d = cdc._declaration(relation) -%}
    {%- set name = d.table.split(".")[1] -%}
    {%- set fields = [] -%}
    {%- for column in d.columns -%}
        {%- do fields.append(cdc._quoted(column.name) ~ " string") -%}
    {%- endfor -%}
with truth_lines as (
    select from_json(value, {{ cdc._literal(fields | join(", ")) }}) as line
    from text.{{ cdc._quoted(var("cdc_truth", "data/truth") ~ "/" ~ name ~ ".jsonl.gz") }}
)

select
    {%- for column in d.columns %}
    {%- set name = cdc._quoted(column.name) %}
    {{ cdc._converted(d, "line." ~ name, column.type) }} as {{ name }}{{ "," if not loop.last }}
    {%- endfor %}
from truth_lines
{%- endmacro %}
