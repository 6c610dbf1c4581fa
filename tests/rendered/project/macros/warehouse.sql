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
    {%- set types = {} -%}
    {%- for column in d.columns -%}{%- do types.update({column.name: cdc._table_type(column)}) -%}{%- endfor -%}
    {%- if d.relation in query -%}
        {{ return(dict(types, undeclared="string")) }}
    {%- endif -%}
    {{ return(history_types(d) if model.path.startswith("operations") else event_types(d)) }}
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
            "_entity_id": "string", "_ended_entity_id": "string", "_former_entity_ids": "array<string>", "_segment_id": "bigint",
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
    {%- elif sql.startswith("select dbt_change_type, ") -%}
        {{ return({"rows": [["insert", 3, 3, 0, 0, 0, 0, 0], ["update", 2, 0, 2, 0, 0, 0, 0]]}) }}
    {%- elif "_is_in_order = " in sql -%}
        {{ return({"rows": [[1 if (model.config.meta or {}).get("late") else 0]]}) }}
    {%- endif -%}
    {{ return({"rows": [[9, 1000]]}) }}
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


{% macro default__is_there(relation) -%}
    {{ return(load_relation(relation) is not none) }}
{%- endmacro %}


{% macro default__create_if_missing(relation, query) -%}
    {%- do model.setdefault("statements", []).append(["create " ~ relation.identifier, query]) -%}
{%- endmacro %}


{#- A model's `meta.counters` says what this run came to, by the table that it wrote. -#}
{% macro default__newest_commits(relation, limit) -%}
    {%- set position = {"cdc": relation | string, "read_to": 8} -%}
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
    {{ return({"relation": "step_" ~ name, "rows": none}) }}
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
        "create_schema": adapter_create_schema,
    }}) -%}
{%- endmacro %}


{% macro adapter_create_schema(relation) -%}
    {%- do model.setdefault("statements", []).append(["schema", "create schema if not exists " ~ relation.schema]) -%}
{%- endmacro %}


{#- Types of a table, by the declaration as well. -#}
{% macro default__table_types(table) -%}
    {{ return(default__column_types("select * from " ~ table)) }}
{%- endmacro %}
