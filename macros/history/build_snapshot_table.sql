{#- dbt's hook for the first build of a snapshot: all events folded into versions. -#}
{% macro spark__build_snapshot_table(strategy, sql) -%}
    {%- if config.get("strategy") != "cdc.scd2" -%}
        {{ return(dbt.default__build_snapshot_table(strategy, sql)) }}
    {%- endif -%}
    {%- set t = strategy -%}
with {{ cdc._all_events(t, sql) }},

{{ cdc._versions(t) }}

select * from versions
where dbt_scd_id is not null
{%- endmacro %}
