{#- dbt's hook for the first build of a snapshot: all events folded into versions. -#}
{% macro spark__build_snapshot_table(strategy, sql) -%}
    {%- if config.get("strategy") != "cdc.scd2" -%}
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


{#-
    What a first build reads, as `_read_window` says it, noted in the checkpoint of the commit that dbt makes (`noted`). A build of a part of the events, as `--empty` and
    `--sample` ask for, leaves no checkpoint: the next run reads everything.
-#}
{% macro _first_window(spec, node) -%}
    {%- if cdc._reads_a_part() -%}
        {{ return({"read_to": none, "goes_on": false}) }}
    {%- endif -%}
    {%- set goes_on = node.config.materialized in ["incremental", "snapshot"] and not should_full_refresh() -%}
    {#- Another build may have created it since dbt looked. -#}
    {%- set is_first = goes_on and cdc._rows_at_once() and load_relation(spec.relation) is none
        and not cdc._is_there(spec.relation) -%}
    {%- set window = cdc._read_window(spec, {}, node, is_first) -%}
    {%- do cdc._begin_load(spec, window) -%}
    {%- set run = {"run": cdc._run_record(spec, {"read": window.raw_rows, "watermark_after": window.read_to})}
        if spec.declaration and not spec.follows else {} -%}
    {%- set noted = dict(window.position, **run) -%}
    {%- do cdc._set_checkpoint(spec.relation, noted, cdc._creation()) -%}
    {{ return(dict(window, noted=noted)) }}
{%- endmacro %}
