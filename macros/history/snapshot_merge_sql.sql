{#-
    dbt's hook for writing a snapshot run: the changes go into the history in one merge. Tombstones go first: if the
    run dies between both, the next one reads the same events again.

    The changes hold for the version of the history that they were folded from. Where another build wrote it since, they are folded
    again; where one wrote between that look and the merge, too, for a fold of the same events over what is there now mends it.
-#}
{% macro spark__snapshot_merge_sql(target, source, insert_cols) -%}
    {%- if config.get("strategy") != "cdc.scd2" -%}
        {{ return(dbt.spark__snapshot_merge_sql(target, source, insert_cols)) }}
    {%- endif -%}
    {%- set t = model.cdc_history -%}
    {%- do cdc._note_version(target, t.version, t.few) -%}
    {%- if t.nothing_new -%}
        {{ return("select 'nothing new' as outcome") }}
    {%- endif -%}
    {%- set changes = cdc._count_changes(t, "dbt_change_type") -%}
    {%- if changes.get("tombstone") or t.truncates -%}
        {%- do cdc._add_tombstones(t) -%}
    {%- endif -%}
    {%- if not (changes.get("insert") or changes.get("update") or changes.get("delete")) -%}
        {%- do cdc._plan_as_ever(t) -%}
        {{ return("select 'nothing to change' as outcome") }}
    {%- endif -%}
    {%- set merge_sql = cdc._merge(target, t.steps.changes.view, [
        "DBT_INTERNAL_DEST.dbt_scd_id = DBT_INTERNAL_SOURCE.dbt_scd_id",
        "DBT_INTERNAL_SOURCE.dbt_change_type <> 'tombstone'",
        cdc._is_within(t.bounds, "DBT_INTERNAL_DEST"),
    ] + cdc._key_predicates(t.key_columns), [
        {"when": "matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'delete'", "then": "delete"},
        {"when": "matched", "then": "update", "columns": insert_cols},
        {"when": "not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'", "then": "insert", "columns": insert_cols},
    ]) -%}
    {%- do cdc._write_stamp(target, t.position) -%}
    {%- for attempt in range(10) -%}
        {%- if cdc._writes_since(target, t.version) -%}
            {%- do t.update({"version": cdc._table_version(target)}) -%}
            {%- do cdc._fold(t) -%}
        {%- endif -%}
        {%- do cdc._plan_rows(t, scans_table=true) -%}
        {%- do run_query(merge_sql) -%}
        {%- if cdc._writes_since(target, t.version) <= 1 -%}
            {%- do cdc._plan_as_ever(t) -%}
            {{ return("select 'merged' as outcome") }}
        {%- endif -%}
    {%- endfor -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: other builds write " ~ target ~ " all the time. Let one finish and run this one again; what it wrote is mended then."
    ) -%}
{%- endmacro %}
