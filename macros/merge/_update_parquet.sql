{#-
    One batch of a final table in plain Parquet files. Nothing can be merged into such a table: whole partitions are replaced, or
    all of it. It has no log either, so its checkpoint is a property of the table, set after the rows are there. It names the
    files that the run left: where others are there, somebody wrote the table, or a run was killed in between, and all rows are
    replaced.
-#}
{% macro _update_parquet(node, history) -%}
    {{ return(adapter.dispatch("update_parquet", "cdc")(node, history)) }}
{%- endmacro %}


{% macro default__update_parquet(node, history) -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: " ~ node.name ~ " has `file_format: parquet`, which only the adapter `type: sparkcdc` brings up to date."
        ~ " Use `file_format: delta` and `incremental_strategy: merge`, or materialize the model as `table`."
    ) -%}
{%- endmacro %}


{% macro sparkcdc__update_parquet(node, history) -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- set seen = cdc._seen_history(node, history) -%}
    {%- set position = seen.position -%}
    {%- set checkpoint = fromjson(cdc._table_properties(target).get("cdc.checkpoint", "{}"), {}) -%}
    {%- set follows = cdc._leads_to(checkpoint, position) -%}
    {%- set is_as_left = checkpoint.get("files") == adapter.files_digest(target | string) -%}
    {%- if checkpoint and not is_as_left -%}
        {%- do log("cdc: " ~ target ~ " has other files than the last build left. All of its rows are replaced.", info=true) -%}
    {%- endif -%}
    {%- if follows and is_as_left and not cdc._writes_since(history, checkpoint.version) -%}
        {{ return("nothing new") }}
    {%- endif -%}
    {%- if not follows -%}
        {%- do cdc._refuse_other_source(node, cdc._column_types(target), false) -%}
        {%- do cdc._extend_parquet(node, target, seen.types) -%}
    {%- endif -%}
    {%- set types = cdc._column_types(target) -%}
    {%- set parts = cdc._as_list(node.config.get("partition_by")) -%}
    {%- do cdc._refuse_other_columns(node, target, history, types.keys() | list, seen.types) -%}
    {%- do cdc._refuse_partition_types(node, types) -%}
    {%- set spec = {"relation": target, "is_large": cdc._is_large(history)} -%}
    {%- set touched = cdc._feed_step(
        spec, history, checkpoint.version, cdc._touched_partitions(node, history, parts, checkpoint.version, position.version), true
    ) if follows and is_as_left and parts and cdc._has_feed(history, checkpoint.version) else none -%}
    {#- Commits that changed no current row. -#}
    {%- if touched is none or touched.rows | length -%}
        {#- Of Iceberg it may be newer: what changed since is read again. -#}
        {%- set pinned = history if cdc._is_iceberg(history) else history ~ " version as of " ~ position.version -%}
        {%- set new_rows = cdc._partition_rows(node, pinned, types.keys() | list, parts, touched) -%}
        {%- set emptied = cdc._step(
            spec, "emptied", cdc._emptied_partitions(target, parts, touched, new_rows), true
        ) if parts else none -%}
        {%- do adapter.replace_partitions(target | string, "insert overwrite table " ~ target ~ " " ~ new_rows, emptied) -%}
    {%- endif -%}
    {%- do cdc._drop_steps() -%}
    {%- do cdc._note_files(target, position) -%}
    {{ return("OK") }}
{%- endmacro %}


{#- Writes the checkpoint of such a table, with the files that it consists of. -#}
{% macro _note_files(target, position) -%}
    {%- set checkpoint = dict(position, files=adapter.files_digest(target | string)) -%}
    {%- do run_query("alter table " ~ target ~ " set " ~ cdc._tblproperties({"cdc.checkpoint": tojson(checkpoint)})) -%}
{%- endmacro %}


{#- The partitions that had, or have, a current row which changed since a version of the history. -#}
{% macro _touched_partitions(node, history, parts, read, now) -%}
select distinct {{ cdc._final_columns(node, parts, {"_cdc_updated_at": "dbt_updated_at"}) | join(", ") }}
from {{ cdc._row_images(history, read + 1, now) }}
where
    _cdc_is_latest
    and _seq_end is null
{%- endmacro %}


{#- All rows that these partitions are to have; all rows where `touched` is none. -#}
{% macro _partition_rows(node, history, names, parts, touched) -%}
select {{ cdc._column_list(names, "current_rows") }}
from (
    {{ cdc._current_rows(node, history) | indent(4) }}
) as current_rows
{%- if touched is not none %}
left semi join {{ touched.relation }} as touched on {{ cdc._same(parts, "current_rows", "touched") }}
{%- endif %}
{%- endmacro %}


{#- The partitions that have no row any more. -#}
{% macro _emptied_partitions(target, parts, touched, new_rows) -%}
select distinct {{ cdc._column_list(parts, "former") }}
from {{ touched.relation if touched is not none else target }} as former
left anti join ({{ new_rows }}) as new_rows on {{ cdc._same(parts, "former", "new_rows") }}
{%- endmacro %}


{#- Adds the columns that the history has gained. Files keep the type that a column was written with. -#}
{% macro _extend_parquet(node, target, types) -%}
    {%- set known = {} -%}
    {%- for name, type in cdc._column_types(target).items() -%}{%- do known.update({name | lower: type}) -%}{%- endfor -%}
    {%- set added = [] -%}
    {%- set changed = [] -%}
    {%- for name, type in cdc._final_types(types).items() -%}
        {%- if name | lower not in known -%}
            {%- do added.append(cdc._quoted(name) ~ " " ~ type) -%}
        {%- elif known[name | lower] != type -%}
            {%- do changed.append("`" ~ name ~ "` as " ~ known[name | lower] ~ ", which is " ~ type ~ " in its history") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if changed -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ target ~ " has " ~ (changed | join(", ")) ~ ". Parquet files keep the type that they were written with. Nothing was"
            ~ " written. Rebuild the table from its history: dbt build --full-refresh --select " ~ node.name
        ) -%}
    {%- endif -%}
    {%- if added -%}
        {%- do run_query("alter table " ~ target ~ " add columns (" ~ (added | join(", ")) ~ ")") -%}
    {%- endif -%}
{%- endmacro %}


{#- A partition that has no row any more is dropped by its values, which must read back as what they are. -#}
{% macro _refuse_partition_types(node, types) -%}
    {%- set wrong = [] -%}
    {%- for name in cdc._as_list(node.config.get("partition_by")) -%}
        {%- set type = types.get(name, "string") -%}
        {%- if type not in ["string", "boolean", "tinyint", "smallint", "int", "bigint", "date"] -%}
            {%- do wrong.append("`" ~ name ~ "` (" ~ type ~ ")") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if wrong -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ node.name ~ " has `file_format: parquet` and is partitioned by " ~ (wrong | join(", "))
            ~ ". Nothing was written. Partition by text, a whole number, a boolean or a date: `partition_by` of the"
            ~ " declaration computes such a column."
        ) -%}
    {%- endif -%}
{%- endmacro %}
