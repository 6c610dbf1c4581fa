{#-
    `dbt run-operation cdc_bootstrap --args '{source: shop, table: customers}'`: takes the snapshots that tables start from, as their
    declarations say under `bootstrap`. Each is copied once, with its position, into a table of its own; the next builds read it beside the
    stream. A copy counts from its last commit on, which holds the position: whatever dies before, the next call starts over. What has been
    taken already stays.
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
                ~ " (declared as " ~ taken.declared ~ "), and the declaration now says " ~ cdc._bootstrap_mark(d) ~ ". Declare the former"
                ~ " position; or, to start from another snapshot, drop " ~ cdc._bootstrap_relation(d) ~ " and what was built of it.") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if problems -%}
        {%- do cdc._drop_bootstrap_sources(pending) -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ (problems | length) ~ " problem(s) of snapshots. Nothing was written.\n  - "
            ~ (problems | join("\n  - "))) -%}
    {%- endif -%}
    {%- for plan in pending -%}
        {%- do problems.extend(cdc._take_bootstrap(plan)) -%}
    {%- endfor -%}
    {%- do cdc._drop_bootstrap_sources(pending) -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ (problems | length) ~ " problem(s) of snapshots. Of their tables nothing was kept.\n  - "
            ~ (problems | join("\n  - "))) -%}
    {%- endif -%}
{%- endmacro %}


