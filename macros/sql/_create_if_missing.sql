{#-
    Creates an empty Delta table unless it is there. Two builds may do so at the same time.
      query   has the table's columns; its rows are not written
-#}
{% macro _create_if_missing(relation, query) -%}
    {%- do adapter.dispatch("create_if_missing", "cdc")(relation, query) -%}
    {%- do adapter.cache_added(relation) -%}
{%- endmacro %}


{% macro default__create_if_missing(relation, query) -%}
    {%- call statement("create_if_missing") -%}
        create table if not exists {{ relation }} using delta as
        select *
        from ({{ query }}) as no_rows
        where false
    {%- endcall -%}
{%- endmacro %}


{#- A killed build may have left files where the table belongs. -#}
{% macro sparkcdc__create_if_missing(relation, query) -%}
    {%- do adapter.create_if_missing(relation | string, query) -%}
{%- endmacro %}


{#- A query with columns of these names and types. -#}
{% macro _null_row(types) -%}
    {%- set columns = [] -%}
    {%- for name, type in types.items() -%}
        {%- do columns.append("cast(null as " ~ type ~ ") as " ~ name) -%}
    {%- endfor -%}
    {{ return("select " ~ (columns | join(", "))) }}
{%- endmacro %}
