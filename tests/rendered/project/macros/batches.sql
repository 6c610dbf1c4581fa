{#- What runs in a batch, from the package's own macros: the intermediate results, and what is written. -#}

{% macro first_build_of_history(events) -%}
    {{ return(cdc.spark__build_snapshot_table({}, "select * from " ~ events) if execute) }}
{%- endmacro %}


{#- A large first build, of which a query has found how many keys have anything but one full image. -#}
{% macro large_first_build(node_of, events, folded, lives=false) -%}
    {%- if not execute -%}{{ return("") }}{%- endif -%}
    {%- set traits = {"truncated": false, "folded": {"relation": "cdc_folded_keys_1", "count": folded}} -%}
    {%- if lives -%}
        {{ return(cdc._first_lives(dict(cdc._lives_spec_of_declaration(node_of, events), **traits), 9)) }}
    {%- endif -%}
    {%- set spec = cdc._declared_spec(node_of, "select * from " ~ events, cdc._relation_of(node_of)) -%}
    {{ return(cdc._first_versions(dict(spec, **traits), 9)) }}
{%- endmacro %}


{#- The keys that a large first build looks for, and the identity of events that its table notes. -#}
{% macro looked_for_keys(node_of, events) -%}
    {%- if execute -%}
        {%- set spec = cdc._declared_spec(node_of, "select * from " ~ events, cdc._relation_of(node_of)) -%}
        {{ return("-- cdc.identity: " ~ cdc._identity(spec) ~ "\n" ~ cdc._folded_keys(spec, 9)) }}
    {%- endif -%}
{%- endmacro %}


{% macro batch_of_history(history, truncates=0, partial=true, single=false, relabeled=0, traits={}) -%}
    {%- if not execute -%}{{ return("") }}{%- endif -%}
    {%- set node = cdc._node_of(history) -%}
    {%- set spec = spec_as_declared(node) -%}
    {%- set spec = dict(spec, columns=cdc._history_columns(spec), types=dict(spec.types, _events=events_type())) -%}
    {%- do spec.update(traits) -%}
    {%- set window = {"read_from": 8, "read_to": 9, "raw_rows": 1000, "few": true, "position": {"read_to": 9}} -%}
    {%- set events = cdc._step(spec, "events", cdc._new_events(spec, 8, 9), true) -%}
    {%- set facts = {
        "good": 1000, "truncates": truncates, "truncate_events": truncates, "partial": partial, "single": single, "relabeled": relabeled, "rejected": {"quarantined": 0, "left_out": 0, "erased": 0}, "bounds": some_keys(spec),
    } -%}
    {%- do cdc._write_batch(spec, window, events, facts, 7, {"tombstones": true}) -%}
    {{ return(statements()) }}
{%- endmacro %}


{#- What `dbt run-operation` runs; the relation is there for dbt's graph. -#}
{% macro operation(name, relation, arguments) -%}
    {%- if execute -%}
        {%- do answer_for_adapter() -%}
        {%- do context["cdc"][name](**dict({"table": relation.identifier, "dry_run": false}, **arguments)) -%}
        {{ return(statements()) }}
    {%- endif -%}
{%- endmacro %}


{#- The snapshot that a source table starts from is taken. -#}
{% macro taken_snapshot(table) -%}
    {%- if execute -%}
        {%- do answer_for_adapter() -%}
        {%- do cdc.cdc_bootstrap(source=table.schema, table=table.identifier) -%}
        {{ return(statements()) }}
    {%- endif -%}
{%- endmacro %}


{#- What runs at the end of a build: of these tables all but the last one succeeded. -#}
{% macro end_of_run(tables) -%}
    {%- if execute -%}
        {%- do answer_for_adapter() -%}
        {%- set results = [] -%}
        {%- for table in tables -%}
            {%- do results.append({
                "node": cdc._node_of(table), "status": "error" if loop.last else "success", "execution_time": loop.index + 0.25,
            }) -%}
        {%- endfor -%}
        {%- do cdc.record_run(results) -%}
        {{ return(statements()) }}
    {%- endif -%}
{%- endmacro %}


{#- What is wrong with an amendment of each of these. -#}
{% macro amendment_problems(tables) -%}
    {%- for table in (tables if execute else []) %}
-- {{ table }}
        {%- for problem in cdc._amendment_problems(cdc._amended_subject(table), "true", true, none, none, false, true) %}
--   {{ problem }}
        {%- else %}
--   nothing
        {%- endfor %}
    {%- endfor %}
{%- endmacro %}


{#- The events that `cdc_amend` makes of the rows that meet a condition. #}
{% macro amended_rows(history, where, set) -%}
    {%- if execute -%}
        {%- set subject = cdc._amended_subject(history.identifier) -%}
        {%- set amended = cdc._current_values(subject, where, set) -%}
        {%- for given in amended.set -%}{%- do given.update({"given_type": "double"}) -%}{%- endfor -%}
        {{ return(cdc._amended_rows(subject, amended, where)) }}
    {%- endif -%}
{%- endmacro %}


{% macro batch_of_current(current, history) -%}
    {%- if not execute -%}{{ return("") }}{%- endif -%}
    {%- set node = cdc._node_of(current) -%}
    {%- set spec = spec_as_declared(cdc._node_of(history)) -%}
    {%- set names = spec.key_columns + spec.value_columns + ["_cdc_created_at", "_cdc_updated_at", "_cdc_seq"] -%}
    {%- set keys = spec.key_columns -%}
    {%- set target = cdc._relation_of(node) -%}
    {%- set compared = cdc._compared_rows(node, history, target, names, keys) -%}
    {%- do cdc._step(spec, "changes, where the tables are compared as a whole", compared) -%}
    {%- set changed = cdc._changed_rows(node, history, 7, 9) -%}
    {%- set changes = cdc._step(spec, "changes", cdc._effective_changes(target, changed, keys, names), true) -%}
    {%- do cdc._write_current(dict(spec, relation=target), node, changes, {
        "version": 7, "names": names, "position": {}, "few": true, "selected": none, "checkpoint": {},
    }) -%}
    {{ return(statements()) }}
{%- endmacro %}


{#- The changes of a final table whose history has left its own in memory, where rows are followed through their keys. -#}
{% macro batch_of_current_by_key(current, history) -%}
    {%- if not execute -%}{{ return("") }}{%- endif -%}
    {%- set node = cdc._node_of(current) -%}
    {%- set keys = spec_as_declared(cdc._node_of(history)).follows -%}
    {%- set names = keys + ["name", "_cdc_created_at", "_cdc_updated_at", "_cdc_seq"] -%}
    {{ return(cdc._changes_by_key(node, {"relation": "step_published"}, keys, names)) }}
{%- endmacro %}


{% macro batch_without_history(current, has_truncates=false, single=false) -%}
    {%- if not execute -%}{{ return("") }}{%- endif -%}
    {%- set node = cdc._node_of(current) -%}
    {%- set spec = dict(spec_as_declared(node), tracked=[], lives=true, truncated=has_truncates) -%}
    {%- set events = cdc._step(spec, "events", cdc._new_events(spec, 8, 9), true) -%}
    {%- set bounds = none if has_truncates else some_keys(spec) -%}
    {%- set known = cdc._step(spec, "known", cdc._known_lives(spec, events, has_truncates, bounds, single), true) -%}
    {%- set form = cdc._next_lives if single else cdc._changed_lives -%}
    {%- set changes = cdc._step(spec, "changes", form(spec, events, known), true) -%}
    {%- set names = cdc._life_columns(spec) -%}
    {%- do cdc._write_current(spec, node, changes, {
        "version": 7, "names": names, "position": {}, "few": true, "selected": cdc._final_columns(node, names), "checkpoint": {},
    }) -%}
    {{ return(statements()) }}
{%- endmacro %}


{#- The plan of a table that has the declared columns. -#}
{% macro spec_as_declared(node) -%}
    {%- set events_sql = "select * from " ~ graph.nodes[node.depends_on.nodes[0]].relation_name -%}
    {{ return(cdc._spec_of_types(node, event_types(cdc._upstream_declaration(node)), events_sql, cdc._relation_of(node))) }}
{%- endmacro %}


{#- The type of `_events`; what an image holds plays no part. -#}
{% macro events_type(d=none) -%}
    {%- if d and not cdc._has_event_time(d) -%}
        {{ return("array<struct<_seq:bigint,_op:string,_event_id:bigint,_unset:array<string>,_image:struct<created_ts:string>>>") }}
    {%- endif -%}
    {{ return("array<struct<_seq:bigint,_op:string,_event_id:bigint,_ts:timestamp,_unset:array<string>,_image:struct<a:int>>>") }}
{%- endmacro %}


{#- Three keys, as a batch lists them. -#}
{% macro some_keys(spec) -%}
    {%- set keys = ["a", "b", "c"] if spec.types[spec.key_columns[0]] == "string" else [1, 5, 9] -%}
    {{ return(cdc._key_bounds(spec, {"low": keys[0], "high": keys[2], "listed": keys})) }}
{%- endmacro %}
