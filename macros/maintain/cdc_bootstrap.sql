{#-
    `dbt run-operation cdc_bootstrap --args '{source: shop, table: customers}'`: takes the snapshots that tables start from, as
    their declarations say under `bootstrap`. Each is copied once, with its position, into a table of its own; the next builds
    read it beside the stream. A copy counts from its last commit on, which holds the position: whatever dies before, the next
    call starts over. What has been taken already stays.
      source   a source; all sources where it is left out
      table    one of its tables; all that declare a bootstrap where it is left out
-#}
{% macro cdc_bootstrap(source=none, table=none) -%}
    {{ return(adapter.dispatch("cdc_bootstrap", "cdc")(source, table)) }}
{%- endmacro %}


{% macro default__cdc_bootstrap(source, table) -%}
    {%- set subjects = cdc._bootstrap_subjects(source, table) -%}
    {%- set problems, pending = [], [] -%}
    {%- for d in subjects -%}
        {%- set taken = cdc._taken_bootstrap(d) -%}
        {%- if taken is none -%}
            {%- set plan = cdc._bootstrap_plan(d, loop.index) -%}
            {%- do problems.extend(plan.problems) -%}
            {%- do pending.append(plan) -%}
        {%- elif taken.declared == cdc._bootstrap_mark(d) -%}
            {%- do log("cdc: " ~ d.table ~ ": the snapshot was taken before, " ~ taken.rows ~ " rows at " ~ taken.position
                ~ ". Nothing was written.", info=true) -%}
        {%- else -%}
            {%- do problems.append(d.table ~ " (" ~ d.file ~ "): its snapshot was taken before, at the position " ~ taken.position
                ~ " (declared as " ~ taken.declared ~ "), and the declaration now says " ~ cdc._bootstrap_mark(d)
                ~ ". Declare the former position; or, to start from another snapshot, drop " ~ cdc._bootstrap_relation(d)
                ~ " and the tables that were built from it.") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if problems -%}
        {%- do cdc._drop_bootstrap_sources(pending) -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ (problems | length)
            ~ " problem(s) of snapshots. Nothing was written.\n  - "
            ~ (problems | join("\n  - "))) -%}
    {%- endif -%}
    {%- for plan in pending -%}
        {%- do problems.extend(cdc._take_bootstrap(plan)) -%}
    {%- endfor -%}
    {%- do cdc._drop_bootstrap_sources(pending) -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ (problems | length)
            ~ " problem(s) of snapshots. Nothing was copied for these tables.\n  - "
            ~ (problems | join("\n  - "))) -%}
    {%- endif -%}
{%- endmacro %}


