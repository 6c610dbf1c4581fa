{#-
    The model that landed the files of a raw table, as far as the project says it: `name`, `folder` and `log`, its own table. None
    where no model of the project names that raw table and a folder.
-#}
{% macro _landing_of(d) -%}
    {%- for node in graph.nodes.values() if node.config.get("landing_folder")
        and (node.config.get("raw_table") or "") | replace("`", "") == d.relation | replace("`", "") -%}
        {{ return({"name": node.name, "folder": node.config.landing_folder, "log": cdc._relation_of(node)}) }}
    {%- endfor -%}
    {{ return(none) }}
{%- endmacro %}


{#- Why the landed files of a table cannot lose lines; none where they can and may. -#}
{% macro _landing_problem(d, landed_files) -%}
    {%- set landing = cdc._landing_of(d) -%}
    {%- set by_hand = " Remove the person's lines from the files, drop the raw table and the log of the landing model, and run it:"
        ~ " it lands what is left. Then build everything again (dbt build --full-refresh) and vacuum the tables." -%}
    {%- if landing is none -%}
        {{ return(d.table ~ " is landed, and no model of this project has the configuration `raw_table: " ~ d.relation
            ~ "` and a `landing_folder`: its events come from files in an unknown folder, or from topics, which hold the"
            ~ " person's data, too." ~ by_hand) }}
    {%- endif -%}
    {%- set problem = adapter.landing_problem(landing.folder) -%}
    {%- if problem is not none -%}
        {{ return(d.table ~ " is landed from files that cannot be written again: " ~ problem ~ ". Correct that, or do it by hand:"
            ~ by_hand) }}
    {%- elif not landed_files -%}
        {{ return(d.table ~ " is landed from files in " ~ landing.folder ~ ", which hold the person's data, too. Add"
            ~ " `landed_files: true`: the person's lines are removed from the files as well.") }}
    {%- endif -%}
    {{ return(none) }}
{%- endmacro %}


{#-
    Which landed files lose which lines.
      landing   see `_landing_of`
      lines     hashes of the lines, for each folder of the landing folder that the table has rows of, and may have more of
      files     the files
-#}
{% macro _landed_lines(d, raw_rows) -%}
    {%- set landing = cdc._landing_of(d) -%}
    {%- set lines = {} -%}
    {%- for row in run_query("select distinct _table from " ~ d.relation ~ (cdc._meeting(d.where) if d.where else "")).rows -%}
        {%- do lines.update({row[0]: []}) -%}
    {%- endfor -%}
    {%- if raw_rows.rows | length -%}
        {%- for row in run_query("select _table, sha2(value, 256) from " ~ d.relation ~ " where value is not null and "
            ~ cdc._raw_row_hash(d) ~ " in (select __cdc_raw_row from " ~ raw_rows.relation ~ ") group by all").rows -%}
            {%- do lines.setdefault(row[0], []).append(row[1]) -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set found = adapter.landed_rewrites(landing.folder, lines) -%}
    {%- do cdc._refuse_operation("cdc_erase", d.table, found.problems) -%}
    {{ return({"landing": landing, "lines": lines, "files": found.files}) }}
{%- endmacro %}


{#- Has a table that knows landed files by their checksums know what they hold from now on. Their times stay what they are. -#}
{% macro _update_checksums(relation, files, size, checksum) -%}
    {%- set rows = [] -%}
    {%- for file in files if file.size -%}
        {%- do rows.append("(" ~ ([cdc._literal(file.table), cdc._literal(file.before), file.size | string ~ "L",
            cdc._literal(file.checksum)] | join(", ")) ~ ")") -%}
    {%- endfor -%}
    {%- if not rows or checksum not in cdc._table_types(relation) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set source = "(select * from values " ~ (rows | unique | join(", ")) ~ " as rewritten_files (_table, __cdc_before, "
        ~ size ~ ", " ~ checksum ~ "))" -%}
    {%- set predicates = ["DBT_INTERNAL_DEST._table = DBT_INTERNAL_SOURCE._table",
        "DBT_INTERNAL_DEST." ~ checksum ~ " = DBT_INTERNAL_SOURCE.__cdc_before"] -%}
    {%- do adapter.erase_rows(relation | string, cdc._merge(relation, source, predicates,
        [{"when": "matched", "then": "update", "columns": [size, checksum]}]), "{}") -%}
{%- endmacro %}


{#-
    Puts the files in place. The raw table knows them; so does the log now, whose rows would otherwise say that they were replaced.
-#}
{% macro _replace_landed_files(landed) -%}
    {%- if load_relation(landed.landing.log) is not none -%}
        {%- do cdc._update_checksums(landed.landing.log, landed.files, "bytes", "checksum") -%}
    {%- endif -%}
    {%- set gone = adapter.replace_landed_files(landed.landing.folder) -%}
    {{ return({"role": "landed", "name": landed.landing.name, "relation": landed.landing.folder,
        "rows": landed.files | sum(attribute="lines"), "files": landed.files | length - gone, "removed": gone}) }}
{%- endmacro %}
