{#- Everything that is wrong with the arguments and can be found without reading rows. -#}
{% macro _amendment_problems(subject, where, delete, set, reason, everything, dry_run) -%}
    {%- set d = subject.declaration -%}
    {%- set problems = [] -%}
    {%- if d.keyless -%}
        {%- do problems.append(d.table ~ " declares no keys, so an event cannot name one of its rows. Correct the raw events,"
            ~ " and build everything again (dbt build --full-refresh).") -%}
    {%- elif d.key_changes -%}
        {%- do problems.append(d.table ~ " declares `key_changes`: only the resolver knows which row has a key, and it reads the"
            ~ " events of the source. Add events to the raw table instead.") -%}
    {%- endif -%}
    {%- if subject.shown_by -%}
        {%- set others = subject.tables | selectattr("role", "equalto", "final") | map(attribute="name") | sort -%}
        {%- do problems.append((subject.shown_by | sort | join(" and "))
            ~ (" is a view, and " if subject.shown_by | length == 1 else " are views, and ") ~ d.table
            ~ " is declared with `history: false`: no table holds the rows to amend. "
            ~ ("Name " ~ (others | join(" or ")) ~ ", which is a table of the same events." if others
            else "Make it a table (`materialized='incremental'`) and build it: dbt build --select +" ~ (subject.shown_by | first)
            ~ ". Or declare a history, and have the view read that.")) -%}
    {%- elif not subject.bases -%}
        {#- A source table is built by what reads it. -#}
        {%- do problems.append(subject.named.name ~ " has not been built. Build it first: dbt build --select "
            ~ ("+" ~ subject.named.name if subject.named.node else "source:" ~ subject.named.name ~ "+")) -%}
    {%- elif subject.bases | length > 1 -%}
        {%- do problems.append("several tables are built from " ~ d.table ~ ". Name the one whose rows to amend: "
            ~ (subject.bases | map(attribute="name") | sort | join(", ")) ~ ".") -%}
    {%- endif -%}
    {%- if where is none or where is not string or not where.strip() -%}
        {%- do problems.append("`where` " ~ ("is missing" if where is none else "is not text")
            ~ ": the condition on the rows. For all rows, write `where: \"true\"` and `everything: true`.") -%}
    {%- endif -%}
    {%- for name, value in {"delete": delete, "everything": everything, "dry_run": dry_run}.items()
        if value is not none and value is not boolean -%}
        {%- do problems.append("`" ~ name ~ "` is " ~ value ~ ". Write true or false.") -%}
    {%- endfor -%}
    {%- if reason is not none and reason is not string -%}
        {%- do problems.append("`reason` is not text. Write a string.") -%}
    {%- endif -%}
    {%- if delete is sameas true and set is not none -%}
        {%- do problems.append("`delete` and `set` cannot be combined. Remove one of them.") -%}
    {%- elif set is none and delete is not sameas true -%}
        {%- do problems.append("neither `delete` nor `set`. Add `delete: true`, or `set` with columns and expressions.") -%}
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
            {%- do problems.append(at ~ "is not a column that " ~ d.table ~ " declares. These are: "
                ~ (d.columns | map(attribute="name") | reject("in", d.key_columns) | join(", ")) ~ ".") -%}
        {%- elif column.name in d.key_columns -%}
            {%- do problems.append(at ~ "is a key column, which an amendment cannot change. Change the key in the source.") -%}
        {%- elif column.mask -%}
            {%- do problems.append(at ~ "is masked: the tables hold hashes of its values. Change it in the source.") -%}
        {%- elif modules.re.search("struct<|map<|variant", column.type | lower) -%}
            {%- do problems.append(at ~ "is a " ~ column.type
                ~ ". Only columns without fields can be set: change it in the source.") -%}
        {%- endif -%}
        {%- if column and column.name in seen -%}
            {%- do problems.append(at ~ "is listed twice (names are not case-sensitive). Keep one.") -%}
        {%- endif -%}
        {%- do seen.append(column.name if column else name) -%}
        {%- if expression is none or expression is mapping or (expression is string and not expression.strip()) -%}
            {%- do problems.append(at
                ~ "has no expression. Write an SQL expression: \"'closed'\" for a text, \"null\" for NULL.") -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(problems) }}
{%- endmacro %}


{#- What Spark finds wrong with the condition and the expressions, and whether the condition holds for all rows. -#}
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
        {%- do problems.append("`where` is not a condition on " ~ subject.named.name ~ columns ~ ". Correct it. Spark says: "
            ~ wrong) -%}
    {%- endif -%}
    {%- for given in amended.set if given.name | lower in there -%}
        {%- set at = "`set`: `" ~ given.name ~ "` (" ~ given.expression ~ ") " -%}
        {%- set value = "struct((" ~ given.expression ~ "\n) as value).value" -%}
        {%- set wrong = cdc._query_problem("select __cdc_last, " ~ value ~ rows) -%}
        {%- set type = none if wrong else cdc._column_types("select " ~ value ~ " as value" ~ rows).value -%}
        {%- do given.update({"given_type": type}) -%}
        {%- if wrong -%}
            {%- do problems.append(at ~ "is not an expression on a row of " ~ subject.named.name ~ columns
                ~ ". Correct it. Spark says: " ~ wrong) -%}
        {%- elif type != "void" -%}
            {%- set fitted = "try_cast(" ~ value ~ " as " ~ given.type ~ ")" -%}
            {%- set wrong = cdc._query_problem("select " ~ fitted ~ ", try_cast(" ~ fitted ~ " as " ~ type ~ ")" ~ rows) -%}
            {%- if wrong -%}
                {%- do problems.append(at ~ "is a " ~ type ~ ", and the column is a " ~ given.type
                    ~ ". Write an expression of that type. Spark says: " ~ wrong) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not problems and not everything -%}
        {%- set counts = run_query("select (select count(*)" ~ rows ~ "), (select count(*)" ~ rows
            ~ cdc._meeting(where) ~ ")").rows[0] -%}
        {%- if counts[0] and counts[0] == counts[1] -%}
            {%- do problems.append("`where` holds for all " ~ counts[0] ~ " rows of " ~ subject.named.name
                ~ ". To amend all of them, add `everything: true`.") -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}


{#- The columns that got a value that does not fit. -#}
{% macro _misfits(amended, step) -%}
    {%- set problems = [] -%}
    {%- if amended.set -%}
        {%- for row in run_query("select misfit, count(*) from (select explode(__cdc_misfits) as misfit from " ~ step.relation
            ~ ") as misfits group by misfit order by misfit").rows -%}
            {%- set given = amended.set | selectattr("name", "equalto", row[0]) | first -%}
            {%- do problems.append("`set`: `" ~ row[0] ~ "` (" ~ given.expression ~ ") gives a " ~ given.given_type
                ~ " that does not fit " ~ given.type ~ " in " ~ row[1] ~ (" row" if row[1] == 1 else " rows")
                ~ ". Nothing is rounded or truncated: write an expression whose value fits, such as `cast(.. as " ~ given.type ~ ")`.") -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}
