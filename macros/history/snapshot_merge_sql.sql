{#-
    dbt's hook for writing a snapshot run: the changes go into the history in one merge. Tombstones go first: if the
    run dies between both, the next one reads the same events again.
-#}
{% macro spark__snapshot_merge_sql(target, source, insert_cols) -%}
    {%- if config.get("strategy") != "cdc.scd2" -%}
        {{ return(dbt.spark__snapshot_merge_sql(target, source, insert_cols)) }}
    {%- endif -%}
    {%- set t = model.cdc_history -%}
    {%- if t.nothing_new -%}
        {{ return("select 'nothing new' as outcome") }}
    {%- endif -%}
    {%- set counts = {} -%}
    {%- for row in run_query("select dbt_change_type, count(*) from " ~ t.steps.changes.view ~ " group by dbt_change_type").rows -%}
        {%- do counts.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- if counts.get("tombstone") or t.truncates -%}
        {%- do cdc._add_tombstones(t) -%}
    {%- endif -%}
    {%- if not (counts.get("insert") or counts.get("update") or counts.get("delete")) -%}
        {{ return("select 'nothing to change' as outcome") }}
    {%- endif -%}
    {{ return(cdc._merge(target, t.steps.changes.view, [
        "DBT_INTERNAL_DEST.dbt_scd_id = DBT_INTERNAL_SOURCE.dbt_scd_id",
        "DBT_INTERNAL_SOURCE.dbt_change_type <> 'tombstone'",
    ] + cdc._key_predicates(t.key_columns), [
        {"when": "matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'delete'", "then": "delete"},
        {"when": "matched", "then": "update", "columns": insert_cols},
        {"when": "not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'", "then": "insert", "columns": insert_cols},
    ])) }}
{%- endmacro %}
