{#-
    `dbt run-operation cdc_amend --args '{table: customers, where: "country = ..", delete: true, dry_run: false}'`: deletes or updates the rows
    of a final table that meet a condition. The changes are recorded as events, see `_amendments_relation`, in one commit; the next build
    applies them, and so does every rebuild.
      table        a final table, its history, or a declared source table
      where        a condition on the current rows
      delete       true deletes these rows
      set          or columns, each with an SQL expression over the row
      reason       a text to keep with the events
      everything   confirms a condition that holds for all rows
    The same command again finds nothing to change: what it set is set, and what waits for a build is not recorded twice.
-#}
{% macro cdc_amend(table=none, where=none, delete=none, set=none, reason=none, everything=false, dry_run=true) -%}
    {{ return(adapter.dispatch("cdc_amend", "cdc")(table, where, delete, set, reason, everything, dry_run)) }}
{%- endmacro %}


{% macro default__cdc_amend(table, where, delete, set, reason, everything, dry_run) -%}
    {%- set subject = cdc._amended_subject(table) -%}
    {%- set d = subject.declaration -%}
    {%- set problems = cdc._amendment_problems(subject, where, delete, set, reason, everything, dry_run) -%}
    {%- set amended = none if problems else cdc._current_values(subject, where, set) -%}
    {%- if amended -%}
        {%- do problems.extend(cdc._amended_row_problems(subject, amended, where, everything)) -%}
    {%- endif -%}
    {%- set step = none -%}
    {%- if not problems -%}
        {%- set step = cdc._step({"relation": subject.base.relation, "is_large": true}, "amended_rows",
            cdc._amended_rows(subject, amended, where), scans_table=true) -%}
        {%- do problems.extend(cdc._misfits(subject, amended, step)) -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do cdc._drop_steps() -%}
        {%- do exceptions.raise_compiler_error("cdc: cdc_amend of " ~ subject.named.name ~ ": nothing was written.\n  - "
            ~ (problems | join("\n  - "))) -%}
    {%- endif -%}
    {%- set amendments = cdc._amendments_of(d) -%}
    {%- set unknown = " from " ~ step.relation ~ " as amended" ~ (" left anti join " ~ amendments ~ " as recorded on "
        ~ cdc._same(d.key_columns + ["_event_id"], "recorded", "amended") if amendments else "") -%}
    {%- set counts = run_query("select (select count(*) from " ~ step.relation ~ "), (select count(*)" ~ unknown ~ ")").rows[0] -%}
    {%- set rows = counts[1] ~ (" row" if counts[1] == 1 else " rows") -%}
    {%- set what = "deleted" if amended.deletes else "updated" -%}
    {%- if counts[1] and amendments and cdc._is_waiting(subject, amendments) -%}
        {%- do cdc._drop_steps() -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: cdc_amend of " ~ subject.named.name ~ ": nothing was written. " ~ subject.base.name
            ~ " has not applied the amendments in " ~ amendments ~ " yet, and its rows will be others then. Apply them first: dbt build --select +"
            ~ subject.base.name ~ "+"
        ) -%}
    {%- elif not counts[0] -%}
        {%- do log("cdc: " ~ subject.named.name ~ ": no row is to be " ~ what ~ ". Nothing was written", info=true) -%}
    {%- elif not counts[1] -%}
        {%- do log("cdc: " ~ subject.named.name ~ ": these " ~ counts[0] ~ " rows were recorded before, in " ~ amendments
            ~ ". Nothing was written; dbt build applies them", info=true) -%}
    {%- elif dry_run -%}
        {%- do log("cdc: " ~ subject.named.name ~ ": " ~ rows ~ " would be " ~ what ~ ". Nothing was written; run with dry_run: false",
            info=true) -%}
    {%- else -%}
        {%- do cdc._record_amendments(subject, amended, step, reason) -%}
        {%- do log("cdc: " ~ subject.named.name ~ ": " ~ rows ~ " will be " ~ what ~ ". This is recorded in "
            ~ cdc._amendments_relation(d) ~ "; dbt build applies it", info=true) -%}
    {%- endif -%}
    {%- do cdc._drop_steps() -%}
{%- endmacro %}