{#- The declarations that the arguments name. -#}
{% macro _bootstrap_subjects(source, table) -%}
    {%- set found, names, problems = [], [], [] -%}
    {%- for node in graph.sources.values() if (node.config.get("meta") or node.meta or {}).get("cdc") is not none -%}
        {%- set d = cdc._read_declaration(node) -%}
        {%- if d.bootstrap is not none -%}
            {%- do names.append(d.table) -%}
            {%- if source in [none, node.source_name] and table in [none, node.name] -%}
                {%- do problems.extend(d.problems) -%}
                {%- do found.append(d) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if table is not none and source is none -%}
        {%- do problems.append("cdc_bootstrap: `table: " ~ table ~ "` without `source`. Name its source, too.") -%}
    {%- elif not found -%}
        {%- do problems.append("cdc_bootstrap: no declared table" ~ (" " ~ source if source is not none) ~ ("." ~ table if table is not none)
            ~ " has a `bootstrap`. " ~ ("These have one: " ~ (names | sort | join(", ")) ~ "." if names
            else "Declare it under `config.meta.cdc` of the source table.")) -%}
    {%- endif -%}
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


{#-
    What a copy takes, and what is wrong with it as far as Spark tells without reading a row.
      source     what a SELECT of the snapshot reads
      query      the SELECT of the copy
      position   its position as SQL; `is_value` where that reads no column
      from       where the stream is complete from, as SQL; none where it is not declared
-#}
{% macro _bootstrap_plan(d, number) -%}
    {%- set b = d.bootstrap -%}
    {%- set at = d.table ~ " (" ~ d.file ~ "): `bootstrap`" -%}
    {%- set view = "cdc_bootstrap_source_" ~ number if b.from is mapping else none -%}
    {%- set plan = {"d": d, "view": view, "problems": []} -%}
    {%- set problem = cdc._attempt(cdc._file_view(view, b.from)) if view else none -%}
    {%- set snapshot = view or cdc._quoted_path(b.from) -%}
    {%- set problem = problem or cdc._query_problem("select * from " ~ snapshot) -%}
    {%- set stream = "with " ~ cdc._decoded_events(dict(d, bootstrap=none), d.relation) ~ " select _seq"
        ~ (", _ts" if cdc._has_event_time(d)) ~ " from identified_events" -%}
    {%- set stream_problem = cdc._query_problem(stream) -%}
    {%- if problem -%}
        {%- do plan.problems.append(at ~ ": `from` cannot be read. Spark says: " ~ problem) -%}
    {%- endif -%}
    {%- if stream_problem -%}
        {%- do plan.problems.append(d.table ~ " (" ~ d.file ~ "): its events cannot be read, and a snapshot is placed among them. Create "
            ~ d.relation ~ " first; a landing model does so even if nothing has arrived. Spark says: " ~ stream_problem) -%}
    {%- endif -%}
    {%- if plan.problems -%}
        {{ return(plan) }}
    {%- endif -%}

    {%- set types = cdc._column_types("select * from " ~ snapshot) -%}
    {%- set there = types.keys() | map("lower") | list -%}
    {%- set mapped = {} -%}
    {%- for name, expression in (b.get("columns") or {}).items() -%}{%- do mapped.update({name | lower: expression | string}) -%}{%- endfor -%}
    {%- set selected = [] -%}
    {%- for name, type in types.items() -%}
        {%- if name | lower in ["_cdc_position", "_cdc_time", "_cdc_row", "_cdc_part", "_cdc_declared"] -%}
            {%- do plan.problems.append(at ~ ": the snapshot has a column `" ~ name ~ "`, a name that its copy needs. Read a view that gives it"
                ~ " another one.") -%}
        {%- elif name | lower not in mapped and not modules.re.search("^__cdc_|[ ,;{}()\n\t=]", name) -%}
            {#- Delta does not take other names, nor can they be declared. -#}
            {%- do selected.append((cdc._quoted(name) if type != "void" else "cast(null as string)") ~ " as " ~ cdc._quoted(name)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for column in d.columns + d.left_out + d.withheld -%}
        {%- set former = cdc._names_of(d, column.name) | map("lower") | select("in", there) | list -%}
        {%- if column.name | lower in mapped -%}
            {%- set expression = mapped[column.name | lower] -%}
            {%- set wrong = cdc._query_problem("select (" ~ expression ~ "\n) from " ~ snapshot) -%}
            {%- if wrong -%}
                {%- do plan.problems.append(at ~ ": `columns` of `" ~ column.name ~ "` (" ~ expression ~ ") cannot be computed from the snapshot's"
                    ~ " columns (" ~ (types.keys() | join(", ")) ~ "). Spark says: " ~ wrong) -%}
            {%- else -%}
                {%- set type = cdc._column_types("select (" ~ expression ~ "\n) as value from " ~ snapshot).value -%}
                {%- do selected.append(("(" ~ expression ~ "\n)" if type != "void" else "cast(null as string)") ~ " as " ~ cdc._quoted(column.name)) -%}
            {%- endif -%}
        {%- elif not former and column in d.columns -%}
            {%- do plan.problems.append(at ~ ": the snapshot has no " ~ ("key " if column.name in d.key_columns) ~ "column `" ~ column.name
                ~ "`; it has " ~ (types.keys() | join(", ")) ~ ". Say under `columns` what it is made of"
                ~ (", such as `" ~ column.name ~ ": cast(null as " ~ column.type ~ ")` where the snapshot lacks it." if column.name not in d.key_columns else ".")) -%}
        {%- endif -%}
    {%- endfor -%}

    {%- set stream_types = cdc._column_types(stream) -%}
    {%- set position = cdc._as_position(d, "position", b.position, stream_types["_seq"], snapshot, at, plan.problems) -%}
    {%- set stream_from = none if b.get("stream_from") is none
        else cdc._as_position(d, "stream_from", b.stream_from, stream_types["_seq"], none, at, plan.problems) -%}
    {%- if cdc._has_event_time(d) -%}
        {%- set time = cdc._as_position(d, "time", b.time, stream_types["_ts"], snapshot, at, plan.problems) -%}
        {%- do selected.append(time ~ " as _cdc_time") -%}
    {%- endif -%}
    {{ return(dict(
        plan,
        stream=stream,
        position=position,
        stream_from=stream_from,
        is_value=not plan.problems and cdc._is_value(position),
        query="select " ~ (selected | join(", ")) ~ ", " ~ position ~ " as _cdc_position, monotonically_increasing_id() as _cdc_row,"
            ~ " 'row' as _cdc_part, cast(null as string) as _cdc_declared from " ~ snapshot,
        names=types.keys() | list + mapped.keys() | list
    )) }}
{%- endmacro %}


{#-
    A position or a time as SQL, in the type that the events have. Notes where it cannot be compared with theirs.
      given      an expression, or a list of them for the parts of a struct or an array
      snapshot   what its columns are those of; none where it has to be a value
-#}
{% macro _as_position(d, option, given, type, snapshot, at, problems) -%}
    {%- set fields = cdc._struct_fields(type) -%}
    {%- set item = cdc._item_type(type) -%}
    {%- set parts = cdc._parts(given) -%}
    {%- set is_list = given is sequence and given is not string -%}
    {%- set of = "`_ts`" if option == "time" else "`_seq`" -%}
    {%- if is_list and (fields is none and item is none and parts | length > 1 or fields is not none and fields | length != parts | length) -%}
        {%- do problems.append(at ~ ": `" ~ option ~ "` has " ~ (parts | length) ~ " part(s), and the " ~ of ~ " of the events is a " ~ type
            ~ ". Name as many parts, in this order.") -%}
        {{ return("cast(null as " ~ type ~ ")") }}
    {%- endif -%}
    {%- set wanted = fields.values() | list if is_list and fields is not none else [item if is_list and item is not none else type] * (parts | length) -%}
    {%- set values, missing, wrong = [], [], [] -%}
    {%- for part in parts -%}
        {%- set asked = "select (" ~ part ~ "\n) <= cast(null as " ~ wanted[loop.index0] ~ ")" ~ (" from " ~ snapshot if snapshot) -%}
        {%- set problem = cdc._query_problem(asked) -%}
        {%- if problem -%}
            {%- do wrong.append(part) -%}
            {%- do problems.append(at ~ ": `" ~ option ~ "` (" ~ part ~ ") cannot be compared with the " ~ of ~ " of the events, a " ~ type
                ~ ". " ~ ("Write a value, or name a column of the snapshot." if snapshot else "Write a value.") ~ " Spark says: " ~ problem) -%}
        {%- endif -%}
        {%- do missing.append("(" ~ part ~ "\n) is null") -%}
        {%- do values.append("cast((" ~ part ~ "\n) as " ~ wanted[loop.index0] ~ ")") -%}
    {%- endfor -%}
    {%- if wrong -%}
        {{ return("cast(null as " ~ type ~ ")") }}
    {%- elif not is_list or (fields is none and item is none) -%}
        {{ return(values[0]) }}
    {%- elif item is not none -%}
        {{ return("case when " ~ (missing | join(" or ")) ~ " then null else array(" ~ (values | join(", ")) ~ ") end") }}
    {%- endif -%}
    {%- set named = [] -%}
    {%- for name in fields -%}{%- do named.append(values[loop.index0] ~ " as " ~ cdc._quoted(name)) -%}{%- endfor -%}
    {{ return("case when " ~ (missing | join(" or ")) ~ " then null else struct(" ~ (named | join(", ")) ~ ") end") }}
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
    {%- for name, type in cdc._column_types("select * from " ~ copy).items() -%}
        {%- set value = {"_cdc_position": found.position, "_cdc_row": "cast(" ~ found.rows ~ " as bigint)", "_cdc_part": "'position'",
            "_cdc_declared": cdc._literal(cdc._bootstrap_mark(d))}.get(name, "cast(null as " ~ type ~ ")") -%}
        {%- do nothing.append(value ~ " as " ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {%- do run_query("insert into " ~ copy ~ " select " ~ (nothing | join(", "))) -%}
    {%- do log("cdc: " ~ d.table ~ " starts from " ~ found.rows ~ " rows at " ~ found.shown ~ ("; the snapshot has none: check `from`" if not found.rows)
        ~ ". It is in " ~ copy ~ "; dbt build applies it", info=true) -%}
    {{ return([]) }}
{%- endmacro %}


{#-
    What a look at a copy tells: `rows`, `position` as SQL and `shown` as text, and `problems`. Of a stream nobody knows where it begins, unless
    it has an event that the snapshot covers: the ones between may be missing.
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
        {%- do problems.append(at ~ ": the snapshot has no rows, and so no position. Correct `from`; for a table that was empty, declare a value as"
            ~ " `position`.") -%}
    {%- endif -%}
    {%- for name, there in [("position", facts[1]), ("time", facts[2])] if there < facts[0] -%}
        {%- do problems.append(at ~ ": `" ~ name ~ "` is NULL in " ~ (facts[0] - there) ~ " of " ~ facts[0] ~ " rows.") -%}
    {%- endfor -%}
    {%- if not d.keyless and facts[0] -%}
        {%- set keys = [] -%}
        {%- for key in d.key_columns -%}
            {%- for name in cdc._names_of(d, key) if name | lower in plan.names | map("lower") | list -%}
                {%- if loop.first -%}{%- do keys.append(cdc._quoted(name)) -%}{%- endif -%}
            {%- endfor -%}
        {%- endfor -%}
        {%- set keys = keys | join(", ") -%}
        {%- set repeated = run_query("select count(*), any_value(example) from (select cast(struct(" ~ keys ~ ") as string) as example" ~ rows
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
    {%- set seen = run_query("select cast(" ~ position ~ " as string), cast(min(_seq) as string), count_if(_seq <= " ~ position ~ "), cast("
        ~ stream_from ~ " as string), (" ~ stream_from ~ ") <= " ~ position ~ " from (" ~ plan.stream ~ ") as stream").rows[0] -%}
    {%- if seen[0] is none -%}
        {%- do problems.append(at ~ ": `position` is NULL.") -%}
    {%- elif plan.stream_from and seen[3] is none -%}
        {%- do problems.append(at ~ ": `stream_from` is NULL.") -%}
    {%- elif plan.stream_from and not seen[4] -%}
        {%- do problems.append(at ~ ": the snapshot is at " ~ seen[0] ~ ", and the stream begins after it, at " ~ seen[3]
            ~ " (`stream_from`). Events between them are missing. Take a newer snapshot, or land the events from " ~ seen[0] ~ " on.") -%}
    {%- elif not plan.stream_from and not seen[2] -%}
        {%- do problems.append(at ~ ": the snapshot is at " ~ seen[0] ~ ", and the stream "
            ~ ("has no event yet" if seen[1] is none else "begins after it, with an event at " ~ seen[1])
            ~ ". Events between them may be missing. Take a newer snapshot, or land the events from " ~ seen[0] ~ " on. If the stream has every"
            ~ " event after the snapshot, declare from which position on it is complete: `stream_from`.") -%}
    {%- endif -%}
    {{ return({"problems": problems, "rows": facts[0], "position": position, "shown": seen[0]}) }}
{%- endmacro %}


{#- A table's name as SQL, each part quoted. -#}
{% macro _quoted_path(name) -%}
    {%- set parts = [] -%}
    {%- for part in modules.re.findall("`(?:[^`]|``)+`|[^.`]+", name | string) -%}
        {%- do parts.append(part if part.startswith("`") else cdc._quoted(part)) -%}
    {%- endfor -%}
    {{ return(parts | join(".")) }}
{%- endmacro %}


{#-
    A temporary view of files, or of anything else that a reader of Spark reads. CSV is read as RFC 4180 has it, and strictly: a row with
    another number of fields stops the copy, for Spark would cut it or fill it up.
-#}
{% macro _file_view(name, given) -%}
    {%- set options = {"header": "true", "escape": '"', "multiLine": "true", "mode": "FAILFAST", "enforceSchema": "false"}
        if given.format | lower == "csv" else {"mode": "FAILFAST"} if given.format | lower == "json" else {} -%}
    {%- set by_lower_name = {} -%}
    {%- for option in options -%}{%- do by_lower_name.update({option | lower: option}) -%}{%- endfor -%}
    {%- for option, value in (given.get("options") or {}).items() -%}
        {%- do options.pop(by_lower_name.get(option | lower), none) -%}
        {%- do options.update({option: value | lower if value is boolean else value}) -%}
    {%- endfor -%}
    {%- if given.get("path") -%}{%- do options.update({"path": given.path}) -%}{%- endif -%}
    {%- set written = [] -%}
    {%- for option, value in options.items() -%}
        {%- do written.append(cdc._literal(option) ~ " " ~ cdc._literal(value)) -%}
    {%- endfor -%}
    {{ return("create or replace temporary view " ~ name ~ (" (" ~ given.schema ~ ")" if given.get("schema")) ~ " using " ~ given.format
        ~ (" options (" ~ (written | join(", ")) ~ ")" if written)) }}
{%- endmacro %}


{% macro _drop_bootstrap_sources(plans) -%}
    {%- for plan in plans if plan.view -%}
        {%- do run_query("drop view if exists " ~ plan.view) -%}
    {%- endfor -%}
{%- endmacro %}


{#- Why Spark does not accept a query, in one line; none where it does, and where only running it tells. -#}
{% macro _query_problem(query) -%}
    {{ return(adapter.dispatch("query_problem", "cdc")(query)) }}
{%- endmacro %}


{% macro default__query_problem(query) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__query_problem(query) -%}
    {{ return(adapter.query_problem(query)) }}
{%- endmacro %}


{#- Whether an expression reads no column. Where only running it tells, it may. -#}
{% macro _is_value(expression) -%}
    {{ return(adapter.dispatch("is_value", "cdc")(expression)) }}
{%- endmacro %}


{% macro default__is_value(expression) -%}
    {{ return(false) }}
{%- endmacro %}


{% macro sparkcdc__is_value(expression) -%}
    {{ return(adapter.query_problem("select " ~ expression) is none) }}
{%- endmacro %}


{#- Runs a statement; returns why it failed, in one line, or none. Without the adapter for it the failure is the operation's own. -#}
{% macro _attempt(statement) -%}
    {{ return(adapter.dispatch("attempt", "cdc")(statement)) }}
{%- endmacro %}


{% macro default__attempt(statement) -%}
    {%- do run_query(statement) -%}
    {{ return(none) }}
{%- endmacro %}


{% macro sparkcdc__attempt(statement) -%}
    {{ return(adapter.attempt(statement)) }}
{%- endmacro %}
