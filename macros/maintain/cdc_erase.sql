{#-
    `dbt run-operation cdc_erase --args '{table: customers_history, where: "email = ..", dry_run: false}'`: removes the rows of some keys from
    everything that is made of one declared source table, its raw events included, then the files that held them. docs/erasure.md has
    what is removed in which order.
      table        a history, a final table or a declared source table
      where        a condition on its rows; every key that has such a row is erased
      keys         or the keys themselves: values, or a mapping of all key columns each
      everything   confirms a condition that holds for all rows
    Without `where` and `keys`, what has arrived since of keys that are on the erasure list. So is an erasure that was interrupted
    finished, whatever it is called with.
-#}
{% macro cdc_erase(table=none, where=none, keys=none, everything=false, dry_run=true) -%}
    {{ return(adapter.dispatch("cdc_erase", "cdc")(table, where, keys, everything, dry_run)) }}
{%- endmacro %}


{% macro default__cdc_erase(table, where, keys, everything, dry_run) -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: cdc_erase reads and removes files of the tables and of their logs, which only the embedded Spark of `type: sparkcdc` lets"
        ~ " it do. Nothing was written. Here, delete the rows in each table by hand, purge"
        ~ " them (REORG TABLE .. APPLY (PURGE)), vacuum the tables, and keep the person's events out of the raw table."
    ) -%}
{%- endmacro %}


{% macro sparkcdc__cdc_erase(table, where, keys, everything, dry_run) -%}
    {%- set subject = cdc._erasure_subject(table) -%}
    {%- set unfinished = cdc._unfinished_erasures(subject.declaration) -%}
    {%- do cdc._refuse_erasure(subject, where, keys, everything, unfinished) -%}
    {%- set by_list = where is none and keys is none -%}
    {%- set erased = cdc._step(
        {"relation": subject.named.relation, "is_large": true}, "erased_keys",
        cdc._erased_keys(subject, where, keys, unfinished, by_list), true, scans_table=true
    ) -%}
    {%- if erased.rows | length == 0 and not unfinished -%}
        {%- if by_list -%}
            {%- do log("cdc: nothing has arrived of a key of " ~ subject.declaration.table ~ " that is on the erasure list", info=true) -%}
            {{ return("") }}
        {%- endif -%}
        {%- do exceptions.raise_compiler_error("cdc: no row of " ~ subject.named.name ~ " meets the condition. Nothing was written."
            ~ " A key that was erased before stays erased, and has no rows. Name it by `keys` to list one that has none.") -%}
    {%- endif -%}
    {%- set raw_rows = cdc._step(
        {"relation": subject.declaration.relation, "is_large": true}, "erased_raw_rows", cdc._erased_raw_rows(subject.declaration, erased),
        true, scans_table=true
    ) -%}
    {%- do cdc._report_erasure(subject, erased, raw_rows, dry_run) -%}
    {%- if not dry_run -%}
        {%- do cdc._erase(subject, erased, raw_rows, unfinished) -%}
    {%- endif -%}
    {%- do cdc._drop_steps() -%}
{%- endmacro %}


