{#-
    The salt of masked columns, as an expression that Spark computes where it runs: neither the SQL of a model nor a query log
    holds it. A project whose Spark keeps secrets elsewhere dispatches it to a macro of its own.
-#}
{% macro mask_salt(variable) -%}
    {{ return(adapter.dispatch("mask_salt", "cdc")(variable)) }}
{%- endmacro %}


{% macro default__mask_salt(variable) -%}
    {{ return("reflect('java.lang.System', 'getenv', " ~ cdc._literal(variable) ~ ")") }}
{%- endmacro %}
