{#-
    Writes the changes of a final table, rows with `_current_op`, U or D, and `_is_known`, whether the table has a row of the key.
      batch.selected   expressions of the table's columns over the changes; none where the changes have these columns
-#}
{% macro _write_current(spec, node, changes, batch) -%}
    {%- set facts = cdc._current_facts(changes) -%}
    {%- if not facts.changed -%}
        {#- The next run need not look at the same changes again, whose files may be gone by then. -#}
        {%- do cdc._commit_checkpoint(spec.relation, batch.position, batch.checkpoint) -%}
        {{ return("OK") }}
    {%- endif -%}
    {%- set columns = cdc._quoted_all(batch.names) -%}
    {%- set selected = (batch.selected or columns) | join(", ") -%}
    {%- set source = "(select " ~ selected ~ ", _current_op, _is_known from " ~ changes.relation
        ~ " where _current_op is not null)" -%}
    {%- if node.config.get("incremental_strategy") == "insert_overwrite" -%}
        {%- set written = cdc._overwrite_partitions(spec, node, source, batch) -%}
    {%- else -%}
        {%- set written = cdc._write_changes(spec, {
            "changes": {"relation": source},
            "version": batch.version,
            "columns": batch.names,
            "new_rows": "_current_op = 'U'",
            "touched": facts.touched,
            "is_touched": cdc._touched_rows(spec, changes) if facts.touched else none,
            "merge": cdc._merge(spec.relation, source,
                cdc._key_predicates(spec.key_columns) + batch.get("predicates", []), [
                {"when": "matched and DBT_INTERNAL_SOURCE._current_op = 'D'", "then": "delete"},
                {"when": "matched", "then": "update", "columns": columns},
                {"when": "not matched and DBT_INTERNAL_SOURCE._current_op = 'U'", "then": "insert", "columns": columns},
            ]),
            "position": batch.position,
            "few": batch.few,
        }) -%}
    {%- endif -%}
    {%- if not written -%}
        {%- do cdc._refuse_other_writer(spec.relation, batch.version) -%}
    {%- endif -%}
    {{ return("OK") }}
{%- endmacro %}


{#- How many rows change, and how many of them are known. -#}
{% macro _current_facts(changes) -%}
    {%- if changes.rows is not none -%}
        {{ return(adapter.current_facts(changes)) }}
    {%- endif -%}
    {%- set row = run_query(
        "select count(*), count_if(_is_known) from " ~ changes.relation ~ " where _current_op is not null"
    ).rows[0] -%}
    {{ return({"changed": row[0], "touched": row[1]}) }}
{%- endmacro %}


{#-
    A condition on a final table that is true of exactly the known rows that a run replaces or deletes; none where they cannot be
    listed.
-#}
{% macro _touched_rows(spec, changes) -%}
    {%- if changes.rows is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set keys = [] -%}
    {%- for key in spec.key_columns -%}
        {%- do keys.append((key, cdc._literal_end(spec.types[key]))) -%}
    {%- endfor -%}
    {{ return(adapter.listing(changes, "_is_known", [true], keys, "_current_op")) }}
{%- endmacro %}
