{#- dbt's hook for writing a snapshot run. -#}
{% macro spark__snapshot_merge_sql(target, source, insert_cols) -%}
    {%- if config.get("strategy") != "cdc.scd2" -%}
        {{ return(dbt.spark__snapshot_merge_sql(target, source, insert_cols)) }}
    {%- endif -%}
    {{ return("select '" ~ cdc._update_history(model) ~ "' as outcome") }}
{%- endmacro %}
