{#- Why Spark does not accept a query, in one line; none where it does, and where only running it tells. -#}
{% macro _query_problem(query) -%}
    {{ return(adapter.dispatch("query_problem", "cdc")(query)) }}
{%- endmacro %}


{% macro default__query_problem(query) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__query_problem(query) -%}
    {{ return(adapter.query_problem(query)) }}
{%- endmacro %}


{#- A WHERE clause of a condition that somebody wrote. Spark reads `from rows where (name)` as an alias with a column. -#}
{% macro _meeting(where) -%}
    {{ return(" where ((" ~ where ~ "\n))") }}
{%- endmacro %}
