{#-
    What a warehouse would answer. Models whose SQL depends on it are few: a first build, a batch and an operation run statements, an
    audit looks for tombstones, schema_drift for the columns of a typed raw table. Any other model that asks is an error, for a model's
    body is to render without a warehouse.
-#}
{% macro may_ask(folders) -%}
    {%- if model.resource_type != "test" and model.path.split("/")[0] not in folders -%}
        {%- do exceptions.raise_compiler_error(model.name ~ " asks the warehouse while it compiles.") -%}
    {%- endif -%}
{%- endmacro %}


{#- Types of the raw table, or of the events that are made of it, by the declaration of the source above. -#}
{% macro default__column_types(query) -%}
    {%- do may_ask(["first_build", "drift", "operations"]) -%}
    {%- set d = cdc._upstream_declaration(model) -%}
    {%- if (model.config.meta or {}).get("snapshot") -%}{{ return(snapshot_types(d, query)) }}{%- endif -%}
    {%- set types = {} -%}
    {%- for column in d.columns -%}{%- do types.update({column.name: cdc._table_type(column)}) -%}{%- endfor -%}
    {%- if d.relation in query -%}
        {{ return(dict(types, undeclared="string")) }}
    {%- endif -%}
    {%- if model.path.startswith("operations") and d.key_changes -%}
        {#- The staging view, or the resolver's table and all that is made of it. -#}
        {{ return(event_types(dict(d, key_changes=false) if ".events_" in query else d)) }}
    {%- endif -%}
    {{ return(history_types(d) if model.path.startswith("operations") else event_types(d)) }}
{%- endmacro %}


{#-
    Types of what `cdc_bootstrap` asks about: the columns of a snapshot, as a model's `meta.snapshot` names them, those of the
    stream that it is placed in, whose `_seq` is `meta.position`, and those of its copy.
-#}
{% macro snapshot_types(d, query) -%}
    {%- set meta = model.config.meta -%}
    {%- if " as value from " in query -%}
        {{ return({"value": meta.snapshot.values() | first}) }}
    {%- elif query.startswith("with ") -%}
        {{ return({"_seq": meta.position, "_ts": "timestamp"}) }}
    {%- elif query.endswith(cdc._bootstrap_relation(d) | string) -%}
        {%- set types = {} -%}
        {%- for name, type in meta.snapshot.items() if " " not in name -%}
            {%- do types.update({name: "string" if type == "void" else type}) -%}
        {%- endfor -%}
        {%- for name in d.bootstrap.columns -%}{%- do types.update({name: meta.snapshot.values() | first}) -%}{%- endfor -%}
        {%- if cdc._has_event_time(d) -%}{%- do types.update({"_cdc_time": "timestamp"}) -%}{%- endif -%}
        {{ return(dict(types, _cdc_position=meta.position, _cdc_row="bigint", _cdc_part="string", _cdc_declared="string")) }}
    {%- endif -%}
    {{ return(meta.snapshot) }}
{%- endmacro %}


{#- Types of a history, as an older version of the package built it where a model's `meta.old` says so. -#}
{% macro history_types(d) -%}
    {%- set types = event_types(d) -%}
    {%- do types.update({
        "_seq_end": types["_seq"], "dbt_valid_from": "timestamp", "dbt_valid_to": "timestamp", "_events": events_type(d),
    }) -%}
    {%- if not (model.config.meta or {}).get("old") -%}{%- do types.update({"_cdc_is_latest": "boolean"}) -%}{%- endif -%}
    {%- set values = d.columns | map(attribute="name") | list -%}
    {%- set kept = cdc._history_columns({"key_columns": d.key_columns, "value_columns": values}) -%}
    {%- set known = {} -%}
    {%- for name, type in types.items() if name in kept -%}{%- do known.update({name: type}) -%}{%- endfor -%}
    {{ return(known) }}
{%- endmacro %}


{#- Types of the canonical events of a declared table; with `key_changes`, as the resolver's table has them. -#}
{% macro event_types(d) -%}
    {%- set types = {} -%}
    {%- for column in d.columns -%}{%- do types.update({column.name: cdc._table_type(column)}) -%}{%- endfor -%}
    {%- do types.update({"_op": "string", "_seq": "bigint"}) -%}
    {%- if cdc._has_event_time(d) -%}{%- do types.update({"_ts": "timestamp"}) -%}{%- endif -%}
    {%- do types.update({"_event_id": "bigint", "_unset": "array<string>"}) -%}
    {%- for key in d.key_columns -%}{%- do types.update({"_old_" ~ key: types[key]}) -%}{%- endfor -%}
    {%- do types.update({"_arrived": "bigint"}) -%}
    {%- if d.key_changes -%}
        {%- do types.update({
            "_entity_id": "bigint", "_ended_entity_id": "bigint", "_former_entity_ids": "array<bigint>", "_segment_id": "bigint",
            "_left_segment_id": "bigint", "_ended_segment_id": "bigint", "_resolved": "bigint",
        }) -%}
    {%- endif -%}
    {{ return(types) }}
{%- endmacro %}


{#- Batch 9 is the newest one. A batch inserts and updates; whether events of it are late, a model's `meta.late` says. -#}
{% macro run_query(sql) -%}
    {%- do may_ask(["first_build", "batch", "operations"]) -%}
    {%- if model.path.startswith("operations") -%}
        {%- do model.setdefault("statements", []).append(["query", sql]) -%}
        {%- if sql.startswith("describe detail ") -%}
            {{ return([{"numFiles": 60, "sizeInBytes": 1000000}]) }}
        {%- elif sql.startswith("describe history ") -%}
            {{ return({"rows": commits_of_runs(sql.split()[2])}) }}
        {%- endif -%}
        {%- for part, rows in answers().items() if part in sql -%}{{ return({"rows": rows}) }}{%- endfor -%}
    {%- elif sql.startswith("select dbt_change_type, ") -%}
        {{ return({"rows": [["insert", 3, 3, 0, 0, 0, 0, 0], ["update", 2, 0, 2, 0, 0, 0, 0]]}) }}
    {%- elif "_is_in_order = " in sql -%}
        {{ return({"rows": [[1 if (model.config.meta or {}).get("late") else 0]]}) }}
    {%- endif -%}
    {{ return({"rows": [[9, 1000]]}) }}
{%- endmacro %}


{#-
    The rows that a query with such a part finds. Of a snapshot: no complete copy of it; in the copy that is made five rows with all
    that they need, and no key twice; two events of the stream that it covers. Of erasures: good arguments, a key on the list, none
    whose erasure is unfinished, and where the keys are.
-#}
{% macro answers() -%}
    {{ return({
        "where _cdc_part = 'position'": [],
        "count(_cdc_position)": [[5, 5, 5]],
        "any_value(example)": [[0, none]],
        "as stream": [["7", "3", 2, "1", true]],
        "select try_cast(": [[true, true]],
        "count(distinct listed_keys.key_hash)": [[1, 1]],
        "count(distinct takers._entity_id)": [[0]],
        "having count(*) > 1 order by place": [],
        "where __cdc_is_mixed": [[0]],
        "as resolved_events on identified_events._event_id": [[0]],
        "where not is_done": [[0]],
        "to_json(struct(cast(min(": [['{"low": "1", "high": "9", "listed": ["1", "5", "9"]}']],
    }) }}
{%- endmacro %}


{#- The commits of a table, one for each run: a final table names the version of its history that it was made of. -#}
{% macro commits_of_runs(relation) -%}
    {%- set commits = [] -%}
    {%- for version, run in [[9, "third"], [7, "second"], [5, "first"], [3, "before"]] -%}
        {%- set position = {"cdc": relation, "run": {"id": run}, "read_to": version} -%}
        {%- if "history_" not in relation -%}
            {%- do position.update({"version": version}) -%}
        {%- endif -%}
        {%- do commits.append({
            "version": version, "timestamp": "2026-01-0" ~ version, "operation": "WRITE", "userMetadata": tojson(position),
        }) -%}
    {%- endfor -%}
    {{ return(commits) }}
{%- endmacro %}


{% macro default__column_names(relation) -%}
    {{ return(["order_id", "line", "status"]) }}
{%- endmacro %}


{% macro default__table_properties(relation) -%}
    {%- do may_ask(["audit", "operations"]) -%}
    {%- set keys = cdc._upstream_declaration(model).key_columns | join(", ") -%}
    {{ return({"cdc.compacted": "true", "cdc.keys": keys, "delta.enableChangeDataFeed": "true"}) }}
{%- endmacro %}


{#- A model's `meta.tables` names the tables that are there, and its `meta.views` the views. -#}
{% macro load_relation(relation) -%}
    {%- do may_ask(["audit", "batch", "first_build", "operations"]) -%}
    {%- if relation.identifier in (model.config.meta or {}).get("views", []) -%}
        {{ return(relation.incorporate(type="view")) }}
    {%- endif -%}
    {{ return(relation if relation.identifier in (model.config.meta or {}).get("tables", []) else none) }}
{%- endmacro %}


{#- dbt's cache tells, without a warehouse. -#}
{% macro default__known_amendments(relation) -%}
    {{ return(relation if relation.identifier in (model.config.meta or {}).get("tables", []) else none) }}
{%- endmacro %}


{#- The same of the erasure list. -#}
{% macro default__erasure_list(relation) -%}
    {{ return(relation if relation.identifier in (model.config.meta or {}).get("tables", []) else none) }}
{%- endmacro %}


{#- Spark accepts every query. -#}
{% macro default__query_problem(query) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro default__attempt(statement) -%}
    {%- do run_query(statement) -%}
    {{ return(none) }}
{%- endmacro %}


{#- An expression that names a column of the snapshot is none. -#}
{% macro default__is_value(expression) -%}
    {%- for name in model.config.meta.snapshot if name in expression -%}{{ return(false) }}{%- endfor -%}
    {{ return(true) }}
{%- endmacro %}


{% macro default__is_there(relation) -%}
    {{ return(load_relation(relation) is not none) }}
{%- endmacro %}


{% macro default__create_if_missing(relation, query) -%}
    {%- do model.setdefault("statements", []).append(["create " ~ relation.identifier, query]) -%}
{%- endmacro %}


{#-
    A model's `meta.counters` says what this run came to, by the table that it wrote. What is made of another table has read all
    of its versions.
-#}
{% macro default__newest_commits(relation, limit) -%}
    {%- set position = {"cdc": relation | string, "read_to": 8} -%}
    {%- set node = cdc._node_of(relation) if model.path.startswith("operations") else none -%}
    {%- if node and cdc._kind_of(node) in ["final", "changelog"] and not cdc._reads_events(node) -%}
        {%- set position = {"cdc": relation | string, "version": 7} -%}
    {%- endif -%}
    {%- set counters = (model.config.meta or {}).get("counters", {}).get(relation.identifier) -%}
    {%- if counters -%}
        {%- set table = cdc._upstream_declaration(cdc._node_of(relation)).table -%}
        {%- do position.update({"run": {"id": invocation_id, "table": table, "counters": counters}}) -%}
    {%- endif -%}
    {{ return([{"version": 7, "operation": "WRITE", "userMetadata": tojson(position)}]) }}
{%- endmacro %}


{% macro default__commits_since(relation, version) -%}
    {{ return({"commits": [], "are_all": true}) }}
{%- endmacro %}


{% macro default__commit_id(relation, version) -%}
    {{ return("log: of version " ~ version) }}
{%- endmacro %}


{% macro default__raw_version(d) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro default__table_id(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro default__last_commit(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro default__view_text(relation) -%}
    {{ return(none) }}
{%- endmacro %}


{#- Intermediate results and writes are noted: `statements` shows them. -#}
{% macro default__step(spec, name, sql, few, scans_table) -%}
    {%- do model.setdefault("statements", []).append(["step " ~ name, sql]) -%}
    {%- set known = {"relation": "step_" ~ name, "rows": [[1], [5], [9]]} -%}
    {{ return(known if name.startswith("erased_") or name == "new_ranges" else dict(known, rows=none)) }}
{%- endmacro %}


{% macro default__write_changes(spec, write) -%}
    {%- set rows = "select " ~ cdc._column_list(write.columns) ~ " from " ~ write.changes.relation ~ " where " ~ write.new_rows -%}
    {%- do model.setdefault("statements", []).append(["rows to append, or to put in place of others", rows]) -%}
    {%- do model.statements.append(["merge", write.merge]) -%}
    {{ return(true) }}
{%- endmacro %}


{% macro statement(name=none, fetch_result=false, auto_begin=true, language="sql") -%}
    {%- do model.setdefault("statements", []).append([name, caller()]) -%}
{%- endmacro %}


{% macro default__publish_changes(spec, version, changes) -%}{%- endmacro %}


{#- The same in every run: what tells one run from another has a name in its place. -#}
{% macro statements() -%}
    {%- set texts = [] -%}
    {%- for title, sql in model.statements -%}{%- do texts.append("-- " ~ title ~ "\n" ~ (sql | trim) ~ ";") -%}{%- endfor -%}
    {%- set started_at = run_started_at.strftime("%Y-%m-%d %H:%M:%S.%f") -%}
    {{ return(texts | join("\n\n") | replace(invocation_id, "<invocation_id>") | replace(started_at, "<run_started_at>")) }}
{%- endmacro %}


{#- The adapter asks the warehouse, too: from here on, what an operation calls of it is noted or answered by these macros. -#}
{% macro answer_for_adapter() -%}
    {%- do context.update({"adapter": {
        "dispatch": adapter.dispatch,
        "once": adapter.once,
        "is_iceberg": adapter.is_iceberg,
        "cache_added": adapter.cache_added,
        "commit_position": adapter_commit_position,
        "create_schema": adapter_create_schema,
        "drop_relation": adapter_drop_relation,
        "drop_steps": adapter_drop_steps,
        "query_problem": default__query_problem,
        "has_local_log": adapter_has_local_log,
        "has_hidden_rows": adapter_has_hidden_rows,
        "shortened_lengths": adapter_shortened_lengths,
        "view_query": adapter_view_query,
        "erase_rows": adapter_erase_rows,
        "files_hiding": adapter_files_hiding,
        "forget_past": adapter_forget_past,
        "search_files": adapter_search_files,
        "write_certificate": adapter_write_certificate,
    }}) -%}
{%- endmacro %}


{% macro noted(title, text) -%}
    {%- do model.setdefault("statements", []).append([title, text]) -%}
{%- endmacro %}


{% macro adapter_commit_position(table, sql, checkpoint, version) -%}
    {%- do noted("in a commit with " ~ checkpoint, sql) -%}
    {{ return(true) }}
{%- endmacro %}


{% macro adapter_create_schema(relation) -%}
    {%- do noted("schema", "create schema if not exists " ~ relation.schema) -%}
{%- endmacro %}


{% macro adapter_drop_relation(relation) -%}
    {%- do noted("drop", "drop table " ~ relation) -%}
{%- endmacro %}


{% macro adapter_drop_steps() -%}{%- endmacro %}


{% macro adapter_has_local_log(table) -%}
    {{ return(true) }}
{%- endmacro %}


{#- Deletion vectors hide rows of the raw table, and rows of the keys in one file of each other table. -#}
{% macro adapter_has_hidden_rows(table) -%}
    {{ return(table.startswith("raw.")) }}
{%- endmacro %}


{% macro adapter_files_hiding(table, keys) -%}
    {{ return(["part-1.parquet"]) }}
{%- endmacro %}


{% macro adapter_shortened_lengths(tables) -%}
    {{ return([32]) }}
{%- endmacro %}


{#- Of the views that a model's `meta.views` names. -#}
{% macro adapter_view_query(view) -%}
    {%- set is_there = view.split(".")[-1] in (model.config.meta or {}).get("views", []) -%}
    {{ return("select * from events_before" if is_there else none) }}
{%- endmacro %}


{% macro adapter_erase_rows(table, sql, checkpoint) -%}
    {%- do noted("erase, in a commit with " ~ checkpoint, sql) -%}
    {{ return({"rows": 3, "files": 2}) }}
{%- endmacro %}


{% macro adapter_forget_past(table, erasure_id, checkpoint, version, maintenance) -%}
    {%- do noted("older files and the log before this commit go", table ~ ": " ~ checkpoint) -%}
    {{ return({"version": 12, "files": 4}) }}
{%- endmacro %}


{% macro adapter_search_files(table, values, keys, beginnings) -%}
    {{ return({"searched": 6, "holding": []}) }}
{%- endmacro %}


{% macro adapter_write_certificate(erasure_id, certificate) -%}
    {{ return("target/certificate.json") }}
{%- endmacro %}


{#- Types of a table, by the declaration as well. -#}
{% macro default__table_types(table) -%}
    {{ return(default__column_types("select * from " ~ table)) }}
{%- endmacro %}
