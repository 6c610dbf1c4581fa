{#-
    Deletes the rows of the keys from one table. Files in which a deletion vector hides rows of the keys are rewritten: one row that
    stays in each is updated to itself. Of Iceberg's tables all files with deleted rows are rewritten.
-#}
{% macro _erase_table(d, table, erasure_id, unfinished) -%}
    {%- set d = dict(d, key_columns=table.key_columns) -%}
    {%- set erased = table.erased -%}
    {%- set types = cdc._column_types(table.relation) -%}
    {%- set checkpoint = cdc._erasure_checkpoint(table.relation, erasure_id)
        if table.role not in ["tombstones", "amendments"] else "{}" -%}
    {%- set bounds = cdc._erased_bounds(d, erased, types) -%}
    {%- set predicates = cdc._key_predicates(d.key_columns) + [cdc._is_within(bounds, "DBT_INTERNAL_DEST")] -%}
    {%- set merge = cdc._merge(table.relation, erased.relation, predicates, [{"when": "matched", "then": "delete"}]) -%}
    {%- if cdc._is_iceberg(table.relation) -%}
        {%- set held = cdc._rows_held(table) -%}
        {%- set files = adapter.erase_iceberg_rows(table.relation | string, merge if held else none, checkpoint) -%}
        {{ return(dict(table, relation=table.relation | string, rows=held, files=files)) }}
    {%- endif -%}
    {%- set found = adapter.erase_rows(table.relation | string, merge, checkpoint) -%}
    {%- set hiding = adapter.files_hiding(table.relation | string, erased) -%}
    {%- set files = {"count": found.files} -%}
    {%- if hiding -%}
        {%- set names = [] -%}
        {%- for file in hiding -%}{%- do names.append(cdc._literal(file.split("/")[-1])) -%}{%- endfor -%}
        {%- set marks = ["dbt_scd_id"] if table.role == "history" else ["_commit_version", "_row_kind"] if table.role == "changelog"
            else ["_event_id"] if table.role in ["tombstones", "amendments", "keys"] else [] -%}
        {%- set row = (d.key_columns + marks) | unique | list -%}
        {%- set touched -%}
            (
                select __cdc_row.*
                from (
                    select min_by(struct({{ cdc._column_list(row) }}), {{ cdc._row_key_hash(d) }}) as __cdc_row
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


{#-
    The checkpoint of a commit of an erasure: the table has read as far as before, unless `cdc_replay` sets it back, or another
    program writes it, before the commit is made.
-#}
{% macro _erasure_checkpoint(relation, erasure_id) -%}
    {%- set last = cdc._read_checkpoint(relation) -%}
    {{ return(cdc._checkpoint_text(relation, dict(last, base=last.at, erasure=erasure_id))) }}
{%- endmacro %}


{#- Events that ended an erased row by taking its key, in the resolver's table: they end no row from now on. -#}
{% macro _forget_taken(table, erased, erasure_id) -%}
    {%- set taken = run_query("select count(*) from " ~ table.relation ~ " where _ended_entity_id in (select _entity_id from "
        ~ erased.relation ~ ")").rows[0][0] -%}
    {%- if taken -%}
        {%- set source = "(select _entity_id as _ended_entity_id from " ~ erased.relation ~ ")" -%}
        {%- set statement = cdc._merge(table.relation, source,
            ["DBT_INTERNAL_DEST._ended_entity_id = DBT_INTERNAL_SOURCE._ended_entity_id"], [])
            ~ "\nwhen matched then update set _ended_entity_id = null, _ended_segment_id = null" -%}
        {%- set checkpoint = cdc._erasure_checkpoint(table.relation, erasure_id) -%}
        {%- if cdc._is_iceberg(table.relation) -%}
            {%- do adapter.erase_iceberg_rows(table.relation | string, statement, checkpoint) -%}
        {%- else -%}
            {%- do adapter.erase_rows(table.relation | string, statement, checkpoint) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}


{#- How many rows of the keys a table has. -#}
{% macro _rows_held(table) -%}
    {{ return(run_query("select count(*) from " ~ table.relation ~ " as held inner join " ~ table.erased.relation ~ " as erased on "
        ~ cdc._same(table.key_columns, "held", "erased")).rows[0][0]) }}
{%- endmacro %}


{#- Where the keys are, as literals that keep files of other keys from being read. -#}
{% macro _erased_bounds(d, erased, types) -%}
    {%- set spec = {"key_columns": d.key_columns, "types": types} -%}
    {%- set found = run_query("select " ~ cdc._key_range(spec, erased.relation) ~ " from " ~ erased.relation).rows[0][0] -%}
    {{ return(cdc._key_bounds(spec, fromjson(found) if found else none)) }}
{%- endmacro %}


{#-
    Deletes raw events. A table that only takes appends takes the delete as well, and no other.
      files   landed files that lose lines
-#}
{% macro _erase_raw(d, raw_rows, files) -%}
    {%- set role = "snapshot" if d.get("is_bootstrap") else "raw" -%}
    {%- set done = {"role": role, "name": d.table, "relation": d.relation, "rows": 0, "files": 0} -%}
    {%- set properties = cdc._table_properties(d.relation) -%}
    {%- if raw_rows.rows | length or files -%}
        {%- if properties.get("delta.appendOnly") == "true" -%}
            {%- do run_query("alter table " ~ d.relation
                ~ " set tblproperties ('delta.appendOnly' = 'false', 'cdc.append_only' = 'true')") -%}
        {%- endif -%}
    {%- endif -%}
    {%- if raw_rows.rows | length -%}
        {%- set predicates = [cdc._raw_row_hash(d, "DBT_INTERNAL_DEST") ~ " = DBT_INTERNAL_SOURCE.__cdc_raw_row"] -%}
        {%- if modules.re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", d.arrival or "") -%}
            {%- set arrivals = run_query("select min(_arrived), max(_arrived) from " ~ raw_rows.relation).rows[0] -%}
            {%- if arrivals[0] is not none -%}
                {%- do predicates.append("DBT_INTERNAL_DEST." ~ d.arrival ~ " between " ~ arrivals[0] ~ " and " ~ arrivals[1]) -%}
            {%- endif -%}
        {%- endif -%}
        {%- do done.update(adapter.erase_rows(d.relation, cdc._merge(d.relation, raw_rows.relation, predicates,
            [{"when": "matched", "then": "delete"}]), "{}")) -%}
    {%- endif -%}
    {%- if files -%}{%- do cdc._update_checksums(d.relation, files, "_size", "_checksum") -%}{%- endif -%}
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
