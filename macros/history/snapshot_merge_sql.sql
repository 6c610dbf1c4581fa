{#- dbt's hook for writing a snapshot run. -#}
{% macro spark__snapshot_merge_sql(target, source, insert_cols) -%}
    {%- if cdc._kind_of(model) != "history" -%}
        {{ return(dbt.spark__snapshot_merge_sql(target, source, insert_cols)) }}
    {%- endif -%}
    {{ return("select '" ~ cdc._update_history(model) ~ "' as outcome") }}
{%- endmacro %}
