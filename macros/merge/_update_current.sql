{#-
    One batch of a final table: what its history changed since the table was written, and one commit that changes it. Returns what
    came of it.

    The changes are those that the history's own run has at hand; else those that the history's change feed gives. The two tables
    are compared as a whole where neither tells everything: keys that rows can leave to each other, other columns, a lost
    checkpoint, a feed whose files are gone.
-#}
{% macro _update_current(node) -%}
    {%- if cdc._reads_a_part() -%}
        {{ return("left as it is: --empty and --sample read a part of the rows") }}
    {%- endif -%}
    {#- dbt itself asks when it creates the table, and not when columns of the history are about to be added to it. -#}
    {%- if node.config.contract and node.config.contract.enforced -%}
        {%- do dbt.get_assert_columns_equivalent(node.compiled_code) -%}
    {%- endif -%}
    {%- do cdc._clear_checkpoint() -%}
    {%- set above = graph.nodes[node.depends_on.nodes[0]] -%}
    {%- if above.resource_type != "snapshot" -%}
        {{ return(cdc._update_lives(node)) }}
    {%- endif -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- set history = cdc._relation_of(above) -%}
    {%- do cdc._refuse_other_format(node, target) -%}
    {%- if cdc._is_parquet(node) -%}
        {{ return(cdc._update_parquet(node, history)) }}
    {%- endif -%}
    {%- set fingerprint = cdc._fingerprint(node, [cdc._last_commit(history)]) -%}
    {%- set noted = cdc._read_checkpoint(target) -%}
    {%- if fingerprint is not none and noted.get("fingerprint") == fingerprint and cdc._is_own(target, noted) -%}
        {{ return("nothing new") }}
    {%- endif -%}
    {%- do cdc._keep_format_properties(node, target) -%}
    {#- The properties may have been a commit of their own. -#}
    {%- set checkpoint = cdc._read_checkpoint(target) -%}
    {%- set is_own = cdc._is_own(target, checkpoint) -%}
    {%- set seen = cdc._seen_history(node, history) -%}
    {%- set position = dict(seen.position, fingerprint=fingerprint) -%}
    {%- set spec = {
        "relation": target,
        "key_columns": cdc._as_list(node.config.get("unique_key")),
        "types": seen.types,
        "is_large": cdc._is_large(target),
    } -%}
    {%- do cdc._refuse_missing_columns(node, target) -%}
    {%- set version = checkpoint.at -%}
    {%- if checkpoint.get("columns") != position.columns -%}
        {%- do cdc._refuse_other_source(node, cdc._column_types(target), false) -%}
        {%- set columns = cdc._final_types(seen.types) -%}
        {%- set declaration = cdc._upstream_declaration(node) -%}
        {%- do cdc._evolve(target, columns, renames=declaration.renames if declaration else {}) -%}
        {%- set version = cdc._table_version(target) -%}
    {%- endif -%}
    {%- set names = cdc._column_types(target).keys() | list -%}
    {%- do cdc._refuse_other_columns(node, target, history, names, seen.types) -%}
    {%- set follows = "_entity_id" in seen.types -%}
    {%- set reads_changes = is_own and not follows and cdc._leads_to(checkpoint, position) -%}
    {%- set writes = cdc._writes_since(history, checkpoint.version) if reads_changes else none -%}
    {%- if reads_changes and not writes -%}
        {{ return("nothing new") }}
    {%- endif -%}
    {%- set published = cdc._published_changes(history, writes) if reads_changes else none -%}
    {%- set few = published is not none or (reads_changes and not cdc._is_large(history)) -%}
    {%- set changes = published -%}
    {%- set predicates = [] -%}
    {%- if reads_changes and not published and cdc._has_feed(history, checkpoint.version) -%}
        {%- set changed_rows = cdc._changed_rows(node, history, checkpoint.version, position.version) -%}
        {%- set changes = cdc._feed_step(
            spec, history, checkpoint.version, cdc._effective_changes(target, changed_rows, spec.key_columns, names), few
        ) -%}
    {%- endif -%}
    {%- if changes is none -%}
        {%- set few = false -%}
        {#- What is written as a new row must not find the rows that are deleted for it. -#}
        {%- do predicates.append("(DBT_INTERNAL_SOURCE._current_op = 'D' or DBT_INTERNAL_SOURCE._is_known)") -%}
        {%- set changes = cdc._step(
            spec, "changes", cdc._compared_rows(node, history, target, names, spec.key_columns), few, scans_table=true
        ) -%}
    {%- endif -%}
    {%- set outcome = cdc._write_current(spec, node, changes, {
        "version": version,
        "names": names,
        "position": position,
        "few": few,
        "selected": cdc._final_columns(node, names, {"_cdc_updated_at": "dbt_updated_at"}) if published,
        "checkpoint": checkpoint,
        "predicates": predicates,
    }) -%}
    {%- do cdc._drop_steps() -%}
    {{ return(outcome) }}
{%- endmacro %}


{#- Whether the rows of a final table are those that its checkpoint tells of: nobody else wrote it. -#}
{% macro _is_own(target, checkpoint) -%}
    {{ return(checkpoint.get("version") is not none and not cdc._writes_since(target, checkpoint.written_at)) }}
{%- endmacro %}


{#- A final table with a column that its history does not have: nothing says what is to stand there in rows that change. -#}
{% macro _refuse_other_columns(node, target, history, names, types) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- set known = types.keys() | list + ["_cdc_updated_at"] + (declaration.partition_by.keys() | list if declaration else []) -%}
    {%- set known = known | map("lower") | list -%}
    {%- set others = [] -%}
    {%- for name in names if name | lower not in known -%}{%- do others.append("`" ~ name ~ "`") -%}{%- endfor -%}
    {%- if others -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ target ~ " has the column " ~ (others | join(", ")) ~ ", which its history " ~ history ~ " does not have. Nothing was"
            ~ " written. Drop the column, or rebuild the table: dbt build --full-refresh --select " ~ node.name ~ ". Put columns of your"
            ~ " own into a model that reads the table."
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#- A final table without a column that was declared to be computed since: its rows would have to be computed again. -#}
{% macro _refuse_missing_columns(node, target) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- if not declaration or not declaration.partition_by -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set known = cdc._table_types(target) | map("lower") | list -%}
    {%- set missing = [] -%}
    {%- for name in declaration.partition_by if name | lower not in known -%}
        {%- do missing.append("`" ~ name ~ "`") -%}
    {%- endfor -%}
    {%- if missing -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ target ~ " has no column " ~ (missing | join(", ")) ~ ", which `partition_by` of " ~ declaration.table
            ~ " declares. Nothing was written. Build the table again: dbt build --full-refresh --select " ~ node.name
        ) -%}
    {%- endif -%}
{%- endmacro %}


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


{#- What a final table is made of: its history's version, the history itself, its columns, and how others are computed of them. -#}
{% macro _seen_history(node, history) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- set types = cdc._table_types(history) -%}
    {{ return({
        "types": types,
        "position": {
            "history": cdc._table_properties(history).get("cdc.build"),
            "version": cdc._table_version(history),
            "columns": local_md5(types | string),
            "computed": local_md5(tojson(declaration.partition_by if declaration else {})),
        },
    }) }}
{%- endmacro %}


{#- Whether a final table that was made of one state of its history becomes that of another by the changes between them. -#}
{% macro _leads_to(checkpoint, position) -%}
    {{ return(checkpoint.get("columns") == position.columns and checkpoint.get("history") == position.history
        and checkpoint.version <= position.version
        and checkpoint.get("computed", position.computed) == position.computed) }}
{%- endmacro %}


{#- Whether the changes of a history since a version can be read back: of Iceberg as long as no snapshot between them expired. -#}
{% macro _has_feed(history, since) -%}
    {{ return(not cdc._is_iceberg(history) or cdc._commits_since(history, since).are_all) }}
{%- endmacro %}


{#- The columns of a history that its final table has, with their types. -#}
{% macro _final_types(types) -%}
    {%- set columns = {} -%}
    {%- for name, type in types.items() if name not in cdc._history_columns({"key_columns": [], "value_columns": []}) -%}
        {%- do columns.update({name: type}) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#-
    The columns of a final table as expressions over those that it is made of.
      renamed   name and expression of those that are called otherwise there
-#}
{% macro _final_columns(node, names, renamed={}) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- set computed = dict(declaration.partition_by if declaration else {}, **renamed) -%}
    {%- set columns = [] -%}
    {%- for name in names -%}
        {%- do columns.append((computed[name] ~ " as " if name in computed else "") ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {{ return(columns) }}
{%- endmacro %}


{#- The changes of a history that its own run left for its final table, if they are all there were. -#}
{% macro _published_changes(history, writes) -%}
    {{ return(adapter.dispatch("published_changes", "cdc")(history, writes)) }}
{%- endmacro %}


{% macro default__published_changes(history, writes) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__published_changes(history, writes) -%}
    {{ return(adapter.published_changes(history | string, writes)) }}
{%- endmacro %}


{#-
    The changes that a history's change feed gives, as a step; none where the feed cannot be read that far back.
      since   the version of the history after which the feed is read
-#}
{% macro _feed_step(spec, history, since, sql, few) -%}
    {%- set step = adapter.dispatch("feed_step", "cdc")(spec, history, since, sql, few) -%}
    {%- if step is none -%}
        {%- do log("cdc: the change feed of " ~ history ~ " cannot be read from version " ~ since ~ " on. " ~ spec.relation
            ~ " is compared with it as a whole.", info=true) -%}
    {%- endif -%}
    {{ return(step) }}
{%- endmacro %}


{#- A statement that fails ends the run: what VACUUM may have removed by now is not asked for. -#}
{% macro default__feed_step(spec, history, since, sql, few) -%}
    {%- set commits = cdc.default__newest_commits(history, cdc._table_version(history) - since + 1) -%}
    {%- set kept = cdc._table_properties(history).get("delta.deletedFileRetentionDuration", "interval 7 days") -%}
    {%- set is_kept = commits and commits[-1]["version"] == since and run_query("select timestamp "
        ~ cdc._literal(commits[-1]["timestamp"]) ~ " > current_timestamp() + interval 1 day - " ~ kept).rows[0][0] -%}
    {{ return(cdc._step(spec, "changes", sql, few, scans_table=true) if is_kept else none) }}
{%- endmacro %}


{% macro sparkcdc__feed_step(spec, history, since, sql, few) -%}
    {{ return(adapter.step_if_it_can("changes", sql, few, few and not spec.is_large)) }}
{%- endmacro %}


{#-
    Every open version that is no row, and every row that is no open version: for a table whose checkpoint is lost or whose
    history was rebuilt. Rows that somebody has written twice are deleted, all of a key, and its open version is written as a new
    row.
-#}
{% macro _compared_rows(node, history, target, names, keys) -%}
    {%- set columns = cdc._column_list(names) -%}
    {%- set keys = keys | map("lower") | list -%}
    {%- set of_known = "struct(" ~ cdc._column_list(names, "known") ~ ")" -%}
    {%- set of_open = "struct(" ~ cdc._column_list(names, "open_versions") ~ ")" -%}
with open_versions as (
    {{ cdc._current_rows(node, history) | indent(4) }}
),

known as (
    select
        *,
        true as _cdc_is_known,
        row_number() over (partition by {{ cdc._column_list(keys) }} order by {{ cdc._column_list(keys) }}) as _cdc_copy,
        count(*) over (partition by {{ cdc._column_list(keys) }}) > 1 as _cdc_is_repeated
    from {{ target }}
),

compared as (
    select
        {%- for name in names %}
        {%- if name | lower in keys %}
        coalesce(open_versions.{{ cdc._quoted(name) }}, known.{{ cdc._quoted(name) }}) as {{ cdc._quoted(name) }},
        {%- else %}
        open_versions.{{ cdc._quoted(name) }},
        {%- endif %}
        {%- endfor %}
        known._cdc_is_known is not null as _cdc_was_known,
        explode(case
            when open_versions._cdc_seq is null then array('D')
            when known._cdc_is_repeated then array('D', 'U')
            else array('U')
        end) as _current_op,
        coalesce(known._cdc_is_repeated, false) as _cdc_is_repeated
    from open_versions
    full outer join (select * from known where _cdc_copy = 1) as known on {{ cdc._same(keys, "open_versions", "known") }}
    where not ({{ of_open }} <=> {{ of_known }}) or known._cdc_is_repeated
)

select
    {{ columns }},
    _current_op,
    _cdc_was_known and (_current_op = 'D' or not _cdc_is_repeated) as _is_known
from compared
{%- endmacro %}


{#-
    The keys whose current row is another one since a version of the history: the open version, or that there is none any more. A
    key whose open version did not change is left out.
-#}
{% macro _changed_rows(node, history, read, now) -%}
    {%- set keys = cdc._column_list(cdc._as_list(node.config.get("unique_key"))) -%}
with changes as (
    select
        *,
        {#- A row that is replaced comes as a delete and an insert of one commit. -#}
        row_number() over (
            partition by dbt_scd_id order by _commit_version desc, _change_type in ('delete', 'update_preimage')
        ) as _cdc_newest
    from {{ cdc._row_images(history, read + 1, now) }}
    where _seq_end is null or _change_type not in ('delete', 'update_preimage')
),

candidates as (
    select
        *,
        _cdc_newest = 1 and _seq_end is null and _change_type in ('insert', 'update_postimage') as _cdc_is_current
    from changes
),

last_changes as (
    select
        *,
        row_number() over (partition by {{ keys }} order by _cdc_is_current desc, _commit_version desc) as _cdc_latest
    from candidates
    where _cdc_is_current or _seq_end is null
)

select
    {{ cdc._current_columns(
        node, ["_cdc_newest", "_cdc_latest", "_cdc_is_current", "_change_type", "_commit_version", "_commit_timestamp"]
    ) }},
    if(_cdc_is_current, 'U', 'D') as _current_op
from last_changes
where _cdc_latest = 1
{%- endmacro %}


{#- The changes that change something, and whether the table knows their keys. -#}
{% macro _effective_changes(target, changes, keys, names) -%}
    {%- set of_known = "struct(" ~ cdc._column_list(names, "known") ~ ")" -%}
    {%- set of_changes = "struct(" ~ cdc._column_list(names, "changes") ~ ")" -%}
select
    {{ cdc._column_list(names, "changes") }},
    changes._current_op,
    known._cdc_is_known is not null as _is_known
from ({{ changes }}) as changes
left join (select *, true as _cdc_is_known from {{ target }}) as known on {{ cdc._same(keys, "known", "changes") }}
where
    (changes._current_op = 'U' and (known._cdc_is_known is null or not {{ of_changes }} <=> {{ of_known }}))
    or (changes._current_op = 'D' and known._cdc_is_known)
{%- endmacro %}


{#- Notes in the checkpoint what a final table is made of, before it is made. Returns what it was declared as. -#}
{% macro _first_current(node) -%}
    {%- set above = graph.nodes[node.depends_on.nodes[0]] -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- if above.resource_type == "snapshot" -%}
        {%- set history = cdc._relation_of(above) -%}
        {%- set seen = cdc._seen_history(node, history) -%}
        {%- if not cdc._reads_a_part() -%}
            {%- if cdc._is_parquet(node) -%}
                {%- do cdc._refuse_partition_types(node, cdc._column_types(cdc._current_rows(node, history))) -%}
                {{ return({"cdc.checkpoint": tojson(seen.position)}) }}
            {%- endif -%}
            {%- set fingerprint = cdc._fingerprint(node, [cdc._last_commit(history)]) -%}
            {%- do cdc._set_checkpoint(target, dict(seen.position, fingerprint=fingerprint), cdc._creation()) -%}
        {%- endif -%}
        {{ return(cdc._table_features(seen.types.values(), node)) }}
    {%- endif -%}
    {%- set spec = cdc._first_lives_spec(node) -%}
    {%- do cdc._note_first_window(spec, node) -%}
    {{ return(dict(cdc._built_as(spec), **cdc._table_features(spec.types.values(), node))) }}
{%- endmacro %}
