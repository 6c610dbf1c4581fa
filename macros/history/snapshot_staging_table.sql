{#-
    dbt's hook for the rows that a snapshot run changes. dbt asks it for nothing but its columns: what a run changes is computed,
    and written, by `snapshot_merge_sql`.
-#}
{% macro spark__snapshot_staging_table(strategy, source_sql, target_relation) -%}
    {%- if cdc._kind_of(model) != "history" -%}
        {{ return(dbt.default__snapshot_staging_table(strategy, source_sql, target_relation)) }}
    {%- endif -%}
select
    cast(null as string) as dbt_change_type,
    *
from {{ target_relation }}
where false
{%- endmacro %}
