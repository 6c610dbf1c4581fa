{#- The body of a staging model: the good events of a raw table in the canonical form, one row per event. -#}
{% macro events(relation) -%}
    {{ return(adapter.dispatch("events", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__events(relation) -%}
    {%- if not execute -%}
        {{ return("select 1 as _op") }}
    {%- endif -%}
    {%- set node = cdc._rendered_node(model) -%}
    {%- set problems = cdc._source_problems(node, node) -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
    {%- endif -%}
    {%- set d = cdc._declaration(relation) -%}
with {{ cdc._decoded_events(d, relation) }}

select
    {%- if d.keyless %}
    _event_id as _row_id,
    {%- endif %}
    {%- for column in d.columns %}
    {{ cdc._quoted(column.name) }},
    {%- endfor %}
    _op,
    _seq,
    {%- if cdc._has_event_time(d) %}
    _ts,
    {%- endif %}
    _event_id,
    _unset,
    {%- for key in d.key_columns if not d.keyless %}
    {{ cdc._quoted("_old_" ~ key) }},
    {%- endfor %}
    _arrived
from identified_events
where _reason is null
{%- endmacro %}
