{#- The columns of a table or view, in order. -#}
{% macro _column_names(relation) -%}
    {{ return(adapter.dispatch("column_names", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__column_names(relation) -%}
    {{ return(adapter.get_columns_in_relation(relation) | map(attribute="name") | list) }}
{%- endmacro %}
