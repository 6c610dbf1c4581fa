{#- Whether a table is there now. dbt's cache tells what was there when the run began. -#}
{% macro _is_there(relation) -%}
    {{ return(adapter.dispatch("is_there", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__is_there(relation) -%}
    {%- set listed = run_query("show tables in " ~ relation.without_identifier() ~ " like " ~ cdc._literal(relation.identifier)) -%}
    {{ return(listed | length > 0) }}
{%- endmacro %}


{% macro sparkcdc__is_there(relation) -%}
    {{ return(adapter.is_there(relation | string)) }}
{%- endmacro %}


{#- What tells a table from others that have, or had, its name; none where nobody can tell without a query. -#}
{% macro _table_id(relation) -%}
    {{ return(adapter.dispatch("table_id", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__table_id(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__table_id(relation) -%}
    {{ return(adapter.table_id(relation | string)) }}
{%- endmacro %}


{#- The properties of a table, which unlike its detail cost no look at its files. -#}
{% macro _table_properties(relation) -%}
    {{ return(adapter.dispatch("table_properties", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__table_properties(relation) -%}
    {%- set properties = {} -%}
    {%- for row in run_query("show tblproperties " ~ relation).rows -%}
        {%- do properties.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {{ return(properties) }}
{%- endmacro %}


{% macro sparkcdc__table_properties(relation) -%}
    {%- set properties = adapter.table_properties(relation | string) -%}
    {{ return(cdc.default__table_properties(relation) if properties is none else properties) }}
{%- endmacro %}


{#- The clause that gives a table these properties. -#}
{% macro _tblproperties(properties) -%}
    {%- set pairs = [] -%}
    {%- for name, value in properties.items() -%}
        {%- do pairs.append(cdc._literal(name) ~ " = " ~ cdc._literal(value)) -%}
    {%- endfor -%}
    {{ return("tblproperties (" ~ (pairs | join(", ")) ~ ")") }}
{%- endmacro %}


{#-
    Creates an empty table unless it is there: of Delta, or of Iceberg where the relation is in a catalog of Iceberg. Two builds
    may do so at the same time.
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
