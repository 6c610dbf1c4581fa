{#- Ends an operation that has problems, with all of them. Goes on where there are none. -#}
{% macro _refuse_operation(operation, name, problems) -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ operation ~ " of " ~ name ~ ": nothing was written.\n  - "
            ~ (problems | join("\n  - "))) -%}
    {%- endif -%}
{%- endmacro %}
