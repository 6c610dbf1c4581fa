{#- Brings a history up to date: one batch, or one for each part of a large load. Returns what came of it. -#}
{% macro _update_history(node) -%}
    {{ return(cdc._all_parts(cdc._update_history_part, node)) }}
{%- endmacro %}


{#-
    One batch of a history: the new events, what is known of their keys, the versions that change, and one commit that changes them.
    Returns what came of it; none where there is more to read.
-#}
{% macro _update_history_part(node) -%}
    {%- if cdc._reads_a_part() -%}
        {{ return("left as it is: --empty and --sample read a part of the events") }}
    {%- endif -%}
    {%- do cdc._clear_checkpoint() -%}
    {%- set spec = cdc._history_spec(node) -%}
    {%- do cdc._keep_format_properties(node, spec.relation) -%}
    {%- set checkpoint = cdc._checked_checkpoint(spec.relation, node) -%}
    {%- if "fingerprint" not in checkpoint -%}
        {#- A clone has the properties of the table in whose place it is, and versions of its own: its final table must not take
            them for the next ones. -#}
        {%- do run_query("alter table " ~ spec.relation ~ " set " ~ cdc._tblproperties({"cdc.build": invocation_id})) -%}
        {%- set checkpoint = cdc._read_checkpoint(spec.relation) -%}
    {%- endif -%}
    {%- set window = cdc._read_window(spec, checkpoint, node) -%}
    {%- if window.nothing_new -%}
        {%- do cdc._note_nothing_new(spec.relation, window, checkpoint) -%}
        {{ return("OK") }}
    {%- endif -%}
    {#- Keys that were resolved again from the beginning: nothing tells what the old labels became. -#}
    {%- if spec.follows and window.read_from is not none -%}
        {%- set first = run_query("select min(_resolved) from (" ~ spec.events_sql ~ ") as resolved_events").rows[0][0] -%}
        {%- set spec = dict(spec, rebuild=spec.rebuild or first > window.read_from) -%}
    {%- endif -%}
    {%- do cdc._begin_load(spec, window) -%}
    {%- set new_events = cdc._new_events(spec, window.read_from, window.read_to, window.amended) -%}
    {%- set events = cdc._step(spec, "events", new_events, window.few) -%}
    {%- if spec.rebuild -%}
        {%- do cdc._refuse_loss(spec, events) -%}
    {%- endif -%}
    {%- set found = cdc._event_facts(spec, events) -%}
    {%- set facts = dict(found, rejected=cdc._rejected_events(spec, window, found)) -%}
    {#- A truncate changes as many rows as there are. -#}
    {%- set window = dict(window, few=window.few and not facts.truncates) -%}
    {%- for attempt in range(10) -%}
        {%- set at = checkpoint.at if loop.first else cdc._version_after_builds(spec.relation, checkpoint.at) -%}
        {%- if not loop.first and cdc._lies_behind(spec.relation, window) -%}
            {#- Another build has created the table again. -#}
            {{ return(none) }}
        {%- endif -%}
        {%- set outcome = cdc._write_batch(spec, window, events, facts, at, checkpoint) -%}
        {%- if outcome -%}
            {%- do cdc._drop_steps() -%}
            {{ return(none if window.goes_on else outcome) }}
        {%- endif -%}
    {%- endfor -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: other builds keep writing " ~ spec.relation ~ ". Let them finish and run this one again;"
        ~ " it starts from what they wrote."
    ) -%}
{%- endmacro %}


{#- Whether a table has read less than a window takes for granted. -#}
{% macro _lies_behind(relation, window) -%}
    {%- set read_to = cdc._read_checkpoint(relation).get("read_to") -%}
    {{ return(window.read_from is not none and (read_to is none or read_to < window.read_from)) }}
{%- endmacro %}


{#- The version that other builds left, for a run that began with an older one. -#}
{% macro _version_after_builds(relation, version) -%}
    {%- set at = cdc._table_version(relation) -%}
    {%- do cdc._refuse_foreign_writes(relation, version) -%}
    {{ return(at) }}
{%- endmacro %}


{#- The batch, for one version of the table. Returns none where somebody else wrote first. -#}
{% macro _write_batch(spec, window, events, facts, version, checkpoint) -%}
    {#- Events that were of other rows of the source before change these rows, too. -#}
    {%- set bounds = none if spec.rebuild or spec.by_position or facts.truncates or facts.relabeled else facts.bounds -%}
    {%- set has_tombstones = cdc._has_tombstones(spec, window, checkpoint) -%}
    {%- set known = cdc._known_versions(spec, window, events, dict(facts, has_tombstones=has_tombstones), bounds) -%}
    {%- set truncated = facts.truncates > 0 or has_tombstones -%}
    {%- if facts.single and not facts.partial and not truncated and known.latest and not known.whole -%}
        {%- set changed_sql = cdc._next_versions(spec, known) -%}
    {%- else -%}
        {%- set changed_sql = cdc._changed_versions(dict(
            spec, truncated=truncated, partial=spec.partial and (facts.partial or known.whole is not none),
            splits=cdc._is_many(window, facts)
        ), known, has_tombstones, window.read_from, window.read_to) -%}
    {%- endif -%}
    {#- The events of rows that are read whole stand in the resolver's table, which is as large as it is. -#}
    {%- set reads_resolver = spec.follows and known.whole is not none -%}
    {%- set step_spec = dict(spec, is_large=spec.is_large or reads_resolver) -%}
    {%- set changes = cdc._step(step_spec, "changes", changed_sql, window.few, scans_table=spec.rebuild or reads_resolver) -%}
    {%- set changed = cdc._change_facts(changes, "dbt_change_type") -%}
    {%- set run = cdc._run_of_batch(spec, window, facts, changed) -%}
    {#- Tombstones go first: if the run ends between both commits, the next one reads the same events again. -#}
    {%- set is_outdated = spec.rebuild and cdc._is_there(spec.tombstones) -%}
    {%- if changed.kinds.get("tombstone") or facts.truncates or is_outdated -%}
        {%- do cdc._add_tombstones(spec, events, changes) -%}
    {%- endif -%}
    {%- set position = dict(window.position, tombstones=cdc._tombstones_version(spec), run=run) -%}
    {%- set touched = changed.kinds.get("update", 0) + changed.kinds.get("delete", 0) -%}
    {%- if not touched and not changed.kinds.get("insert") -%}
        {#- The next run need not read the same events again. -#}
        {%- do cdc._commit_checkpoint(spec.relation, position, checkpoint) -%}
        {{ return("OK") }}
    {%- endif -%}
    {%- set quoted = cdc._quoted_all(spec.columns) -%}
    {%- set written = cdc._write_changes(spec, {
        "changes": changes,
        "version": version,
        "columns": spec.columns,
        "new_rows": "dbt_change_type in ('insert', 'update')",
        "touched": touched,
        "is_touched": cdc._touched_versions(spec, changes) if touched else none,
        "merge": cdc._merge(spec.relation, changes.relation, [
            "DBT_INTERNAL_DEST.dbt_scd_id = DBT_INTERNAL_SOURCE.dbt_scd_id",
            "DBT_INTERNAL_SOURCE.dbt_change_type <> 'tombstone'",
            cdc._is_within(bounds, "DBT_INTERNAL_DEST"),
        ] + cdc._key_predicates(spec.key_columns), [
            {"when": "matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'delete'", "then": "delete"},
            {"when": "matched", "then": "update", "columns": quoted},
            {"when": "not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'", "then": "insert", "columns": quoted},
        ]),
        "position": position,
        "few": window.few,
    }) -%}
    {%- if not written -%}
        {{ return(none) }}
    {%- endif -%}
    {%- do cdc._publish_changes(spec, version, changes) -%}
    {{ return("OK") }}
{%- endmacro %}


{#-
    A condition on the history that is true of exactly the versions that a run replaces or deletes; none where they cannot be
    listed.
-#}
{% macro _touched_versions(spec, changes) -%}
    {%- if changes.rows is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set kinds = ["update", "delete"] -%}
    {%- set key = spec.key_columns[0] -%}
    {%- set end = cdc._literal_end(spec.types[key]) -%}
    {%- if spec.key_columns | length == 1 and end is not none and not cdc._has_any(changes, "_was_latest", false) -%}
        {#- A key has one latest version: the keys say which rows these are. -#}
        {%- set listed = adapter.listing(changes, "dbt_change_type", kinds, [(key, end)]) -%}
        {{ return("_cdc_is_latest and " ~ listed if listed else none) }}
    {%- endif -%}
    {%- set by_id = adapter.listing(changes, "dbt_change_type", kinds, [("dbt_scd_id", cdc._literal_end("string"))]) -%}
    {%- set bounds = adapter.bounds(changes, "dbt_change_type", kinds, key, end) if by_id else none -%}
    {{ return(by_id and cdc._is_within(bounds, "") ~ " and " ~ by_id) }}
{%- endmacro %}


{#- For the final table that is built after its history in the same run: the changes, which nobody then has to read back. -#}
{% macro _publish_changes(spec, version, changes) -%}
    {{ return(adapter.dispatch("publish_changes", "cdc")(spec, version, changes)) }}
{%- endmacro %}


{% macro default__publish_changes(spec, version, changes) -%}{%- endmacro %}


{% macro sparkcdc__publish_changes(spec, version, changes) -%}
    {%- do adapter.publish_changes(spec.relation | string, version, changes) -%}
{%- endmacro %}
