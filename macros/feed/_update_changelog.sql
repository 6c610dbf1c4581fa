{#-
    One run of an incremental model whose body is `cdc.changelog`: what the table has gained since the model's last run, appended
    in the one commit that also says how far the model has read. So a run that dies at any point has read all of it or nothing.
    Returns what came of it.
-#}
{% macro _update_changelog(node) -%}
    {%- if cdc._reads_a_part() -%}
        {{ return("left as it is: --empty and --sample read a part of the rows") }}
    {%- endif -%}
    {%- set above = graph.nodes[node.depends_on.nodes[0]] -%}
    {%- set source = cdc._relation_of(above) -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- set checkpoint = cdc._read_checkpoint(target) -%}
    {%- set now = cdc._table_version(source) -%}
    {%- set is_first = checkpoint.get("version") is none and cdc._is_empty(target) -%}
    {%- if is_first -%}
        {%- set read_to = -1 -%}
        {%- if cdc._is_iceberg(source) and adapter.iceberg_shown_to(source | string) is none -%}
            {%- do exceptions.raise_compiler_error("cdc: " ~ target ~ " was emptied while this build began."
                ~ " Nothing was written. Run it again.") -%}
        {%- endif -%}
        {%- set now = cdc._shown_to(source) -%}
        {%- set changes_sql = node.compiled_code -%}
    {%- else -%}
        {%- do cdc._refuse_lost_position(node, above, source, checkpoint) -%}
        {%- set read_to = cdc._changes_read(target, checkpoint) -%}
        {%- set writes = cdc._writes_since(source, read_to) if now > read_to else [] -%}
        {%- if not writes -%}
            {{ return("nothing new") }}
        {%- endif -%}
        {%- set changes_sql = cdc._row_changes(above, writes | min, now) -%}
    {%- endif -%}
    {%- set spec = {"relation": target, "is_large": true} -%}
    {%- set few = not cdc._is_large(source) -%}
    {%- set changes = cdc._step(spec, "changelog", changes_sql, few) -%}
    {%- set d = cdc._upstream_declaration(above) -%}
    {%- set types = cdc._table_types(changes.relation) -%}
    {%- set names = cdc._evolve(target, types, renames=d.renames if d else {}).keys() | list -%}
    {%- set position = dict(cdc._changelog_position(source, now), first=is_first) -%}
    {%- if cdc._row_count(changes) == 0 -%}
        {#- The next run need not look at the same commits again, whose files may be gone by then. -#}
        {%- do cdc._commit_checkpoint(target, position, checkpoint) -%}
        {%- do cdc._drop_steps() -%}
        {{ return("OK") }}
    {%- endif -%}
    {%- set rows = "(select " ~ cdc._changelog_columns(names, changes) ~ " from " ~ changes.relation ~ ")" -%}
    {%- set quoted = cdc._quoted_all(names) -%}
    {%- set written = cdc._write_changes(spec, {
        "changes": {"relation": rows},
        "version": checkpoint.at,
        "columns": names,
        "new_rows": "true",
        "touched": 0,
        "is_touched": none,
        "merge": cdc._merge(target, rows, ["DBT_INTERNAL_DEST._commit_version > " ~ read_to]
            + cdc._key_predicates(["_commit_version", "_row_kind"] + cdc._changelog_keys(above)),
            [{"when": "not matched", "then": "insert", "columns": quoted}]),
        "position": position,
        "few": few,
    }) -%}
    {%- do cdc._drop_steps() -%}
    {%- if not written -%}
        {%- do cdc._refuse_other_writer(target, checkpoint.at) -%}
    {%- endif -%}
    {{ return("OK") }}
{%- endmacro %}


{#- The columns of the consumer over those of the changes: NULL where the table does not have a column any more. -#}
{% macro _changelog_columns(names, changes) -%}
    {%- set given = cdc._by_lower_name(cdc._table_types(changes.relation)) -%}
    {%- set columns = [] -%}
    {%- for name in names -%}
        {%- do columns.append(("" if name | lower in given else "null as ") ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {{ return(columns | join(", ")) }}
{%- endmacro %}


{#-
    Notes in the checkpoint from where the first build's changes are complete, before they are read. Commits may come between:
    what the model has of them tells the rest. Returns the table's properties.
-#}
{% macro _first_changelog(node) -%}
    {%- set source = cdc._relation_of(graph.nodes[node.depends_on.nodes[0]]) -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- if not cdc._reads_a_part() -%}
        {%- set position = cdc._changelog_position(source, cdc._shown_to(source)) -%}
        {%- do cdc._set_checkpoint(target, dict(position, first=true), cdc._creation()) -%}
    {%- endif -%}
    {{ return(cdc._table_features(cdc._table_types(source).values(), node)) }}
{%- endmacro %}


{#-
    The version up to which a first build's changes are complete: the newest one of a Delta table, whose feed is read later; of
    Iceberg the one that was the newest when the body was rendered.
-#}
{% macro _shown_to(source) -%}
    {%- set shown = adapter.iceberg_shown_to(source | string) if cdc._is_iceberg(source) else none -%}
    {{ return(cdc._table_version(source) if shown is none else shown) }}
{%- endmacro %}


{#- What the checkpoint of a consumer says: the version that it has read to, and what tells that commit from others. -#}
{% macro _changelog_position(source, version) -%}
    {{ return({"version": version, "commit": cdc._commit_id(source, version)}) }}
{%- endmacro %}


{#- The version that a consumer has read to. -#}
{% macro _changes_read(target, checkpoint) -%}
    {%- if not checkpoint.get("first") -%}
        {{ return(checkpoint.version) }}
    {%- endif -%}
    {%- set newest = run_query("select max(_commit_version) from " ~ target).rows[0][0] -%}
    {{ return([checkpoint.version, (newest or 0) | int] | max) }}
{%- endmacro %}


{#- Refuses to read on where nothing tells what has been read. -#}
{% macro _refuse_lost_position(node, above, source, checkpoint) -%}
    {%- set rebuild = " Nothing was written. Build " ~ node.name ~ " again: dbt build --full-refresh --select " ~ node.name -%}
    {%- if checkpoint.get("version") is none -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ node.name ~ " has lost its checkpoint, so it is unknown which changes of "
            ~ above.name ~ " it has: it was restored, truncated or built by another body." ~ rebuild) -%}
    {%- elif checkpoint.version > cdc._table_version(source)
        or cdc._is_other_commit(checkpoint.commit, cdc._commit_id(source, checkpoint.version)) -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ node.name ~ " has read the changes of " ~ source
            ~ " up to version " ~ checkpoint.version ~ ", and that table has been dropped and built again"
            ~ (", or rolled back" if cdc._is_iceberg(source)) ~ ": its versions start over." ~ rebuild) -%}
    {%- elif cdc._is_iceberg(source) and not cdc._commits_since(source, checkpoint.version).are_all -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ node.name ~ " has read the changes of " ~ source ~ " up to version "
            ~ checkpoint.version ~ ", and later ones are gone: Iceberg snapshots expired, or the table was rolled back or replaced."
            ~ rebuild) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    What tells a commit from one of the same version in a table that had the same name before. It says how it was asked for, and
    only what was asked for in one way can be compared.
-#}
{% macro _commit_id(relation, version) -%}
    {{ return(adapter.dispatch("commit_id", "cdc")(relation, version)) }}
{%- endmacro %}


{% macro default__commit_id(relation, version) -%}
    {%- for commit in run_query("describe history " ~ relation ~ " limit " ~ (cdc._table_version(relation) - version + 1)).rows
        if commit["version"] == version -%}
        {{ return("history: " ~ commit["timestamp"]) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__commit_id(relation, version) -%}
    {%- for commit in adapter.newest_commits(relation | string, cdc._table_version(relation) - version + 1) or []
        if commit.version == version -%}
        {{ return("log: " ~ commit.id) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{% macro _is_other_commit(known, found) -%}
    {{ return(known and found and known.split(":")[0] == found.split(":")[0] and known != found) }}
{%- endmacro %}


{#- How many rows a step has. -#}
{% macro _row_count(step) -%}
    {{ return(step.rows | length if step.rows is not none else run_query("select count(*) from " ~ step.relation).rows[0][0]) }}
{%- endmacro %}


{% macro _is_empty(relation) -%}
    {{ return(run_query("select count(*) from (select 1 from " ~ relation ~ " limit 1)").rows[0][0] == 0) }}
{%- endmacro %}