{#-
    What a name stands for, and what is made of the same source table:
      declaration   of the source table
      named         the table that the condition is asked of: `name`, and `relation`, none for the source table
      tables        what holds its rows: `role`, `name`, `relation`, `node` and, of a final table or changelog, `above`
      views         the staging views
      others        models that read these tables and are not the package's to change
-#}
{% macro _erasure_subject(table) -%}
    {%- if table is none -%}
        {%- do exceptions.raise_compiler_error("cdc: cdc_erase needs a `table`: a history, a final table or a declared source table.") -%}
    {%- endif -%}
    {%- set found = [] -%}
    {%- set names = [] -%}
    {%- for source in graph.sources.values() if (source.config.get("meta") or source.meta or {}).get("cdc") is not none -%}
        {%- set full_name = source.source_name ~ "." ~ source.name -%}
        {%- do names.append(full_name) -%}
        {%- if table == full_name -%}
            {%- do found.append({"name": full_name, "relation": none, "declaration": cdc._read_declaration(source)}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set managed = cdc._managed_nodes() -%}
    {%- for node in managed -%}
        {%- do names.append(node.name) -%}
        {%- if node.name == table -%}
            {%- do found.append({
                "name": node.name, "relation": cdc._relation_of(node), "declaration": cdc._upstream_declaration(node),
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not found or not found[0].declaration -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ table ~ " is no history, final table or declared source table of this project."
            ~ " These are: " ~ (names | sort | join(", ")) ~ ".") -%}
    {%- endif -%}
    {%- set named = found[0] -%}
    {%- set tables, views, ids = [], [], [] -%}
    {%- for node in graph.nodes.values() if "macro.cdc.events" in node.depends_on.macros
        and cdc._declared_names(node) == [named.declaration.table] -%}
        {%- do views.append(node) -%}
        {%- do ids.append(node.unique_id) -%}
    {%- endfor -%}
    {%- for node in managed if cdc._declared_names(node) == [named.declaration.table] -%}
        {%- set relation = cdc._relation_of(node) -%}
        {%- set is_history = node.resource_type == "snapshot" -%}
        {%- do ids.append(node.unique_id) -%}
        {%- for part in ([cdc._erased_table("tombstones", node.name ~ "_tombstones", cdc._tombstones_of(relation))] if is_history else [])
            + [cdc._erased_table("history" if is_history else "final", node.name, relation, node)] if part -%}
            {%- do tables.append(part) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for node in graph.nodes.values() if "macro.cdc.changelog" in node.depends_on.macros and node.depends_on.nodes | first in ids -%}
        {%- set part = cdc._erased_table("changelog", node.name, cdc._relation_of(node), node) -%}
        {%- if part -%}{%- do tables.append(part) -%}{%- endif -%}
        {%- do ids.append(node.unique_id) -%}
    {%- endfor -%}
    {%- set others = [] -%}
    {%- for node in graph.nodes.values() if node.resource_type in ["model", "snapshot"] and node.unique_id not in ids
        and node.config.materialized not in ["view", "ephemeral"] and node.depends_on.nodes | select("in", ids) | list -%}
        {%- do others.append(node.name) -%}
    {%- endfor -%}
    {{ return({"declaration": named.declaration, "named": named, "tables": tables, "views": views, "others": others}) }}
{%- endmacro %}


{#- The declared source tables that a node is made of, by name. -#}
{% macro _declared_names(node) -%}
    {%- set names = [] -%}
    {%- for source in cdc._declared_sources(node) -%}{%- do names.append(source.source_name ~ "." ~ source.name) -%}{%- endfor -%}
    {{ return(names) }}
{%- endmacro %}


{#- A table that rows are erased from; none where it is not there or is a view. -#}
{% macro _erased_table(role, name, relation, node=none) -%}
    {%- set there = load_relation(relation) -%}
    {%- if there is none or there.is_view -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({"role": role, "name": name, "relation": relation, "node": node,
        "above": node.depends_on.nodes | first if node else none}) }}
{%- endmacro %}


{#- How many keys have an erasure that has not come to its end. -#}
{% macro _unfinished_erasures(d) -%}
    {%- set erasures = cdc._erasure_list() -%}
    {{ return(run_query("select count(*) from " ~ erasures ~ " where not is_done and table_name = " ~ cdc._literal(d.table)).rows[0][0]
        if erasures else 0) }}
{%- endmacro %}


{#- Reports everything that is wrong with an erasure at once. Nothing is written before. -#}
{% macro _refuse_erasure(subject, where, keys, everything, unfinished) -%}
    {%- set d = subject.declaration -%}
    {%- set problems = [] -%}
    {%- if where is not none and keys is not none -%}
        {%- do problems.append("`where` and `keys` both say what is to be erased. Give one of them.") -%}
    {%- endif -%}
    {%- if d.key_changes -%}
        {%- do problems.append(d.table ~ " declares `key_changes`: its resolver's table holds the person's events under all keys that the row"
            ~ " had, and other rows may have had the same keys, so that no list of keys can keep them apart. Delete the person's events"
            ~ " from the raw table, resolve and build everything again (dbt build --full-refresh), and vacuum the tables.") -%}
    {%- elif d.landed -%}
        {%- do problems.append(d.table ~ " is landed from change files, which hold the person as well and which the landing model would read"
            ~ " again. Remove the person's lines from the files, drop the raw table and the log of the landing model, and run it:"
            ~ " it lands what is left. Then build everything again (dbt build --full-refresh) and vacuum the tables.") -%}
    {%- elif adapter.delta_detail(d.relation) is none -%}
        {%- do problems.append(d.relation ~ " is no Delta table on a disk of this machine, so that neither its rows nor its files can be"
            ~ " removed here. Erase the person there first, by the means of that table, and name a raw table in Delta.") -%}
    {%- endif -%}
    {%- if subject.named.relation is not none and load_relation(subject.named.relation) is none -%}
        {%- do problems.append(subject.named.name ~ " has not been built. Build it first: dbt build --select +" ~ subject.named.name) -%}
    {%- endif -%}
    {%- for table in subject.tables -%}
        {%- if adapter.delta_detail(table.relation | string) is none -%}
            {%- do problems.append(table.name ~ " is no Delta table on a disk of this machine.") -%}
        {%- elif table.role == "changelog" and table.node.config.materialized == "incremental" and not unfinished
            and cdc._is_behind(table) -%}
            {%- do problems.append(table.name ~ " has not read all changes of the table that it follows, and an erasure removes the files that"
                ~ " they are read from. Build it first: dbt build --select " ~ table.name) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if keys is not none and not problems -%}{%- do problems.extend(cdc._key_list_problems(d, keys)) -%}{%- endif -%}
    {%- if where is not none and not problems -%}{%- do problems.extend(cdc._condition_problems(subject, where, everything)) -%}{%- endif -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error("cdc: cdc_erase of " ~ subject.named.name ~ ": nothing was written.\n  - "
            ~ (problems | join("\n  - "))) -%}
    {%- endif -%}
{%- endmacro %}


{#- Whether a changelog has changes to read. -#}
{% macro _is_behind(table) -%}
    {%- set source = cdc._relation_of(graph.nodes[table.above]) -%}
    {%- set version = cdc._read_checkpoint(table.relation).get("version") -%}
    {{ return(version is none or cdc._writes_since(source, version) | length > 0) }}
{%- endmacro %}


{#- What is wrong with a list of keys; it names them by their place, for messages end up in logs. -#}
{% macro _key_list_problems(d, keys) -%}
    {%- set problems = [] -%}
    {%- if d.keyless -%}
        {{ return([d.table ~ " declares no keys. Say by `where` which rows are meant."]) }}
    {%- elif keys is string or keys is mapping or keys is not iterable or not keys -%}
        {{ return(["`keys` is no list of keys. Write `keys: [1, 2]`, or a mapping of all key columns for each key."]) }}
    {%- endif -%}
    {%- for key in keys -%}
        {%- set given = key.keys() | list if key is mapping else d.key_columns[:1] -%}
        {%- if given | sort != d.key_columns | sort -%}
            {%- do problems.append("key " ~ loop.index ~ " of `keys` names " ~ (given | join(", ")) ~ "; the key of " ~ d.table ~ " is "
                ~ (d.key_columns | join(", ")) ~ ".") -%}
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
            {%- set column = (d.columns | selectattr("name", "in", d.key_columns) | list)[loop.index0 % (d.key_columns | length)] -%}
            {%- if not fits -%}
                {%- do problems.append("key " ~ (loop.index0 // (d.key_columns | length) + 1) ~ " of `keys` is no " ~ column.type
                    ~ ", the type of the key column " ~ column.name ~ ".") -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(problems | unique | list) }}
{%- endmacro %}


{#- What is wrong with a condition: it does not parse, it names another column, it holds for all rows. -#}
{% macro _condition_problems(subject, where, everything) -%}
    {%- set rows = cdc._named_rows(subject) -%}
    {%- set problem = adapter.query_problem("select 1 from " ~ rows ~ " where (" ~ where ~ "\n)") -%}
    {%- if problem is not none -%}
        {%- set names = cdc._column_types("select * from " ~ rows).keys() | reject("in", ["_events"]) | list -%}
        {{ return(["`where` is no condition on " ~ subject.named.name ~ ", whose columns are " ~ (names | join(", ")) ~ ". Spark says: "
            ~ problem]) }}
    {%- endif -%}
    {%- set counts = run_query("select count(*), count_if(" ~ where ~ "\n) from " ~ rows).rows[0] -%}
    {%- if counts[0] and counts[0] == counts[1] and not everything -%}
        {{ return(["`where` holds for all " ~ counts[0] ~ " rows of " ~ subject.named.name ~ ". If that is meant, add `everything: true`."]) }}
    {%- endif -%}
    {{ return([]) }}
{%- endmacro %}


{#- The rows that a condition is asked of, as a relation: those of a table, or the good events of the source table. -#}
{% macro _named_rows(subject) -%}
    {%- if subject.named.relation is not none -%}
        {{ return(subject.named.relation | string) }}
    {%- endif -%}
    {%- set d = subject.declaration -%}
    {%- set names = d.columns | map(attribute="name") | list -%}
    {{ return("(with " ~ cdc._decoded_events(dict(d, sees_erased=true), d.relation) ~ " select "
        ~ ("_event_id as _row_id, " if d.keyless else "") ~ cdc._column_list(names)
        ~ ", _op, _seq from identified_events where _op <> 'T' and _reason is null) as named_events") }}
{%- endmacro %}


{#- The keys to erase: those that are named, and those on the list that an unfinished erasure left, wherever they have a row. -#}
{% macro _erased_keys(subject, where, keys, unfinished, by_list) -%}
    {%- set d = subject.declaration -%}
    {%- set columns = cdc._column_list(d.key_columns) -%}
    {%- set found = [] -%}
    {%- for key in keys or [] -%}
        {%- set values = [] -%}
        {%- for column in d.columns if column.name in d.key_columns -%}
            {%- do values.append("cast(" ~ cdc._literal(key[column.name] if key is mapping else key) ~ " as " ~ column.type ~ ") as "
                ~ cdc._quoted(column.name)) -%}
        {%- endfor -%}
        {%- do found.append("select " ~ cdc._column_list(d.key_columns) ~ " from (select " ~ (values | join(", ")) ~ ") as given_key") -%}
    {%- endfor -%}
    {%- if where is not none -%}
        {%- do found.append("select " ~ columns ~ " from " ~ cdc._named_rows(subject) ~ " where (" ~ where ~ "\n)") -%}
    {%- endif -%}
    {%- if cdc._erasure_list() and (unfinished or by_list) -%}
        {%- set listed = "select key_hash from " ~ cdc._erasure_list() ~ " where table_name = " ~ cdc._literal(d.table)
            ~ " and " ~ ("counts_from is null" if by_list else "not is_done") -%}
        {%- for table in subject.tables -%}
            {%- do found.append("select " ~ columns ~ " from " ~ table.relation ~ " where " ~ cdc._row_key_hash(d) ~ " in (" ~ listed ~ ")") -%}
        {%- endfor -%}
        {%- set source = cdc._named_rows(dict(subject, named={"relation": none})) -%}
        {%- do found.append("select " ~ columns ~ " from " ~ source ~ " where " ~ cdc._row_key_hash(d) ~ " in (" ~ listed ~ ")") -%}
    {%- endif -%}
    {{ return("select distinct " ~ columns ~ " from (" ~ (found | join(" union all ")
        or "select " ~ columns ~ " from " ~ cdc._named_rows(subject) ~ " where false") ~ ") as found_keys") }}
{%- endmacro %}


{#- A raw row as one hash, for raw tables have no key. -#}
{% macro _raw_row_hash(d, alias=none) -%}
    {{ return("sha2(to_json(struct(" ~ cdc._column_list(cdc._column_types("select * from " ~ d.relation).keys() | list, alias) ~ ")), 256)") }}
{%- endmacro %}


{#- The raw rows of the erased keys, those that left such a key among them. -#}
{% macro _erased_raw_rows(d, erased) -%}
    {%- set hashes = cdc._event_key_hashes(d) -%}
with {{ cdc._decoded_events(dict(d, sees_erased=true, origin=cdc._raw_row_hash(d)), d.relation) }},

keyed_events as (
    select
        _origin,
        _arrived,
        explode(array_distinct(array({{ hashes.own }}, {{ hashes.old }}))) as _key_hash
    from identified_events
    where _op in ('I', 'U', 'D')
)

select
    _origin as _raw_row,
    min(_arrived) as _arrived
from keyed_events
where _key_hash in (select {{ cdc._row_key_hash(d) }} from {{ erased.relation }})
group by _origin
{%- endmacro %}


{#- Says what an erasure does, or would do. -#}
{% macro _report_erasure(subject, erased, raw_rows, dry_run) -%}
    {%- set d = subject.declaration -%}
    {%- set verb = "would be erased" if dry_run else "is erased" if erased.rows | length == 1 else "are erased" -%}
    {%- do log("cdc: " ~ d.table ~ ": " ~ (erased.rows | length) ~ (" key " if erased.rows | length == 1 else " keys ") ~ verb, info=true) -%}
    {%- do log("cdc: " ~ d.relation ~ ": " ~ (raw_rows.rows | length) ~ " raw events", info=true) -%}
    {%- for table in subject.tables -%}
        {%- do log("cdc: " ~ table.name ~ ": " ~ run_query("select count(*) from " ~ table.relation ~ " as held inner join " ~ erased.relation
            ~ " as erased on " ~ cdc._same(d.key_columns, "held", "erased")).rows[0][0] ~ " rows", info=true) -%}
    {%- endfor -%}
    {%- if subject.others -%}
        {%- do log("cdc: these models read the tables and may hold the person, too. Rebuild them, and vacuum their tables: "
            ~ (subject.others | sort | join(", ")), info=true) -%}
    {%- endif -%}
    {%- if dry_run -%}
        {%- do log("cdc: nothing was written; run with dry_run: false. That also removes every file that the newest version of these tables"
            ~ " does not need, and their older log: readers that are at work fail, and time travel and the change feed begin anew.",
            info=true) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    The erasure. The list comes first: from then on, no event of the keys is decoded, and whatever dies later, the next call finishes. Rows
    go before files, and each table ends with a commit that has its checkpoint.
-#}
{% macro _erase(subject, erased, raw_rows, unfinished) -%}
    {%- set d = subject.declaration -%}
    {%- set erasure_id = invocation_id -%}
    {%- set values = cdc._values_of_keys(subject, erased) -%}
    {%- do cdc._list_erased(d, erased, erasure_id) -%}
    {%- do cdc._filter_views(subject) -%}
    {%- set behind = [] -%}
    {%- set done = [cdc._erase_raw(d, raw_rows)] -%}
    {%- for table in subject.tables -%}
        {%- if table.role == "final" and d.history and cdc._is_behind_history(table) -%}{%- do behind.append(table.name) -%}{%- endif -%}
    {%- endfor -%}
    {%- for role in ["tombstones", "changelog", "final", "history"] -%}
        {%- for table in subject.tables if table.role == role -%}
            {%- do done.append(cdc._erase_table(d, table, erased, erasure_id, unfinished)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do cdc._forget_tables(subject, done, behind, erasure_id) -%}
    {%- do cdc._certify(subject, done, values, erased, erasure_id) -%}
{%- endmacro %}


{#-
    The texts that only rows of the erased keys have: no file may hold them afterwards. Short ones, and those that occur in rows of other
    keys, tell nothing.
-#}
{% macro _values_of_keys(subject, erased) -%}
    {%- set d = subject.declaration -%}
    {%- set values = [] -%}
    {%- for table in subject.tables if table.role == ("history" if d.history else "final") -%}
        {%- set texts = [] -%}
        {%- for name, type in cdc._column_types(table.relation).items() if type == "string" and not name.startswith("dbt_") -%}
            {%- do texts.append(cdc._quoted(name)) -%}
        {%- endfor -%}
        {%- if texts -%}
            {%- set found -%}
with held_texts as (
    select
        explode(array({{ texts | join(", ") }})) as _text,
        erased._is_erased is not null as _is_erased
    from {{ table.relation }} as held
    left join (select *, true as _is_erased from {{ erased.relation }}) as erased on {{ cdc._same(d.key_columns, "held", "erased") }}
),

erased_texts as (
    select distinct _text
    from held_texts
    where _is_erased and length(_text) >= 4
),

shared_texts as (
    select distinct erased_texts._text
    from erased_texts
    inner join held_texts on not held_texts._is_erased and contains(held_texts._text, erased_texts._text)
)

select _text
from erased_texts
left anti join shared_texts using (_text)
            {%- endset -%}
            {%- for row in run_query(found).rows -%}{%- do values.append(row[0]) -%}{%- endfor -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(values | unique | list) }}
{%- endmacro %}


{% macro _list_erased(d, erased, erasure_id) -%}
    {%- set list = cdc._erasures_relation() -%}
    {%- if cdc._erasure_list() is none -%}
        {%- do adapter.create_schema(list) -%}
        {%- do run_query("create table if not exists " ~ list ~ " (table_name string, key_hash string, erasure_id string, erased_at timestamp,"
            ~ " counts_from string, is_done boolean) using delta") -%}
        {%- do adapter.cache_added(list) -%}
    {%- endif -%}
    {%- set source = "(select " ~ cdc._literal(d.table) ~ " as table_name, " ~ cdc._row_key_hash(d) ~ " as key_hash, "
        ~ cdc._literal(erasure_id) ~ " as erasure_id, current_timestamp() as erased_at, cast(null as string) as counts_from, false as is_done"
        ~ " from " ~ erased.relation ~ ")" -%}
    {%- set columns = ["erasure_id", "erased_at", "counts_from", "is_done"] -%}
    {%- do run_query(cdc._merge(list, source, cdc._key_predicates(["table_name", "key_hash"]), [
        {"when": "matched", "then": "update", "columns": columns},
        {"when": "not matched", "then": "insert", "columns": ["table_name", "key_hash"] + columns},
    ])) -%}
{%- endmacro %}


{#- The staging views that are there decode events of erased keys until dbt builds them again. -#}
{% macro _filter_views(subject) -%}
    {%- set d = subject.declaration -%}
    {%- set mark = "__cdc_listed" -%}
    {%- for node in subject.views if node.config.materialized == "view" -%}
        {%- set query = adapter.view_query(node.relation_name) -%}
        {%- if query is not none and cdc._erasures_relation() | string not in query -%}
            {%- do run_query("create or replace view " ~ node.relation_name ~ " as select __cdc_events.* from (" ~ query
                ~ "\n) as __cdc_events left anti join (select key_hash from " ~ cdc._erasures_relation() ~ " where table_name = "
                ~ cdc._literal(d.table) ~ ") as " ~ mark ~ " on __cdc_events._op <> 'T' and " ~ mark ~ ".key_hash = "
                ~ cdc._row_key_hash(d, "__cdc_events")) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}


{#- Deletes raw events. A table that only takes appends takes the delete as well, and no other. -#}
{% macro _erase_raw(d, raw_rows) -%}
    {%- set done = {"role": "raw", "name": d.table, "relation": d.relation, "rows": 0, "files": 0} -%}
    {%- set properties = cdc._table_properties(d.relation) -%}
    {%- if raw_rows.rows | length -%}
        {%- set predicates = [cdc._raw_row_hash(d, "DBT_INTERNAL_DEST") ~ " = DBT_INTERNAL_SOURCE._raw_row"] -%}
        {%- if modules.re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", d.arrival or "") -%}
            {%- set arrivals = run_query("select min(_arrived), max(_arrived) from " ~ raw_rows.relation).rows[0] -%}
            {%- if arrivals[0] is not none -%}
                {%- do predicates.append("DBT_INTERNAL_DEST." ~ d.arrival ~ " between " ~ arrivals[0] ~ " and " ~ arrivals[1]) -%}
            {%- endif -%}
        {%- endif -%}
        {%- if properties.get("delta.appendOnly") == "true" -%}
            {%- do run_query("alter table " ~ d.relation ~ " set tblproperties ('delta.appendOnly' = 'false', 'cdc.append_only' = 'true')") -%}
        {%- endif -%}
        {%- do done.update(adapter.erase_rows(d.relation, cdc._merge(d.relation, raw_rows.relation, predicates,
            [{"when": "matched", "then": "delete"}]), "{}")) -%}
    {%- endif -%}
    {%- if cdc._table_properties(d.relation).get("cdc.append_only") == "true" -%}
        {%- do run_query("alter table " ~ d.relation ~ " set tblproperties ('delta.appendOnly' = 'true')") -%}
        {%- do run_query("alter table " ~ d.relation ~ " unset tblproperties ('cdc.append_only')") -%}
    {%- endif -%}
    {#- Nothing tells which events the hidden rows of a raw table are. -#}
    {%- if adapter.has_hidden_rows(d.relation) -%}
        {%- do run_query("reorg table " ~ d.relation ~ " apply (purge)") -%}
    {%- endif -%}
    {{ return(done) }}
{%- endmacro %}


{#-
    Deletes the rows of the keys from one table. Files in which a deletion vector hides rows of the keys are written anew: one row of
    each that stays is updated to what it is.
-#}
{% macro _erase_table(d, table, erased, erasure_id, unfinished) -%}
    {%- set types = cdc._column_types(table.relation) -%}
    {%- set checkpoint = cdc._checkpoint_text(table.relation, dict(cdc._read_checkpoint(table.relation), erasure=erasure_id))
        if table.role != "tombstones" else "{}" -%}
    {%- set bounds = cdc._erased_bounds(d, erased, types) -%}
    {%- set predicates = cdc._key_predicates(d.key_columns) + [cdc._is_within(bounds, "DBT_INTERNAL_DEST")] -%}
    {%- set found = adapter.erase_rows(table.relation | string,
        cdc._merge(table.relation, erased.relation, predicates, [{"when": "matched", "then": "delete"}]), checkpoint) -%}
    {%- set hiding = adapter.files_hiding(table.relation | string, erased) -%}
    {%- set files = {"count": found.files} -%}
    {%- if hiding -%}
        {%- set names = [] -%}
        {%- for file in hiding -%}{%- do names.append(cdc._literal(file.split("/")[-1])) -%}{%- endfor -%}
        {%- set marks = ["dbt_scd_id"] if table.role == "history" else ["_commit_version", "_row_kind"] if table.role == "changelog"
            else ["_event_id"] if table.role == "tombstones" else [] -%}
        {%- set row = d.key_columns + marks -%}
        {%- set touched -%}
            (
                select _row.*
                from (
                    select min_by(struct({{ cdc._column_list(row) }}), {{ cdc._row_key_hash(d) }}) as _row
                    from {{ table.relation }}
                    where _metadata.file_name in ({{ names | join(", ") }})
                    group by _metadata.file_name
                ) as touched_files
            )
        {%- endset -%}
        {%- set key = cdc._quoted(d.key_columns[0]) -%}
        {%- do files.update({"count": files.count + adapter.erase_rows(table.relation | string, cdc._merge(
            table.relation, touched, cdc._key_predicates(row), [{"when": "matched", "then": "update", "columns": [key]}]
        ), checkpoint).files}) -%}
    {%- endif -%}
    {#- Of keys that an interrupted erasure has left no row of, nothing tells which files hide some. -#}
    {%- if unfinished and adapter.has_hidden_rows(table.relation | string) -%}
        {%- do run_query("reorg table " ~ table.relation ~ " apply (purge)") -%}
    {%- endif -%}
    {{ return(dict(table, relation=table.relation | string, rows=found.rows, files=files.count)) }}
{%- endmacro %}


{#- Where the keys are, as literals that keep files of other keys from being read. -#}
{% macro _erased_bounds(d, erased, types) -%}
    {%- set spec = {"key_columns": d.key_columns, "types": types} -%}
    {%- set found = run_query("select " ~ cdc._key_range(spec, erased.relation) ~ " from " ~ erased.relation).rows[0][0] -%}
    {{ return(cdc._key_bounds(spec, fromjson(found) if found else none)) }}
{%- endmacro %}


{#- Whether a final table has changes of its history to read, erasures apart: it then compares itself with all of it in its next run. -#}
{% macro _is_behind_history(table) -%}
    {%- set history = cdc._relation_of(graph.nodes[table.above]) -%}
    {%- set version = cdc._read_checkpoint(table.relation).get("version") -%}
    {%- if version is none -%}
        {{ return(true) }}
    {%- endif -%}
    {%- set gap = cdc._table_version(history) - version -%}
    {%- set commits = cdc._newest_commits(history, gap) if gap > 0 else [] -%}
    {%- for commit in commits if commit["version"] > version and commit["operation"] not in cdc._maintenance()
        and "erasure" not in fromjson(commit["userMetadata"] or "{}", {}) -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(commits | length < gap) }}
{%- endmacro %}


{#-
    Files: what the newest versions do not need goes, with the log before them. Each table ends with a checkpoint that knows the new
    versions of what it reads, so that the next build goes on from there.
-#}
{% macro _forget_tables(subject, done, behind, erasure_id) -%}
    {%- set d = subject.declaration -%}
    {%- set versions = {} -%}
    {%- set raw_version = {} -%}
    {%- set highest = run_query("select max(" ~ d.arrival ~ ") from " ~ d.relation).rows[0][0] if d.arrival else none -%}
    {%- for role in ["raw", "tombstones", "history", "final", "changelog"] -%}
        {%- for table in done if table.role == role -%}
            {%- set position = {} -%}
            {%- if role in ["history", "final", "changelog"] -%}
                {%- set checkpoint = cdc._read_checkpoint(table.node and cdc._relation_of(table.node)) -%}
                {%- do position.update(dict(checkpoint, fingerprint=none, declared=none)) -%}
                {%- if role == "history" or (role == "final" and not d.history) -%}
                    {%- do position.update({"raw_version": raw_version.version}) -%}
                    {%- if highest is not none and position.get("read_to") is not none and position.read_to > highest -%}
                        {%- do position.update({"read_to": highest}) -%}
                    {%- endif -%}
                {%- elif table.above in versions -%}
                    {%- do position.update({"version": none if table.name in behind else versions[table.above]}) -%}
                    {%- if role == "changelog" -%}
                        {%- do position.update({"first": false,
                            "commit": cdc._commit_id(cdc._relation_of(graph.nodes[table.above]), versions[table.above])}) -%}
                    {%- endif -%}
                {%- endif -%}
            {%- endif -%}
            {%- set text = cdc._checkpoint_text(table.relation, position) if position else "{}" -%}
            {%- set forgotten = adapter.forget_past(table.relation, erasure_id, text) -%}
            {%- if role == "raw" -%}{%- do raw_version.update({"version": forgotten.version}) -%}{%- endif -%}
            {%- if table.node -%}{%- do versions.update({table.node.unique_id: forgotten.version}) -%}{%- endif -%}
            {%- do table.update({"removed": forgotten.files}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {#- Other tables of the same raw table would find that its sequence fell. -#}
    {%- for node in cdc._event_readers() if highest is not none and cdc._declared_names(node) != [d.table]
        and cdc._upstream_declaration(node) and cdc._upstream_declaration(node).relation == d.relation -%}
        {%- set relation = cdc._relation_of(node) -%}
        {%- set checkpoint = cdc._read_checkpoint(relation) if load_relation(relation) is not none else {} -%}
        {%- if checkpoint.get("read_to") is not none and checkpoint.read_to > highest -%}
            {%- do cdc._commit_checkpoint(relation, dict(checkpoint, read_to=highest, raw_version=none, fingerprint=none), checkpoint) -%}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}


{#- Searches the files, writes the certificate, and marks the keys as erased. -#}
{% macro _certify(subject, done, values, erased, erasure_id) -%}
    {%- set d = subject.declaration -%}
    {%- set relation = cdc._erasures_relation("cdc_erasure_certificates") -%}
    {%- set rows, entries = [], [] -%}
    {%- for table in done -%}
        {%- set found = adapter.search_files(table.relation, values, none if table.role == "raw" else erased) -%}
        {%- do entries.append({"role": table.role, "table": table.relation, "rows_removed": table.rows, "files_rewritten": table.files,
            "files_removed": table.removed, "files_searched": found.searched, "files_holding": found.holding | length}) -%}
        {%- do rows.append("(" ~ ([cdc._literal(erasure_id), "current_timestamp()", cdc._literal(d.table), erased.rows | length,
            cdc._literal(table.role), cdc._literal(table.relation), table.rows, table.files, table.removed, values | length,
            found.searched, found.holding | length] | join(", ")) ~ ")") -%}
        {%- do log("cdc: " ~ table.relation ~ ": " ~ table.rows ~ " rows erased, " ~ table.files ~ " files written anew, " ~ table.removed
            ~ " removed; " ~ (found.holding | length) ~ " of " ~ found.searched ~ " files hold the person"
            ~ (": " ~ (found.holding[:5] | join(", ")) if found.holding), info=true) -%}
    {%- endfor -%}
    {%- do run_query("create table if not exists " ~ relation ~ " (erasure_id string, erased_at timestamp, table_name string, keys bigint,"
        ~ " role string, relation string, rows_removed bigint, files_rewritten bigint, files_removed bigint, values_searched bigint,"
        ~ " files_searched bigint, files_holding bigint) using delta") -%}
    {%- do run_query("insert into " ~ relation ~ " values " ~ (rows | join(", "))) -%}
    {%- do run_query("update " ~ cdc._erasures_relation() ~ " set is_done = true where not is_done and table_name = " ~ cdc._literal(d.table)) -%}
    {%- set file = adapter.write_certificate(erasure_id, {"erasure_id": erasure_id, "source_table": d.table, "keys": erased.rows | length,
        "values_searched": values | length, "tables": entries, "may_hold_the_person_too": subject.others | sort}) -%}
    {%- do log("cdc: the certificate is in " ~ relation ~ " and in " ~ file ~ ". This command's arguments are in the log of dbt and in the"
        ~ " history of the shell.", info=true) -%}
{%- endmacro %}
