{#-
    `strategy: cdc.scd2` of a snapshot. dbt calls it with the snapshot's node before it builds or merges; all that is wrong
    is said here, before any write.
-#}
{% macro snapshot_scd2_strategy(node, snapshotted_rel, current_rel, model_config, target_exists) -%}
    {{ return(adapter.dispatch("snapshot_scd2_strategy", "cdc")(node, target_exists)) }}
{%- endmacro %}


{% macro default__snapshot_scd2_strategy(node, target_exists) -%}
    {%- set target = api.Relation.create(database=none, schema=node.schema, identifier=node.alias, type="table") -%}
    {%- set t = cdc._history_traits(node, node.compiled_code) -%}
    {%- if target_exists -%}
        {%- set properties = cdc._table_properties(target) -%}
        {%- do cdc._refuse_drift(node, t, properties) -%}
        {%- do cdc._evolve_to(t, target, cdc._untracked(t), properties) -%}
    {%- endif -%}
    {%- set rebuild = flags.FULL_REFRESH and target_exists -%}
    {%- set stamp = cdc._read_stamp(target) if target_exists else {} -%}
    {%- if rebuild -%}
        {%- set stamp = {"at": stamp.at} -%}
    {%- endif -%}
    {%- do t.update({
        "target": target,
        "tombstones": cdc._tombstones_of(target),
        "tombstones_known": "tombstones" in stamp,
        "rebuild": rebuild,
        "counted": target_exists,
        "scd_id": "dbt_scd_id",
        "unique_key": t.key_columns,
    }) -%}
    {%- do cdc._find_position(t, node.compiled_code, stamp, node) -%}
    {#- Keys that were resolved anew from the beginning: nothing tells what the old labels became. -#}
    {%- if t.follows and t.read_from is not none and not t.nothing_new -%}
        {%- set first = run_query("select min(_resolved) from (" ~ node.compiled_code ~ ") as resolved_events").rows[0][0] -%}
        {%- do t.update({"rebuild": rebuild or first > t.read_from}) -%}
    {%- endif -%}
    {%- if not target_exists -%}
        {%- do cdc._record_first_build(t, node) -%}
    {%- elif not t.nothing_new -%}
        {%- set detail = cdc._table_detail(target) -%}
        {%- do t.update({"steps": cdc._steps(detail.location), "large": detail.large}) -%}
        {%- do t.update({"has_tombstones": cdc._find_tombstones(t, node.compiled_code)}) -%}
    {%- endif -%}
    {%- if target_exists -%}
        {%- do t.position.update({"tombstones": true}) -%}
    {%- endif -%}
    {%- if not target_exists -%}
        {%- do cdc._write_stamp(target, t.position) -%}
    {%- endif -%}
    {#- dbt hands the strategy to the staging step only; the merge finds it here. -#}
    {%- do model.update({"cdc_history": t}) -%}
    {{ return(t) }}
{%- endmacro %}


{#-
    From where to where a run reads, and its stamp, which keeps what the node saw of its events before they are looked at. What an
    `arrival_overlap` covers is read again where a row has come into it since. Refuses bad events, and batches out of order, where
    that is declared.
-#}
{% macro _find_position(t, events_sql, stamp, node) -%}
    {%- set position = {"sight": cdc._sight_of_events(node), "made": cdc._made_of(node)} -%}
    {%- set d = none if t.follows else t.declaration -%}
    {%- set overlap = d.arrival_overlap if d else 0 -%}
    {%- set last = stamp.get("read_to") if d is none or d.arrival else none -%}
    {%- set read_from = last - overlap if last is not none else none -%}
    {%- do t.update({"read_from": read_from, "read_to": none}) -%}
    {%- do t.update({"few": read_from is not none}) -%}
    {%- do cdc._plan_rows(t) -%}
    {%- do cdc._look(t, events_sql, last) -%}
    {%- set read_to = t.read_to -%}
    {%- do t.update({
        "version": stamp.get("at"),
        "nothing_new": last is not none and read_to is not none and read_to <= last
            and (overlap == 0 or t.raw_rows == stamp.get("overlapping")),
        "few": t.raw_rows is defined and t.raw_rows <= cdc._few_rows(),
    }) -%}
    {%- do cdc._plan_rows(t) -%}
    {%- if t.declaration and t.declaration.on_bad_event == "fail" and not t.nothing_new -%}
        {%- do cdc._refuse_bad_events(t) -%}
    {%- endif -%}
    {%- if read_to is not none -%}{%- do position.update({"read_to": read_to}) -%}{%- endif -%}
    {%- if overlap and read_to is not none and not t.nothing_new -%}
        {#- How many rows the next run sees again: where it sees more, some came late. -#}
        {%- set seen = {"declaration": d, "read_from": read_to - overlap, "read_to": read_to} -%}
        {%- do position.update({"overlapping": run_query("select count(*) " ~ cdc._from_new_rows(seen)).rows[0][0]}) -%}
    {%- endif -%}
    {%- if t.declaration and t.declaration.batch_order -%}
        {%- do position.update({"batch": stamp.get("batch") if t.nothing_new else cdc._refuse_batches(t, stamp)}) -%}
    {%- endif -%}
    {%- do t.update({"position": position}) -%}
{%- endmacro %}


{#- Columns, types and declaration of a history: what _versions needs. -#}
{% macro _history_traits(node, events_sql) -%}
    {%- set types = cdc._column_types(events_sql) -%}
    {%- set keys = cdc._as_list(node.config.unique_key) -%}
    {%- set labels = ["_entity_id", "_ended_entity_id", "_former_entity_ids", "_segment_id", "_left_segment_id",
        "_ended_segment_id", "_resolved"] -%}
    {%- set canonical = ["_op", "_seq", "_ts", "_event_id", "_unset", "_arrived"] + labels -%}
    {%- for key in keys -%}
        {%- do canonical.append("_old_" ~ key) -%}
    {%- endfor -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- set renames = declaration.renames if declaration else {} -%}
    {%- set values = types.keys() | reject("in", keys + canonical + renames.values() | sum(start=[])) | list -%}
    {%- set tracked = declaration.track_history_columns if declaration else [] -%}

    {%- set problems = [] -%}
    {%- for name in ["_op", "_seq", "_event_id", "_unset"] if name not in types -%}
        {%- do problems.append(node.name ~ ": its relation has no column `" ~ name
            ~ "`. Snapshot a model whose body is `cdc.events(source(...))`.") -%}
    {%- endfor -%}
    {%- if not keys -%}
        {%- do problems.append(node.name ~ ": no unique_key. Name the columns of the key in the snapshot's config.") -%}
    {%- endif -%}
    {%- for key in keys if key not in types -%}
        {%- do problems.append(node.name ~ ": unique_key column `" ~ key ~ "` is not a column of its relation ("
            ~ (values | join(", ")) ~ "). Correct the snapshot's unique_key.") -%}
    {%- endfor -%}
    {%- if declaration and keys | sort != declaration.key_columns | sort -%}
        {%- do problems.append(node.name ~ ": unique_key " ~ (keys | join(", ")) ~ " is not the declared key of "
            ~ declaration.table ~ ", " ~ (declaration.key_columns | join(", ")) ~ ". Make both the same.") -%}
    {%- endif -%}
    {%- set follows = "_entity_id" in types -%}
    {%- if declaration and declaration.key_changes != follows -%}
        {%- do problems.append(node.name ~ ": " ~ declaration.table ~ " declares `key_changes: "
            ~ declaration.key_changes | string | lower ~ "`, and the relation has " ~ ("an" if follows else "no") ~ " `_entity_id`. Where keys change, snapshot a Python model"
            ~ " whose body is `resolve_keys(dbt, session, dbt.ref(...))`, else the staging model itself.") -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
    {%- endif -%}

    {#- A row that is followed through its keys is folded by its entity; the keys are values of it like others. -#}
    {{ return({
        "key_columns": ["_entity_id"] if follows else keys,
        "value_columns": keys + values if follows else values,
        "dropped": [],
        "renames": renames,
        "tracked": keys + (tracked or values) if follows else tracked or values,
        "types": types,
        "time": "_ts" if "_ts" in types else "_seq",
        "follows": keys if follows else [],
        "ended": {"_entity_id": "_ended_entity_id"} if follows else cdc._old_keys(keys, types),
        "arrival": "_resolved" if follows else "_arrived",
        "events_sql": events_sql,
        "declaration": declaration,
    }) }}
{%- endmacro %}


{#- For each key column, the one that holds the key which an event ended; none where no event ends another key's row. -#}
{% macro _old_keys(keys, types) -%}
    {%- set old = {} -%}
    {%- for key in keys if "_old_" ~ key in types -%}
        {%- do old.update({key: "_old_" ~ key}) -%}
    {%- endfor -%}
    {{ return(old) }}
{%- endmacro %}


{#-
    One look at what arrived since the last one: up to where it goes (`read_to`) and how many raw rows it is (`raw_rows`). It asks the
    raw table where that is declared: there it is a matter of a few files' columns, not of decoding. Without anything new the newest
    arrival is that of the last look.
-#}
{% macro _look(t, events_sql, last) -%}
    {%- set d = none if t.follows else t.declaration -%}
    {%- if d -%}
        {%- set found = run_query("select max(" ~ (d.arrival or "null") ~ "), count(*) " ~ cdc._from_new_rows(t)).rows[0] -%}
        {%- do t.update({"read_to": found[0], "raw_rows": found[1]}) -%}
    {%- elif t.follows or "_arrived" in t.types -%}
        {%- set new_rows = "(" ~ events_sql ~ ") as arrivals where " ~ cdc._is_new_row(t, t.arrival) -%}
        {%- do t.update({"read_to": run_query("select max(" ~ t.arrival ~ ") from " ~ new_rows).rows[0][0]}) -%}
    {%- endif -%}
    {%- if t.read_to is none -%}
        {%- do t.update({"read_to": last}) -%}
    {%- endif -%}
{%- endmacro %}


{% macro _refuse_bad_events(t) -%}
    {%- set d = t.declaration -%}
    {%- set asked -%}
with {{ cdc._decoded_events(d, d.relation) }}

select
    _reason,
    _origin
from identified_events
where
    _reason is not null
    {%- if t.read_from is not none and not t.follows %}
    and _arrived > {{ t.read_from }}
    {%- endif %}
limit 5
    {%- endset -%}
    {%- set bad = run_query(asked).rows -%}
    {%- if bad | length -%}
        {%- set lines = [] -%}
        {%- for row in bad -%}
            {%- do lines.append("  - " ~ row[0] ~ (" (" ~ row[1] ~ ")" if row[1] else "")) -%}
        {%- endfor -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ d.table ~ " has bad events and declares `on_bad_event: fail`. Nothing was written. Repair the events at"
            ~ " their origin, or declare `on_bad_event: quarantine` to go on without them. The first:\n" ~ (lines | join("\n"))
        ) -%}
    {%- endif -%}
{%- endmacro %}
