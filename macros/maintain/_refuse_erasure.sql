{#- Reports everything that is wrong with an erasure at once. Nothing is written before. -#}
{% macro _refuse_erasure(subject, where, keys, everything, unfinished, landed_files) -%}
    {%- set d = subject.declaration -%}
    {%- set problems = [] -%}
    {%- if where is not none and keys is not none -%}
        {%- do problems.append("`where` and `keys` cannot be combined. Remove one of them.") -%}
    {%- endif -%}
    {%- if d.key_changes and subject.resolver is none -%}
        {%- do problems.append("the resolver's table of " ~ d.table ~ ", which records the keys that a row had, has not"
            ~ " been built. Build it first: dbt build" ~ (" --select +" ~ subject.resolver_name if subject.resolver_name)) -%}
    {%- elif d.key_changes and subject.resolvers > 1 -%}
        {%- do problems.append(d.table ~ " has " ~ subject.resolvers ~ " tables of resolvers. Keep one of them: it records"
            ~ " the keys that a row had.") -%}
    {%- elif d.landed and cdc._landing_problem(d, landed_files) is not none -%}
        {%- do problems.append(cdc._landing_problem(d, landed_files)) -%}
    {%- elif not adapter.has_local_log(d.relation) -%}
        {%- do problems.append(d.relation
            ~ " is not a Delta table on a disk of this machine, so neither its rows nor its files can be"
            ~ " removed here. Erase the person there first, by the means of that table, and declare a raw table in Delta.") -%}
    {%- endif -%}
    {%- if d.bootstrap and d.keyless -%}
        {%- do problems.append(d.table
            ~ " starts from a snapshot and declares no keys, so the person's rows cannot be found in the snapshot. Delete the person's"
            ~ " rows from " ~ cdc._bootstrap_relation(d) ~ " and from the raw table, build everything again (dbt build --full-refresh),"
            ~ " and vacuum the tables.") -%}
    {%- endif -%}
    {%- if subject.named.relation is not none and load_relation(subject.named.relation) is none -%}
        {%- do problems.append(subject.named.name ~ " has not been built. Build it first: dbt build --select +"
            ~ subject.named.name) -%}
    {%- endif -%}
    {%- for table in subject.tables -%}
        {%- if cdc._is_iceberg(table.relation) -%}
            {%- do problems.extend(adapter.iceberg_erasure_problems(table.relation | string)) -%}
        {%- elif not adapter.has_local_log(table.relation | string) -%}
            {%- do problems.append(table.name ~ " is not a Delta or Iceberg table on a disk of this machine, so that its files can"
                ~ " be neither removed nor searched. Delete the person's rows from the table, purge it (REORG TABLE .. APPLY"
                ~ " (PURGE)) and vacuum it where its files are.") -%}
        {%- endif -%}
        {%- if table.role == "changelog" and table.node.config.materialized == "incremental" and not unfinished
            and cdc._is_behind(table) -%}
            {%- do problems.append(table.name
                ~ " has not read all changes of the table that it follows, and an erasure removes the files that"
                ~ " they are read from. Build it first: dbt build --select " ~ table.name) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if keys is not none and not problems -%}{%- do problems.extend(cdc._key_list_problems(d, keys)) -%}{%- endif -%}
    {%- if where is not none and not problems -%}{%- do problems.extend(cdc._condition_problems(subject, where,
        everything)) -%}{%- endif -%}
    {%- do cdc._refuse_operation("cdc_erase", subject.named.name, problems) -%}
{%- endmacro %}


{#- How many keys have an erasure that has not come to its end. -#}
{% macro _unfinished_erasures(d) -%}
    {%- set erasures = cdc._erasures_of(d) -%}
    {{ return(run_query("select count(*) from " ~ erasures ~ " where not is_done and " ~ cdc._is_listed_table(d)).rows[0][0]
        if erasures else 0) }}
{%- endmacro %}


{#- The list that has the keys of a table. -#}
{% macro _listed_in(d) -%}
    {{ return(cdc._erased_ranges_relation(d) if d.key_changes else cdc._erasures_relation()) }}
{%- endmacro %}


{#- A condition on the rows of that list. -#}
{% macro _is_listed_table(d) -%}
    {{ return("true" if d.key_changes else "table_name = " ~ cdc._literal(d.table)) }}
{%- endmacro %}


{#- Whether a changelog has changes to read. -#}
{% macro _is_behind(table) -%}
    {%- set source = cdc._relation_of(graph.nodes[table.above]) -%}
    {%- set version = cdc._read_checkpoint(table.relation).get("version") -%}
    {{ return(version is none or cdc._writes_since(source, version) | length > 0) }}
{%- endmacro %}


{#- What is wrong with a list of keys; it names them by their place, since messages end up in logs. -#}
{% macro _key_list_problems(d, keys) -%}
    {%- set problems = [] -%}
    {%- if d.keyless -%}
        {{ return([d.table ~ " declares no keys. Say by `where` which rows are meant."]) }}
    {%- elif keys is string or keys is mapping or keys is not iterable or not keys -%}
        {{ return(["`keys` is not a list of keys. Write `keys: [1, 2]`, or a mapping of all key columns for each key."]) }}
    {%- endif -%}
    {%- for key in keys -%}
        {%- set given = key.keys() | list if key is mapping else d.key_columns[:1] -%}
        {%- if given | sort != d.key_columns | sort -%}
            {%- do problems.append("key " ~ loop.index ~ " of `keys` names " ~ (given | join(", ")) ~ "; the key of " ~ d.table
                ~ " is " ~ (d.key_columns | join(", ")) ~ ". Name all of these, and no other.") -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not problems -%}
        {%- set checks = [] -%}
        {%- for key in keys -%}
            {%- for column in d.columns if column.name in d.key_columns -%}
                {%- do checks.append("try_cast(" ~ cdc._literal(key[column.name] if key is mapping else key) ~ " as " ~ column.type
                    ~ ") is not null") -%}
            {%- endfor -%}
        {%- endfor -%}
        {%- for fits in run_query("select " ~ (checks | join(", "))).rows[0] -%}
            {%- set column = (d.columns | selectattr("name", "in",
                d.key_columns) | list)[loop.index0 % (d.key_columns | length)] -%}
            {%- if not fits -%}
                {%- do problems.append("key " ~ (loop.index0 // (d.key_columns | length) + 1) ~ " of `keys` is not a " ~ column.type
                    ~ ", the type of the key column " ~ column.name ~ ". Correct its value.") -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(problems | unique | list) }}
{%- endmacro %}


{#- What is wrong with a condition: it does not parse, it names another column, it holds for all rows. -#}
{% macro _condition_problems(subject, where, everything) -%}
    {%- set rows = cdc._named_rows(subject) -%}
    {%- set problem = adapter.query_problem("select 1 from " ~ rows ~ cdc._meeting(where)) -%}
    {%- if problem is not none -%}
        {%- set names = cdc._column_types("select * from " ~ rows).keys() | reject("in", ["_events"]) | list -%}
        {{ return(["`where` is not a condition on " ~ subject.named.name ~ ", whose columns are " ~ (names | join(", "))
            ~ ". Correct it. Spark says: " ~ problem]) }}
    {%- endif -%}
    {%- set counts = run_query("select count(*), count_if(" ~ where ~ "\n) from " ~ rows).rows[0] -%}
    {%- if counts[0] and counts[0] == counts[1] and not everything -%}
        {{ return(["`where` holds for all " ~ counts[0] ~ " rows of " ~ subject.named.name
            ~ ". To erase all of them, add `everything: true`."]) }}
    {%- endif -%}
    {{ return([]) }}
{%- endmacro %}
