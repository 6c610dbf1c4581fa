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
    {%- set stream = "with " ~ cdc._decoded_events(dict(d, bootstrap=none, amended=false), d.relation) ~ " select _seq"
        ~ (", _ts" if cdc._has_event_time(d)) ~ " from identified_events" -%}
    {%- set stream_problem = cdc._query_problem(stream) -%}
    {%- if problem -%}
        {%- do plan.problems.append(at
            ~ ": `from` cannot be read. Name a table or files that this user may read. Spark says: " ~ problem) -%}
    {%- endif -%}
    {%- if stream_problem -%}
        {%- do plan.problems.append(d.table ~ " (" ~ d.file
            ~ "): its events cannot be read, and a snapshot is placed among them. Create "
            ~ d.relation ~ " first; a landing model does so even if nothing has arrived. Spark says: " ~ stream_problem) -%}
    {%- endif -%}
    {%- if plan.problems -%}
        {{ return(plan) }}
    {%- endif -%}

    {%- set types = cdc._column_types("select * from " ~ snapshot) -%}
    {%- set there = types.keys() | map("lower") | list -%}
    {%- set mapped = {} -%}
    {%- for name, expression in (b.get("columns") or {}).items() -%}
        {%- do mapped.update({name | lower: expression | string}) -%}
    {%- endfor -%}
    {%- set selected = [] -%}
    {%- for name, type in types.items() -%}
        {%- if name | lower in ["_cdc_position", "_cdc_time", "_cdc_row", "_cdc_part", "_cdc_declared"] -%}
            {%- do plan.problems.append(at ~ ": the snapshot has a column `" ~ name
                ~ "`, a name that its copy needs. Read a view that gives it another one.") -%}
        {%- elif name | lower not in mapped and not modules.re.search("^__cdc_|[ ,;{}()\n\t=]", name) -%}
            {#- Delta does not take other names, nor can they be declared. -#}
            {%- do selected.append((cdc._quoted(name) if type != "void" else "cast(null as string)") ~ " as "
                ~ cdc._quoted(name)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for column in d.columns + d.left_out + d.withheld -%}
        {%- set former = cdc._names_of(d, column.name) | map("lower") | select("in", there) | list -%}
        {%- if column.name | lower in mapped -%}
            {%- set expression = mapped[column.name | lower] -%}
            {%- set wrong = cdc._query_problem("select (" ~ expression ~ "\n) from " ~ snapshot) -%}
            {%- if wrong -%}
                {%- do plan.problems.append(at ~ ": `columns` of `" ~ column.name ~ "` (" ~ expression ~ ") cannot be"
                    ~ " computed from the snapshot's columns (" ~ (types.keys() | join(", ")) ~ "). Correct it. Spark says: "
                    ~ wrong) -%}
            {%- else -%}
                {%- set type = cdc._column_types("select (" ~ expression ~ "\n) as value from " ~ snapshot).value -%}
                {%- do selected.append(("(" ~ expression ~ "\n)" if type != "void" else "cast(null as string)") ~ " as "
                    ~ cdc._quoted(column.name)) -%}
            {%- endif -%}
        {%- elif not former and column in d.columns -%}
            {%- do plan.problems.append(at ~ ": the snapshot has no " ~ ("key " if column.name in d.key_columns) ~ "column `"
                ~ column.name
                ~ "`; it has " ~ (types.keys() | join(", ")) ~ ". Declare under `columns` how to compute it"
                ~ (", such as `" ~ column.name ~ ": cast(null as " ~ column.type ~ ")` where the snapshot lacks it."
                if column.name not in d.key_columns else ".")) -%}
        {%- endif -%}
    {%- endfor -%}

    {%- set stream_types = cdc._column_types(stream) -%}
    {%- set position = cdc._as_position("position", b.position, stream_types["_seq"], snapshot, at, plan.problems) -%}
    {%- set stream_from = none if b.get("stream_from") is none
        else cdc._as_position("stream_from", b.stream_from, stream_types["_seq"], none, at, plan.problems) -%}
    {%- if cdc._has_event_time(d) -%}
        {%- set time = cdc._as_position("time", b.time, stream_types["_ts"], snapshot, at, plan.problems) -%}
        {%- do selected.append(time ~ " as _cdc_time") -%}
    {%- endif -%}
    {{ return(dict(
        plan,
        stream=stream,
        position=position,
        stream_from=stream_from,
        is_value=not plan.problems and cdc._is_value(position),
        query="select " ~ (selected | join(", ")) ~ ", " ~ position
        ~ " as _cdc_position, monotonically_increasing_id() as _cdc_row,"
            ~ " 'row' as _cdc_part, cast(null as string) as _cdc_declared from " ~ snapshot,
        names=types.keys() | list + mapped.keys() | list
    )) }}
{%- endmacro %}


{#-
    A position or a time as SQL, in the type that the events have. Notes where it cannot be compared with theirs.
      given      an expression, or a list of them for the parts of a struct or an array
      snapshot   what its columns are those of; none where it has to be a value
-#}
{% macro _as_position(option, given, type, snapshot, at, problems) -%}
    {%- set fields = cdc._struct_fields(type) -%}
    {%- set item = cdc._item_type(type) -%}
    {%- set parts = cdc._parts(given) -%}
    {%- set is_list = given is sequence and given is not string -%}
    {%- set of = "`_ts`" if option == "time" else "`_seq`" -%}
    {%- if is_list and (fields is none and item is none and parts | length > 1 or fields is not none
        and fields | length != parts | length) -%}
        {%- do problems.append(at ~ ": `" ~ option ~ "` has " ~ (parts | length) ~ " part(s), and the " ~ of
            ~ " of the events is a " ~ type
            ~ ". Name as many parts, in this order.") -%}
        {{ return("cast(null as " ~ type ~ ")") }}
    {%- endif -%}
    {%- set wanted = fields.values() | list if is_list and fields is not none else [item if is_list and item is not none
        else type] * (parts | length) -%}
    {%- set values, missing, wrong = [], [], [] -%}
    {%- for part in parts -%}
        {%- set asked = "select (" ~ part ~ "\n) <= cast(null as " ~ wanted[loop.index0] ~ ")" ~ (" from " ~ snapshot
            if snapshot) -%}
        {%- set problem = cdc._query_problem(asked) -%}
        {%- if problem -%}
            {%- do wrong.append(part) -%}
            {%- do problems.append(at ~ ": `" ~ option ~ "` (" ~ part ~ ") cannot be compared with the " ~ of
                ~ " of the events, a " ~ type
                ~ ". " ~ ("Write a value, or name a column of the snapshot." if snapshot else "Write a value.") ~ " Spark says: "
                ~ problem) -%}
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


{#- A table's name as SQL, each part quoted. -#}
{% macro _quoted_path(name) -%}
    {%- set parts = [] -%}
    {%- for part in modules.re.findall("`(?:[^`]|``)+`|[^.`]+", name | string) -%}
        {%- do parts.append(part if part.startswith("`") else cdc._quoted(part)) -%}
    {%- endfor -%}
    {{ return(parts | join(".")) }}
{%- endmacro %}


{#-
    A temporary view of files, or of anything else that a reader of Spark reads. CSV is read as RFC 4180 has it, and strictly: a
    row with another number of fields stops the copy, since Spark would truncate or pad it. An empty field is NULL, and a quoted
    one is empty text: Spark takes both for NULL, unless its name for NULL is one that no field has.
-#}
{% macro _file_view(name, given) -%}
    {%- set options = {"header": "true", "escape": '"', "multiLine": "true", "mode": "FAILFAST", "enforceSchema": "false",
        "nullValue": "\u0001null\u0001"}
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
    {{ return("create or replace temporary view " ~ name ~ (" (" ~ given.schema ~ ")" if given.get("schema")) ~ " using "
    ~ given.format
        ~ (" options (" ~ (written | join(", ")) ~ ")" if written)) }}
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


{#- Runs a statement; returns why it failed, in one line, or none. Without the adapter for it the failure is the operation's
    own. -#}
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
