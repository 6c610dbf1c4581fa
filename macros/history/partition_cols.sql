{#-
    dbt's hook for the partitions of a table: a history holds the latest version of each key apart from the older ones, so that a
    batch of events in order never reads, and never rewrites, what is over.
-#}
{% macro spark__partition_cols(label, required=false) -%}
    {%- if cdc._kind_of(model) != "history" -%}
        {{ return(dbt.spark__partition_cols(label, required)) }}
    {%- endif -%}
    {%- set columns = ["_cdc_is_latest"] + cdc._as_list(config.get("partition_by")) -%}
    {{ return(label ~ " (" ~ cdc._column_list(columns) ~ ")") }}
{%- endmacro %}
