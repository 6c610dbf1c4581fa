{#-
    `dbt run-operation cdc_amend --args '{table: customers, where: "country = ..", delete: true, dry_run: false}'`: deletes or
    updates the rows of a final table that meet a condition. The changes are recorded as events, see `_amendments_relation`, in
    one commit; the next build applies them, and so does every rebuild.
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
        {%- do problems.extend(cdc._misfits(amended, step)) -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do cdc._drop_steps() -%}
        {%- do cdc._refuse_operation("cdc_amend", subject.named.name, problems) -%}
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
        {%- do log("cdc: " ~ subject.named.name ~ ": " ~ rows ~ " would be " ~ what ~ ". Nothing was written;"
            ~ " run with dry_run: false",
            info=true) -%}
    {%- else -%}
        {%- do cdc._record_amendments(subject, amended, step, reason) -%}
        {%- do log("cdc: " ~ subject.named.name ~ ": " ~ rows ~ " will be " ~ what ~ ". This is recorded in "
            ~ cdc._amendments_relation(d) ~ "; dbt build applies it", info=true) -%}
    {%- endif -%}
    {%- do cdc._drop_steps() -%}
{%- endmacro %}


{#-
    What a name stands for, see `_erasure_subject`, and `bases`: the tables whose rows are amended, histories or final tables
    without one. `shown_by` has the names of views that stand where such a final table could be.
-#}
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
    {#- Views of the events hold no rows: of these alone no amendment can be made. -#}
    {%- set views = [] -%}
    {%- for other in (cdc._managed_nodes() if not d.history and not bases else [])
        if other.config.materialized in ["view", "ephemeral"] and cdc._declared_names(other) == [d.table]
        and (ids is none or other.unique_id in ids) -%}
        {%- do views.append(other.name) -%}
    {%- endfor -%}
    {{ return(dict(subject, bases=bases, base=bases | first | default(none), shown_by=views)) }}
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
