{#- dbt's hook for the first build of a snapshot: all events folded into versions. -#}
{% macro spark__build_snapshot_table(strategy, sql) -%}
    {%- if cdc._kind_of(model) != "history" -%}
        {{ return(dbt.default__build_snapshot_table(strategy, sql)) }}
    {%- endif -%}
    {%- set spec = cdc._declared_spec(model, sql, cdc._relation_of(model)) -%}
    {%- do cdc._drop_tombstones(spec) -%}
    {%- set window = cdc._first_window(spec, model) -%}
    {{ return(cdc._first_versions(cdc._with_first_facts(spec, window), window.read_to)) }}
{%- endmacro %}


{#- All versions of all events up to where a first build reads. -#}
{% macro _first_versions(spec, until) -%}
with {{ cdc._all_events(spec, until) }},

{{ cdc._versions(dict(spec, splits=true)) }}

select {{ cdc._column_list(cdc._history_columns(spec)) }}
from versions
where _seq is not null
{%- endmacro %}