{#- The declarations that the arguments name. -#}
{% macro _bootstrap_subjects(source, table) -%}
    {%- set found, names, declared, problems = [], [], [], [] -%}
    {%- for node in graph.sources.values() if (node.config.get("meta") or node.meta or {}).get("cdc") is not none -%}
        {%- set d = cdc._read_declaration(node) -%}
        {%- if d.bootstrap is not none -%}
            {%- do names.append(d.table) -%}
            {%- do declared.append(d) -%}
            {%- if source in [none, node.source_name] and table in [none, node.name] -%}
                {%- do problems.extend(d.problems) -%}
                {%- do found.append(d) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if table is not none and source is none -%}
        {%- do problems.append("cdc_bootstrap: `table: " ~ table ~ "` without `source`. Name its source, too.") -%}
    {%- elif not found -%}
        {%- do problems.append("cdc_bootstrap: no declared table" ~ (" " ~ source if source is not none) ~ ("." ~ table
            if table is not none)
            ~ " has a `bootstrap`. " ~ ("These have one: " ~ (names | sort | join(", ")) ~ "." if names
            else "Declare it under `config.meta.cdc` of the source table.")) -%}
    {%- endif -%}
    {%- do problems.extend(cdc._bootstrap_name_problems(declared)) -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
    {%- endif -%}
    {{ return(found) }}
{%- endmacro %}


{#- What the row says that completes a copy; none where there is no complete copy. -#}
{% macro _taken_bootstrap(d) -%}
    {%- set copy = cdc._bootstrap_relation(d) -%}
    {%- if load_relation(copy) is none -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set found = run_query("select _cdc_declared, _cdc_row, cast(_cdc_position as string) from " ~ copy
        ~ " where _cdc_part = 'position'").rows -%}
    {%- if found | length != 1 -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({"declared": found[0][0], "rows": found[0][1], "position": found[0][2]}) }}
{%- endmacro %}


{#- Copies a snapshot, looks at the copy, and completes it. Returns what is wrong with it; nothing is left of it then. -#}
{% macro _take_bootstrap(plan) -%}
    {%- set d = plan.d -%}
    {%- set copy = cdc._bootstrap_relation(d) -%}
    {#- What a call that died has left. -#}
    {%- if load_relation(copy) is not none -%}
        {%- do adapter.drop_relation(copy) -%}
    {%- endif -%}
    {%- do adapter.create_schema(copy) -%}
    {%- do cdc._create_if_missing(copy, plan.query) -%}
    {%- do run_query("insert into " ~ copy ~ " " ~ plan.query) -%}
    {%- set found = cdc._copy_problems(plan, copy) -%}
    {%- if found.problems -%}
        {%- do adapter.drop_relation(copy) -%}
        {{ return(found.problems) }}
    {%- endif -%}
    {%- set nothing = [] -%}
    {%- for name, type in cdc._table_types(copy).items() -%}
        {%- set value = {"_cdc_position": found.position, "_cdc_row": "cast(" ~ found.rows ~ " as bigint)",
            "_cdc_part": "'position'",
            "_cdc_declared": cdc._literal(cdc._bootstrap_mark(d))}.get(name, "cast(null as " ~ type ~ ")") -%}
        {%- do nothing.append(value ~ " as " ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {%- do run_query("insert into " ~ copy ~ " select " ~ (nothing | join(", "))) -%}
    {%- do log("cdc: " ~ d.table ~ " starts from " ~ found.rows ~ " rows at " ~ found.shown
        ~ ("; the snapshot has none: check `from`" if not found.rows)
        ~ ". It is in " ~ copy ~ "; dbt build applies it", info=true) -%}
    {{ return([]) }}
{%- endmacro %}


{#-
    What a look at a copy tells: `rows`, `position` as SQL and `shown` as text, and `problems`. Of a stream nobody knows where it
    begins, unless it has an event that the snapshot covers: the ones between may be missing.
-#}
{% macro _copy_problems(plan, copy) -%}
    {%- set d = plan.d -%}
    {%- set at = d.table ~ " (" ~ d.file ~ "): `bootstrap`" -%}
    {%- set problems = [] -%}
    {%- set rows = " from " ~ copy ~ " where _cdc_part = 'row'" -%}
    {%- set time = "count(_cdc_time)" if cdc._has_event_time(d) else "count(*)" -%}
    {%- set facts = run_query("select count(*), count(_cdc_position), " ~ time ~ rows).rows[0] -%}
    {%- set is_without = facts[0] == 0 and not plan.is_value -%}
    {%- if is_without -%}
        {%- do problems.append(at
            ~ ": the snapshot has no rows, and so no position. Correct `from`; for a table that was empty, declare a value as"
            ~ " `position`.") -%}
    {%- endif -%}
    {%- for name, there in [("position", facts[1]), ("time", facts[2])] if there < facts[0] -%}
        {%- do problems.append(at ~ ": `" ~ name ~ "` is NULL in " ~ (facts[0] - there) ~ " of " ~ facts[0] ~ " rows."
            ~ " Write an expression that is never NULL, or leave these rows out of `from`.") -%}
    {%- endfor -%}
    {%- if not d.keyless and facts[0] -%}
        {%- set keys = [] -%}
        {%- for key in d.key_columns -%}
            {%- for name in cdc._names_of(d, key) if name | lower in plan.names | map("lower") | list -%}
                {%- if loop.first -%}{%- do keys.append(cdc._quoted(name)) -%}{%- endif -%}
            {%- endfor -%}
        {%- endfor -%}
        {%- set keys = keys | join(", ") -%}
        {%- set repeated = run_query("select count(*), any_value(example) from (select cast(struct(" ~ keys
            ~ ") as string) as example" ~ rows
            ~ " group by " ~ keys ~ ", _cdc_position having count(*) > 1) as repeated_keys").rows[0] -%}
        {%- if repeated[0] -%}
            {%- do problems.append(at ~ ": " ~ repeated[0] ~ " key(s) of the snapshot have several rows"
                ~ (", such as " ~ repeated[1] if not d.mask) ~ ". A snapshot has each row once: correct `from`, or `keys`.") -%}
        {%- endif -%}
    {%- endif -%}
    {%- set position = plan.position if plan.is_value else "(select min(_cdc_position)" ~ rows ~ ")" -%}
    {%- if problems -%}
        {{ return({"problems": problems}) }}
    {%- endif -%}
    {%- set stream_from = plan.stream_from or "null" -%}
    {%- set seen = run_query("select cast(" ~ position ~ " as string), cast(min(_seq) as string), count_if(_seq <= " ~ position
        ~ "), cast("
        ~ stream_from ~ " as string), (" ~ stream_from ~ ") <= " ~ position ~ " from (" ~ plan.stream ~ ") as stream").rows[0] -%}
    {%- if seen[0] is none -%}
        {%- do problems.append(at ~ ": `position` is NULL. Write a value, or name a column of the snapshot.") -%}
    {%- elif plan.stream_from and seen[3] is none -%}
        {%- do problems.append(at ~ ": `stream_from` is NULL. Write a value, or remove it.") -%}
    {%- elif plan.stream_from and not seen[4] -%}
        {%- do problems.append(at ~ ": the snapshot is at " ~ seen[0] ~ ", and the stream begins after it, at " ~ seen[3]
            ~ " (`stream_from`). Events between them are missing. Take a newer snapshot, or land the events from " ~ seen[0]
            ~ " on.") -%}
    {%- elif not plan.stream_from and not seen[2] -%}
        {%- do problems.append(at ~ ": the snapshot is at " ~ seen[0] ~ ", and the stream "
            ~ ("has no event yet" if seen[1] is none else "begins after it, with an event at " ~ seen[1])
            ~ ". Events between them may be missing. Take a newer snapshot, or land the events from " ~ seen[0]
            ~ " on. If the stream has every"
            ~ " event after the snapshot, declare from which position on it is complete: `stream_from`.") -%}
    {%- endif -%}
    {{ return({"problems": problems, "rows": facts[0], "position": position, "shown": seen[0]}) }}
{%- endmacro %}


{% macro _drop_bootstrap_sources(plans) -%}
    {%- for plan in plans if plan.view -%}
        {%- do run_query("drop view if exists " ~ plan.view) -%}
    {%- endfor -%}
{%- endmacro %}
