{#-
    `dbt run-operation cdc_erase --args '{table: customers_history, where: "email = ..", dry_run: false}'`: removes the rows of
    some keys from everything that is made of one declared source table, its raw events included, then the files that held them.
    docs/erasure.md has what is removed in which order.
      table        a history, a final table or a declared source table
      where        a condition on its rows; every key that has such a row is erased
      keys         or the keys themselves: values, or a mapping of all key columns each
      everything   confirms a condition that holds for all rows
      landed_files   confirms that lines are removed from landed files as well
    Without `where` and `keys`, what has arrived since of keys that are on the erasure list. So is an erasure that was interrupted
    finished, whatever it is called with.
-#}
{% macro cdc_erase(table=none, where=none, keys=none, everything=false, dry_run=true, landed_files=false) -%}
    {{ return(adapter.dispatch("cdc_erase", "cdc")(table, where, keys, everything, dry_run, landed_files)) }}
{%- endmacro %}


{% macro default__cdc_erase(table, where, keys, everything, dry_run, landed_files) -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: cdc_erase reads and removes files of the tables and of their logs, which only the embedded Spark of"
        ~ " `type: sparkcdc` lets it do. Nothing was written. Here, delete the rows in each table by hand, purge them"
        ~ " (REORG TABLE .. APPLY (PURGE)), vacuum the tables, and keep the person's events out of the raw table."
    ) -%}
{%- endmacro %}