{#- What a name stands for, see `_erasure_subject`, and `bases`: the tables whose rows are amended, histories or final tables without one. -#}
{% macro _amended_subject(table) -%}
    {%- set subject = cdc._erasure_subject(table, "cdc_amend") -%}
    {%- set d = subject.declaration -%}
    {%- if d.problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(d.problems)) -%}
    {%- endif -%}
    {%- set node = subject.named.node -%}
    {%- set ids = [node.unique_id] + node.depends_on.nodes if node else none -%}
    {%- set bases = [] -%}
    {%- for part in subject.tables if part.role == ("history" if d.history else "final")
        and (ids is none or part.node.unique_id in ids) -%}
        {%- do bases.append(part) -%}
    {%- endfor -%}
    {{ return(dict(subject, bases=bases, base=bases | first | default(none))) }}
{%- endmacro %}


{#- Everything that is wrong with the arguments, as far as no row has to be read to tell. -#}
{% macro _amendment_problems(subject, where, delete, set, reason, everything, dry_run) -%}
    {%- set d = subject.declaration -%}
    {%- set problems = [] -%}
    {%- if d.keyless -%}
        {%- do problems.append(d.table ~ " declares no keys: nothing tells which row of it an event is about. Correct the raw events,"
            ~ " and build everything again (dbt build --full-refresh).") -%}
    {%- elif d.key_changes -%}
        {%- do problems.append(d.table ~ " declares `key_changes`: which row has a key, only the resolver tells, of the events of the"
            ~ " source. Add events to the raw table instead.") -%}
    {%- endif -%}
    {%- if not subject.bases -%}
        {%- do problems.append(subject.named.name ~ " has not been built. Build it first: dbt build --select +"
            ~ subject.named.name.split(".")[-1]) -%}
    {%- elif subject.bases | length > 1 -%}
        {%- do problems.append("several tables are made of " ~ d.table ~ ". Name the one whose rows are meant: "
            ~ (subject.bases | map(attribute="name") | sort | join(", ")) ~ ".") -%}
    {%- endif -%}
    {%- if where is none or where is not string or not where.strip() -%}
        {%- do problems.append("`where` " ~ ("is missing" if where is none else "is no text")
            ~ ": the condition on the rows. For all rows, write `where: \"true\"` and `everything: true`.") -%}
    {%- endif -%}
    {%- for name, value in {"delete": delete, "everything": everything, "dry_run": dry_run}.items()
        if value is not none and value is not boolean -%}
        {%- do problems.append("`" ~ name ~ "` is " ~ value ~ ". Write true or false.") -%}
    {%- endfor -%}
    {%- if reason is not none and reason is not string -%}
        {%- do problems.append("`reason` is no text.") -%}
    {%- endif -%}
    {%- if delete is sameas true and set is not none -%}
        {%- do problems.append("`delete` and `set` both say what becomes of the rows. Give one of them.") -%}
    {%- elif set is none and delete is not sameas true -%}
        {%- do problems.append("nothing says what becomes of the rows. Give `delete: true`, or `set` with columns and expressions.") -%}
    {%- elif set is not none and (set is not mapping or not set) -%}
        {%- do problems.append("`set` names no columns. Write `set: {<column>: \"<SQL expression>\"}`.") -%}
    {%- elif set is not none -%}
        {%- do problems.extend(cdc._set_problems(d, set)) -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}


{#- What is wrong with the columns of `set`. -#}
{% macro _set_problems(d, set) -%}
    {%- set problems, seen = [], [] -%}
    {%- set columns = {} -%}
    {%- for column in d.columns -%}{%- do columns.update({column.name | lower: column}) -%}{%- endfor -%}
    {%- for name, expression in set.items() -%}
        {%- set column = columns.get(name | string | lower) -%}
        {%- set at = "`set`: `" ~ name ~ "` " -%}
        {%- if not column -%}
            {%- do problems.append(at ~ "is no column that " ~ d.table ~ " declares. These are: "
                ~ (d.columns | map(attribute="name") | reject("in", d.key_columns) | join(", ")) ~ ".") -%}
        {%- elif column.name in d.key_columns -%}
            {%- do problems.append(at ~ "is a key column, and a row with another key is another row. Change the key in the source.") -%}
        {%- elif column.mask -%}
            {%- do problems.append(at ~ "is masked: the tables hold hashes of its values. Change it in the source.") -%}
        {%- elif modules.re.search("struct<|map<|variant", column.type | lower) -%}
            {%- do problems.append(at ~ "is a " ~ column.type ~ ". Only columns without fields can be set: change it in the source.") -%}
        {%- endif -%}
        {%- if column and column.name in seen -%}
            {%- do problems.append(at ~ "is there twice; names ignore case.") -%}
        {%- endif -%}
        {%- do seen.append(column.name if column else name) -%}
        {%- if expression is none or expression is mapping or (expression is string and not expression.strip()) -%}
            {%- do problems.append(at ~ "has no expression. Write an SQL expression: \"'closed'\" for a text, \"null\" for NULL.") -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#-
    The current rows of the table, with the columns of its final table and `__cdc_last`, the last event of each, and what is to be set:
      rows       their SELECT
      names      the columns that the condition and the expressions can name
      types      name to type, `_seq` and `_ts` among them
      set        name of the column, expression and type, for each that is set
      deletes    whether the rows are deleted
-#}
{% macro _current_values(subject, where, set) -%}
    {%- set d = subject.declaration -%}
    {%- set base = subject.base -%}
    {%- set types = cdc._column_types(base.relation) -%}
    {%- set hidden = cdc._history_columns({"key_columns": [], "value_columns": []}) if d.history
        else ["_events", "_event_id", "_cdc_deleted_at", "_cdc_created_at", "_cdc_updated_at", "_cdc_seq"] -%}
    {%- set updated_at = "dbt_updated_at" if d.history else "_cdc_updated_at" -%}
    {%- set began, time = ("_seq", "dbt_valid_from") if d.history else ("_cdc_seq", "_cdc_updated_at") -%}
    {%- set names, selected = [], [] -%}
    {%- for name in types if name not in hidden and name not in d.partition_by -%}
        {%- do names.append(name) -%}
        {%- do selected.append(cdc._quoted(name)) -%}
    {%- endfor -%}
    {%- for name, expression in dict({"_cdc_created_at": "_cdc_created_at", "_cdc_updated_at": updated_at, "_cdc_seq": "_cdc_seq"},
        **d.partition_by).items() -%}
        {%- do names.append(name) -%}
        {%- do selected.append(expression ~ " as " ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {%- set last = "element_at(_events, -1)." -%}
    {%- set parts = [
        "coalesce(" ~ last ~ "_seq, " ~ began ~ ") as _seq",
        "coalesce(array_max(filter(_events, event -> event._seq = " ~ last ~ "_seq and event._op in ('I', 'U'))._event_id), _event_id)"
            ~ " as _event_id",
    ] -%}
    {%- if cdc._has_event_time(d) -%}{%- do parts.append("coalesce(" ~ last ~ "_ts, " ~ time ~ ") as _ts") -%}{%- endif -%}
    {%- set given = [] -%}
    {%- set declared = {} -%}
    {%- for column in d.columns -%}{%- do declared.update({column.name | lower: column}) -%}{%- endfor -%}
    {%- for name, expression in (set or {}).items() -%}
        {%- set column = declared[name | lower] -%}
        {%- do given.append({"name": column.name, "type": cdc._table_type(column),
            "expression": expression | string | lower if expression is boolean else expression | string}) -%}
    {%- endfor -%}
    {{ return({
        "rows": "select " ~ (selected | join(", ")) ~ ", struct(" ~ (parts | join(", ")) ~ ") as __cdc_last from " ~ base.relation
            ~ " where " ~ ("_cdc_is_latest and _seq_end is null" if d.history else "_cdc_deleted_at is null"),
        "names": names,
        "types": dict(types, _seq=types[began], _ts=types[time]),
        "set": given,
        "deletes": not set,
    }) }}
{%- endmacro %}


{#- What is wrong with the condition and the expressions, as Spark tells, and whether the condition holds for all rows. -#}
{% macro _amended_row_problems(subject, amended, where, everything) -%}
    {%- set d = subject.declaration -%}
    {%- set problems = [] -%}
    {%- set rows = " from (" ~ amended.rows ~ ") as current_rows" -%}
    {%- set columns = ", whose columns are " ~ (amended.names | join(", ")) -%}
    {%- set there = amended.types | map("lower") | list -%}
    {%- for name in d.key_columns + (amended.set | map(attribute="name") | list) if name | lower not in there -%}
        {%- do problems.append(subject.base.name ~ " has no column `" ~ name ~ "` yet. Build it first: dbt build --select +"
            ~ subject.base.name ~ "+") -%}
    {%- endfor -%}
    {%- set wrong = cdc._query_problem("select 1" ~ rows ~ cdc._meeting(where)) -%}
    {%- if wrong -%}
        {%- do problems.append("`where` is no condition on " ~ subject.named.name ~ columns ~ ". Spark says: " ~ wrong) -%}
    {%- endif -%}
    {%- for given in amended.set if given.name | lower in there -%}
        {%- set at = "`set`: `" ~ given.name ~ "` (" ~ given.expression ~ ") " -%}
        {%- set value = "struct((" ~ given.expression ~ "\n) as value).value" -%}
        {%- set wrong = cdc._query_problem("select __cdc_last, " ~ value ~ rows) -%}
        {%- set type = none if wrong else cdc._column_types("select " ~ value ~ " as value" ~ rows).value -%}
        {%- do given.update({"given_type": type}) -%}
        {%- if wrong -%}
            {%- do problems.append(at ~ "is no expression on a row of " ~ subject.named.name ~ columns ~ ". Spark says: " ~ wrong) -%}
        {%- elif type != "void" -%}
            {%- set wrong = cdc._query_problem("select try_cast(" ~ value ~ " as " ~ given.type ~ "), try_cast(try_cast(" ~ value ~ " as "
                ~ given.type ~ ") as " ~ type ~ ")" ~ rows) -%}
            {%- if wrong -%}
                {%- do problems.append(at ~ "is a " ~ type ~ ", and the column is a " ~ given.type ~ ". Spark says: " ~ wrong) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not problems and not everything -%}
        {%- set counts = run_query("select (select count(*)" ~ rows ~ "), (select count(*)" ~ rows ~ cdc._meeting(where) ~ ")").rows[0] -%}
        {%- if counts[0] and counts[0] == counts[1] -%}
            {%- do problems.append("`where` holds for all " ~ counts[0] ~ " rows of " ~ subject.named.name
                ~ ". If that is meant, add `everything: true`.") -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}


{#-
    The events of the rows that meet the condition and change: the key, the new values, and `_misfits`, the columns whose value is not what
    the expression gives. A cast would round it, cut it, or make it NULL.
-#}
{% macro _amended_rows(subject, amended, where) -%}
    {%- set d = subject.declaration -%}
    {%- set keys = cdc._column_list(d.key_columns) -%}
    {%- set given, new, misfits, before, after, set_names = [], [], [], [], [], [] -%}
    {%- for column in amended.set -%}
        {%- set value = "__cdc_given_" ~ loop.index ~ ".value" -%}
        {%- set name = "__cdc_new_" ~ loop.index -%}
        {%- do given.append("struct((" ~ column.expression ~ "\n) as value) as __cdc_given_" ~ loop.index) -%}
        {%- do given.append(cdc._quoted(column.name) ~ " as __cdc_old_" ~ loop.index) -%}
        {%- do new.append("try_cast(" ~ value ~ " as " ~ column.type ~ ") as " ~ name) -%}
        {%- if column.given_type not in ["void", column.type] -%}
            {%- do misfits.append("case when " ~ value ~ " is not null and not (" ~ name ~ " is not null and try_cast(" ~ name ~ " as "
                ~ column.given_type ~ ") <=> " ~ value ~ ") then " ~ cdc._literal(column.name) ~ " end") -%}
        {%- endif -%}
        {%- do before.append("__cdc_old_" ~ loop.index ~ " as value_" ~ loop.index) -%}
        {%- do after.append(name ~ " as value_" ~ loop.index) -%}
        {%- do set_names.append(cdc._literal(column.name)) -%}
    {%- endfor -%}
    {%- set hashed = ["'D'" if amended.deletes else "'U'"] + set_names -%}
    {%- for column in amended.set -%}
        {#- Equal hashes of (NULL, 1) and (1, NULL) would be one event. -#}
        {%- do hashed.append("__cdc_new_" ~ loop.index ~ " is null") -%}
        {%- do hashed.append("__cdc_new_" ~ loop.index) -%}
    {%- endfor -%}
    {%- for key in d.key_columns -%}{%- do hashed.append(cdc._quoted(key)) -%}{%- endfor -%}
    {%- set highest = "9223372036854775807" -%}
with current_rows as (
    {{ amended.rows }}
),

matching_rows as (
    select
        {{ (cdc._quoted_all(d.key_columns) + ["__cdc_last"] + given) | join(",\n        ") }}
    from current_rows{{ cdc._meeting(where) }}
),

changed_rows as (
    select
        {{ (["*"] + new) | join(",\n        ") }}
    from matching_rows
),

judged_rows as (
    select
        *,
        {{ "array_compact(array(" ~ (misfits | join(", ")) ~ "))" if misfits else "cast(array() as array<string>)" }} as _misfits
    from changed_rows
)

select
    {{ keys }},
    {%- for column in amended.set %}
    __cdc_new_{{ loop.index }} as {{ cdc._quoted(column.name) }},
    {%- endfor %}
    {{ "'D'" if amended.deletes else "'U'" }} as _op,
    __cdc_last._seq as _seq,
    {%- if cdc._has_event_time(d) %}
    {{ "greatest(__cdc_last._ts, cast(current_timestamp() as " ~ amended.types["_ts"] ~ "))"
        if amended.types["_ts"] in ["timestamp", "timestamp_ntz", "date"] else "__cdc_last._ts" }} as _ts,
    {%- endif %}
    {#- Above the identity of the last event, by a small part of what is left: there is room for thousands after it. #}
    __cdc_last._event_id + 1 + pmod(
        xxhash64({{ hashed | join(", ") }}), greatest({{ highest }} div 256 - __cdc_last._event_id div 256, 1)
    ) as _event_id,
    _misfits
from judged_rows
{%- if amended.set %}
where size(_misfits) > 0 or not (struct({{ before | join(", ") }}) <=> struct({{ after | join(", ") }}))
{%- endif %}
{%- endmacro %}


{#- A WHERE clause of a condition that somebody wrote. Spark reads `from rows where (name)` as an alias with a column. -#}
{% macro _meeting(where) -%}
    {{ return(" where ((" ~ where ~ "\n))") }}
{%- endmacro %}


{% macro _quoted_all(names) -%}
    {%- set quoted = [] -%}
    {%- for name in names -%}{%- do quoted.append(cdc._quoted(name)) -%}{%- endfor -%}
    {{ return(quoted) }}
{%- endmacro %}


{#- The columns that got a value that does not fit. -#}
{% macro _misfits(subject, amended, step) -%}
    {%- set problems = [] -%}
    {%- if amended.set -%}
        {%- for row in run_query("select misfit, count(*) from (select explode(_misfits) as misfit from " ~ step.relation
            ~ ") as misfits group by misfit order by misfit").rows -%}
            {%- set given = amended.set | selectattr("name", "equalto", row[0]) | first -%}
            {%- do problems.append("`set`: `" ~ row[0] ~ "` (" ~ given.expression ~ ") gives a " ~ given.given_type ~ " that does not fit "
                ~ given.type ~ " in " ~ row[1] ~ (" row" if row[1] == 1 else " rows")
                ~ ". Nothing is rounded or cut: write an expression whose value fits, such as `cast(.. as " ~ given.type ~ ")`.") -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}


{#- Whether there are amendments that a table has not read. -#}
{% macro _is_waiting(subject, amendments) -%}
    {%- set read = cdc._read_checkpoint(subject.base.relation).get("amended") or 0 -%}
    {{ return(run_query("select count(*) from " ~ amendments ~ " where _cdc_number > " ~ cdc._number(read)).rows[0][0] > 0) }}
{%- endmacro %}


{#- Columns of the table of amendments as they are declared now. -#}
{% macro _evolve_amendments(d, amendments, set_names) -%}
    {%- set columns = {} -%}
    {%- for column in d.columns if column.name in d.key_columns or column.name in set_names -%}
        {%- do columns.update({column.name: cdc._table_type(column)}) -%}
    {%- endfor -%}
    {%- do cdc._evolve(amendments, columns, renames=d.renames) -%}
{%- endmacro %}


{#- The one commit that records the events; those that are there already stay as they are. -#}
{% macro _record_amendments(subject, amended, step, reason) -%}
    {%- set d = subject.declaration -%}
    {%- set amendments = cdc._amendments_relation(d) -%}
    {%- set set_names = amended.set | map(attribute="name") | list -%}
    {%- if cdc._amendments_of(d) is none -%}
        {%- set columns = [] -%}
        {%- for column in d.columns if column.name in d.key_columns or column.name in set_names -%}
            {%- do columns.append("cast(null as " ~ cdc._table_type(column) ~ ") as " ~ cdc._quoted(column.name)) -%}
        {%- endfor -%}
        {%- set own = {"_op": "string", "_seq": amended.types["_seq"], "_event_id": "bigint", "_cdc_set": "array<string>",
            "_cdc_number": "bigint", "_cdc_amendment": "string", "_cdc_amended_at": "timestamp", "_cdc_reason": "string"} -%}
        {%- if cdc._has_event_time(d) -%}{%- do own.update({"_ts": amended.types["_ts"]}) -%}{%- endif -%}
        {%- for name, type in own.items() -%}{%- do columns.append("cast(null as " ~ type ~ ") as " ~ name) -%}{%- endfor -%}
        {%- do adapter.create_schema(amendments) -%}
        {%- do cdc._create_if_missing(amendments, "select " ~ (columns | join(", "))) -%}
    {%- else -%}
        {%- do cdc._evolve_amendments(d, amendments, set_names) -%}
    {%- endif -%}
    {%- set literals = [] -%}
    {%- for name in set_names -%}{%- do literals.append(cdc._literal(name)) -%}{%- endfor -%}
    {%- set own = ["_op", "_seq"] + (["_ts"] if cdc._has_event_time(d) else []) + ["_event_id"] -%}
    {%- set columns = d.key_columns + set_names + own -%}
    {%- do run_query(
        "insert into " ~ amendments ~ " (" ~ cdc._column_list(columns)
        ~ ", _cdc_set, _cdc_number, _cdc_amendment, _cdc_amended_at, _cdc_reason) select " ~ cdc._column_list(columns, "amended")
        ~ ", cast(array(" ~ (literals | join(", ")) ~ ") as array<string>), (select greatest(coalesce(max(_cdc_number), 0) + 1,"
        ~ " unix_micros(current_timestamp())) from " ~ amendments ~ "), " ~ cdc._literal(invocation_id)
        ~ ", current_timestamp(), " ~ (cdc._literal(reason) if reason is not none else "cast(null as string)")
        ~ " from " ~ step.relation ~ " as amended left anti join " ~ amendments ~ " as recorded on "
        ~ cdc._same(d.key_columns + ["_event_id"], "recorded", "amended")
    ) -%}
{%- endmacro %}
