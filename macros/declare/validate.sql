{#- Checks every declaration of the project at once, before anything is written: for `on-run-start`. -#}
{% macro validate() -%}
    {{ return(adapter.dispatch("validate", "cdc")()) }}
{%- endmacro %}


{% macro default__validate() -%}
    {%- if execute -%}
        {%- set problems = [] -%}
        {%- for node in graph.sources.values() -%}
            {%- if "cdc" in ((node.config.get("meta") or node.meta) or {}) -%}
                {%- do problems.extend(cdc._read_declaration(node).problems) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- if problems -%}
            {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
