{#- A MERGE from a list of clauses: {when, then: update | insert | delete, columns: quoted names}. -#}
{% macro _merge(target, source, predicates, clauses) -%}
    {%- set lines = [
        "merge into " ~ target ~ " as DBT_INTERNAL_DEST",
        "using " ~ source ~ " as DBT_INTERNAL_SOURCE",
        "on " ~ (predicates | join("\n    and ")),
    ] -%}
    {%- for clause in clauses -%}
        {%- set columns = clause.get("columns", []) -%}
        {%- if clause.then == "delete" -%}
            {%- set action = "delete" -%}
        {%- elif clause.then == "update" -%}
            {%- set pairs = [] -%}
            {%- for column in columns -%}
                {%- do pairs.append(column ~ " = DBT_INTERNAL_SOURCE." ~ column) -%}
            {%- endfor -%}
            {%- set action = "update set " ~ (pairs | join(", ")) -%}
        {%- else -%}
            {%- set action = "insert (" ~ (columns | join(", ")) ~ ") values (DBT_INTERNAL_SOURCE."
                ~ (columns | join(", DBT_INTERNAL_SOURCE.")) ~ ")" -%}
        {%- endif -%}
        {%- do lines.append("when " ~ clause.when ~ " then " ~ action) -%}
    {%- endfor -%}
    {{ return(lines | join("\n")) }}
{%- endmacro %}


{% macro _key_predicates(keys) -%}
    {%- set predicates = [] -%}
    {%- for key in keys -%}
        {%- do predicates.append("DBT_INTERNAL_DEST." ~ cdc._quoted(key) ~ " <=> DBT_INTERNAL_SOURCE." ~ cdc._quoted(key)) -%}
    {%- endfor -%}
    {{ return(predicates) }}
{%- endmacro %}
