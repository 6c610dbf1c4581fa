{#-
    Checks every declaration of the project at once, and what is built of them, before anything is written: for `on-run-start`.
-#}
{% macro validate() -%}
    {{ return(adapter.dispatch("validate", "cdc")()) }}
{%- endmacro %}


{% macro default__validate() -%}
    {%- if execute -%}
        {%- set problems, declarations = [], [] -%}
        {%- for node in cdc._graph().sources.values() -%}
            {%- if "cdc" in ((node.config.get("meta") or node.meta) or {}) -%}
                {%- set d = cdc._read_declaration(node) -%}
                {%- do declarations.append(d) -%}
                {%- do problems.extend(d.problems + ([cdc._salt_problem(d)] | select | list)) -%}
            {%- endif -%}
        {%- endfor -%}
        {%- do problems.extend(cdc._bootstrap_name_problems(declarations)) -%}
        {#- What is built of a declaration is compared with it: that must be sound first. -#}
        {%- for node in (cdc._graph().nodes.values() if not problems else []) -%}
            {%- do problems.extend(cdc._node_problems(node)) -%}
        {%- endfor -%}
        {%- if problems -%}
            {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}