{% macro sparkcdc__cdc_erase(table, where, keys, everything, dry_run, landed_files) -%}
    {%- set subject = cdc._erasure_subject(table) -%}
    {%- set unfinished = cdc._unfinished_erasures(subject.declaration) -%}
    {%- do cdc._refuse_erasure(subject, where, keys, everything, unfinished, landed_files) -%}
    {%- set by_list = where is none and keys is none -%}
    {%- if subject.declaration.key_changes -%}
        {%- set erased = cdc._erased_entities(subject, where, keys, unfinished) -%}
    {%- else -%}
        {%- set erased = cdc._step(
            {"relation": subject.named.relation, "is_large": true}, "erased_keys",
            cdc._erased_keys(subject, where, keys, unfinished, by_list), true, scans_table=true
        ) -%}
        {%- for table in subject.tables -%}
            {%- do table.update({"key_columns": subject.declaration.key_columns, "erased": erased}) -%}
        {%- endfor -%}
    {%- endif -%}
    {#- The raw table, and the snapshot that the table starts from. -#}
    {%- set raw = [] -%}
    {%- for d in [dict(subject.declaration, bootstrap=none, amended=false)] + cdc._bootstraps(subject.declaration) -%}
        {%- do raw.append({"declaration": d, "rows": cdc._step(
            {"relation": d.relation, "is_large": true}, "erased_raw_rows_" ~ loop.index, cdc._erased_raw_rows(d, erased), true,
            scans_table=true
        )}) -%}
    {%- endfor -%}
    {#- Of a table with `key_changes` raw events are found by their positions. -#}
    {%- set found = erased.rows | length or unfinished -%}
    {%- if subject.declaration.key_changes -%}
        {%- set found = found or erased.new.rows | length or raw | map(attribute="rows.rows") | map("length") | sum -%}
    {%- endif -%}
    {%- if not found -%}
        {%- if where is none -%}
            {%- do log("cdc: nothing has arrived of a key of " ~ subject.declaration.table ~ " that is on the erasure list",
                info=true) -%}
            {{ return("") }}
        {%- endif -%}
        {%- do exceptions.raise_compiler_error("cdc: no row of " ~ subject.named.name ~ " meets the condition. Nothing was written."
            ~ " A key that was erased before stays erased, and has no rows. To list a key that has none, name it with `keys`.") -%}
    {%- endif -%}
    {%- set landed = cdc._landed_lines(subject.declaration, raw[0].rows) if subject.declaration.landed else none -%}
    {%- do cdc._report_erasure(subject, erased, raw, dry_run, landed) -%}
    {%- if not dry_run -%}
        {%- do cdc._erase(subject, erased, raw, unfinished, landed, keys) -%}
    {%- endif -%}
    {%- do cdc._drop_steps() -%}
{%- endmacro %}


{#- Says what an erasure does, or would do. -#}
{% macro _report_erasure(subject, erased, raw, dry_run, landed) -%}
    {%- set d = subject.declaration -%}
    {%- set verb = "would be erased" if dry_run else "is erased" if erased.rows | length == 1 else "are erased" -%}
    {%- set many = erased.rows | length != 1 -%}
    {%- set unit = (" rows" if many else " row") ~ " of the source, with all keys that " ~ ("they" if many else "it") ~ " had, "
        if d.key_changes else " keys " if many else " key " -%}
    {%- do log("cdc: " ~ d.table ~ ": " ~ (erased.rows | length) ~ unit ~ verb, info=true) -%}
    {%- if d.key_changes and erased.unclear -%}
        {%- set moves = " event has moved" if erased.unclear == 1 else " events have moved" -%}
        {%- do log("cdc: " ~ d.table ~ ": " ~ erased.unclear ~ moves ~ " an erased row to a key that another row had then,"
            ~ " and can no longer be distinguished from it. Later events at that key may be the person's, and are part of"
            ~ " the other row: check that row, and name it by `where`.", info=true) -%}
    {%- endif -%}
    {%- for part in raw -%}
        {%- set what = " rows of the snapshot; what it was copied from holds the person, too, and stays as it is"
            if part.declaration.get("is_bootstrap") else " raw events" -%}
        {%- do log("cdc: " ~ part.declaration.relation ~ ": " ~ (part.rows.rows | length) ~ what, info=true) -%}
    {%- endfor -%}
    {%- if landed -%}
        {%- do log("cdc: " ~ landed.landing.folder ~ ": " ~ (landed.files | sum(attribute="lines")) ~ " lines of "
            ~ (landed.files | length) ~ " files", info=true) -%}
    {%- endif -%}
    {%- for table in subject.tables -%}
        {%- do log("cdc: " ~ table.name ~ ": " ~ cdc._rows_held(table) ~ " rows", info=true) -%}
    {%- endfor -%}
    {%- if subject.others -%}
        {%- do log("cdc: these models read the tables and may hold the person, too. Rebuild them, and vacuum their tables: "
            ~ (subject.others | sort | join(", ")), info=true) -%}
    {%- endif -%}
    {%- if dry_run -%}
        {%- do log("cdc: nothing was written; run with dry_run: false. That also removes every file that the newest version"
            ~ " of these tables does not need, and their older log: queries that are running fail, and time travel and the"
            ~ " change feed start from then.",
            info=true) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    The erasure. The list comes first: from then on, no event of the keys is decoded, and whatever dies later, the next call
    finishes. Rows go before files, and each table ends with a commit that has its checkpoint. What landed files are to hold is
    written beside them while the raw rows still tell which lines go.
-#}
{% macro _erase(subject, erased, raw, unfinished, landed, keys) -%}
    {%- set d = subject.declaration -%}
    {%- set erasure_id = invocation_id -%}
    {%- set values = cdc._values_of_keys(subject) -%}
    {%- if d.key_changes -%}
        {%- do cdc._list_erased_ranges(subject, erased, keys, erasure_id) -%}
    {%- else -%}
        {%- do cdc._list_erased(d, erased, erasure_id) -%}
    {%- endif -%}
    {%- do cdc._filter_views(subject) -%}
    {%- set behind, done = [], [] -%}
    {%- if landed -%}{%- do adapter.rewrite_landed_files(landed.files, landed.lines) -%}{%- endif -%}
    {%- for part in raw -%}
        {%- do done.append(cdc._erase_raw(part.declaration, part.rows, landed.files if landed and loop.first else [])) -%}
    {%- endfor -%}
    {%- if landed -%}{%- do done.append(cdc._replace_landed_files(landed)) -%}{%- endif -%}
    {%- for table in subject.tables -%}
        {%- if table.role == "final" and d.history
            and cdc._is_behind_history(table) -%}{%- do behind.append(table.name) -%}{%- endif -%}
    {%- endfor -%}
    {%- for role in ["amendments", "tombstones", "changelog", "final", "history", "keys"] -%}
        {%- for table in subject.tables if table.role == role -%}
            {%- do done.append(cdc._erase_table(d, table, erasure_id, unfinished)) -%}
            {%- if role == "keys" -%}{%- do cdc._forget_taken(table, erased, erasure_id) -%}{%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do cdc._forget_tables(subject, done, behind, erasure_id) -%}
    {%- do cdc._certify(subject, done, values, erased, erasure_id) -%}
{%- endmacro %}
