{#-
    The format of tables: Delta, Iceberg or, of final tables only, plain Parquet.

    Whether a table is one of Iceberg, which its catalog says.
-#}
{% macro _is_iceberg(relation) -%}
    {{ return(adapter.dispatch("is_iceberg", "cdc")(relation)) }}
{%- endmacro %}


{% macro default__is_iceberg(relation) -%}
    {{ return(false) }}
{%- endmacro %}


{% macro sparkcdc__is_iceberg(relation) -%}
    {{ return(adapter.is_iceberg(relation | string)) }}
{%- endmacro %}


{#- The format that a node declares. -#}
{% macro _file_format(node) -%}
    {{ return((node.config.get("file_format") or "delta") | lower) }}
{%- endmacro %}


{#- Whether a final table is one of plain Parquet files, which have no log. -#}
{% macro _is_parquet(node) -%}
    {{ return(cdc._file_format(node) == "parquet") }}
{%- endmacro %}


{#-
    The properties that a history or a final table has because of its format, and of what its node says of writes.
      write_mode       whether changed rows are marked in a file beside (merge-on-read), or their files written again
                       (copy-on-write)
      format_version   of Iceberg
-#}
{% macro _format_properties(node) -%}
    {%- set mode = node.config.get("write_mode") -%}
    {%- if cdc._is_parquet(node) -%}
        {{ return({}) }}
    {%- elif cdc._file_format(node) == "delta" -%}
        {%- set marks = {"delta.enableDeletionVectors": (mode == "merge-on-read") | string | lower} if mode else {} -%}
        {{ return(dict(marks, **{"delta.enableChangeDataFeed": "true"})) }}
    {%- endif -%}
    {%- set properties = {
        "format-version": (node.config.get("format_version") or 2) | string,
        "write.wap.enabled": "true",
    } -%}
    {%- for statement in ["delete", "update", "merge"] -%}
        {%- do properties.update({"write." ~ statement ~ ".mode": mode or "merge-on-read"}) -%}
    {%- endfor -%}
    {{ return(properties) }}
{%- endmacro %}


{#-
    Gives a Delta table deletion vectors once it is large, unless somebody has decided it. The files of a small table are written
    again in less time than the vectors add to each read.
-#}
{% macro _add_vectors_if_large(relation) -%}
    {{ return(adapter.dispatch("add_vectors_if_large", "cdc")(relation)) }}
{%- endmacro %}


{#- Only Delta's log tells the size without a statement. -#}
{% macro default__add_vectors_if_large(relation) -%}{%- endmacro %}


{% macro sparkcdc__add_vectors_if_large(relation) -%}
    {%- do adapter.add_vectors_if_large(relation | string) -%}
{%- endmacro %}


{#-
    Brings a table to the properties that its node declares now, and that its size calls for. What builds write from here on follows
    them.
-#}
{% macro _keep_format_properties(node, relation) -%}
    {%- set declared = cdc._format_properties(node) -%}
    {%- do declared.pop("delta.enableChangeDataFeed", none) -%}
    {%- if not declared -%}
        {#- Whole partitions are replaced without marking rows, for readers that may not know deletion vectors. -#}
        {%- if cdc._file_format(node) == "delta" and node.config.get("incremental_strategy") != "insert_overwrite" -%}
            {%- do cdc._add_vectors_if_large(relation) -%}
        {%- endif -%}
        {{ return(none) }}
    {%- endif -%}
    {%- for name, value in (node.config.get("tblproperties") or {}).items()
        if name in declared and name != "write.wap.enabled" -%}
        {%- do declared.update({name: value | string}) -%}
    {%- endfor -%}
    {%- set known = cdc._table_properties(relation) -%}
    {%- set changed = {} -%}
    {%- for name, value in declared.items() if known.get(name) != value -%}
        {%- do changed.update({name: value}) -%}
    {%- endfor -%}
    {%- if known.get("format-version", "0") | int > declared.get("format-version", "9") | int -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ relation ~ " has format version " ~ known["format-version"] ~ " of Iceberg, and " ~ node.name
            ~ (" declares `format_version: " ~ declared["format-version"] ~ "`" if node.config.get("format_version")
            else " declares none, which means 2") ~ ". A table cannot go back to an older version."
            ~ " Nothing was written. Declare `format_version: "
            ~ known["format-version"] ~ "`, or drop the table and build it again."
        ) -%}
    {%- endif -%}
    {%- if changed -%}{%- do run_query("alter table " ~ relation ~ " set " ~ cdc._tblproperties(changed)) -%}{%- endif -%}
{%- endmacro %}


{#- Columns that Iceberg shows of every table. https://iceberg.apache.org/spec/#reserved-field-ids -#}
{% macro _iceberg_metadata_columns() -%}
    {{ return(["_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"]) }}
{%- endmacro %}


{#- Everything that is wrong with what a history or a final table says of its format. -#}
{% macro _format_problems(node) -%}
    {%- set problems = [] -%}
    {%- set at = node.name ~ ": it has `" -%}
    {%- set format = cdc._file_format(node) -%}
    {%- set mode = node.config.get("write_mode") -%}
    {%- set version = node.config.get("format_version") -%}
    {%- if mode is not none and (mode not in ["copy-on-write", "merge-on-read"] or format not in ["delta", "iceberg"]) -%}
        {%- do problems.append(at ~ "write_mode: " ~ mode ~ "`" ~ (". Write `copy-on-write` or `merge-on-read`."
            if format in ["delta", "iceberg"]
            else " and `file_format: " ~ format ~ "`, whose files are always written again. Remove it.")) -%}
    {%- endif -%}
    {%- if version is not none and (format != "iceberg" or version | string not in ["2", "3"]) -%}
        {%- do problems.append(at ~ "format_version: " ~ version ~ "`" ~ (". Write 2 or 3." if format == "iceberg"
            else " and `file_format: " ~ format ~ "`. It is an option of Iceberg. Remove it.")) -%}
    {%- endif -%}
    {#- What is not materialized as a table has no format. -#}
    {%- if format == "iceberg" and node.config.materialized in ["snapshot", "incremental", "table"] -%}
        {%- set catalog = target.get("iceberg_catalog") -%}
        {%- if not catalog -%}
            {%- do problems.append(at ~ "file_format: iceberg`, and the profile's target `" ~ target.name
                ~ "` has no catalog for such tables. Add `iceberg_catalog: lake` to it, which needs"
                ~ " `type: sparkcdc` with Spark inside dbt's process; or use `file_format: delta`.") -%}
        {%- elif not node.schema.startswith(catalog ~ ".") -%}
            {%- do problems.append(at ~ "file_format: iceberg`, and its schema is `" ~ node.schema ~ "`, which is not in the"
                ~ " catalog `" ~ catalog ~ "` of the profile. The project has a macro `generate_schema_name` of its own (or the snapshot a"
                ~ " `target_schema`): have it return `target.iceberg_catalog ~ '.' ~ <schema>` for such nodes.") -%}
        {%- endif -%}
        {%- set d = cdc._upstream_declaration(node) or {"columns": [], "keyless": false} -%}
        {%- for column in d.columns if column.name | lower in cdc._iceberg_metadata_columns() -%}
            {%- do problems.append(at ~ "file_format: iceberg`, and the column `" ~ column.name ~ "` of " ~ d.table
                ~ " has a name that Iceberg reserves: Spark could not read the table. Leave it out with `except_columns`,"
                ~ " or give it another name in a view of the raw table.") -%}
        {%- endfor -%}
        {%- if d.keyless -%}
            {%- do problems.append(at ~ "file_format: iceberg`, and " ~ d.table ~ " has no `keys`: its rows are identified by a"
                ~ " column `_row_id`, a name that Iceberg reserves. Declare `keys`, or use `file_format: delta`.") -%}
        {%- endif -%}
        {%- if node.config.get("clustered_by") or node.config.get("location_root") -%}
            {%- do problems.append(at ~ "file_format: iceberg` and `"
                ~ ("clustered_by" if node.config.get("clustered_by") else "location_root")
                ~ "`: the catalog decides where the files of a table are. Remove it.") -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}


{#- A table in another format than its node asks for. -#}
{% macro _refuse_other_format(node, target) -%}
    {%- set existing = load_relation(target) -%}
    {%- if existing is none or existing.is_view -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set format = "iceberg" if existing.is_iceberg else "delta" if existing.is_delta else "parquet" -%}
    {%- if format != cdc._file_format(node) -%}
        {%- set is_history = node.resource_type == "snapshot" -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ target ~ " is "
            ~ {"delta": "a Delta table", "iceberg": "an Iceberg table", "parquet": "not a Delta table"}[format]
            ~ ", and its " ~ ("snapshot" if is_history else "model") ~ " has `file_format: " ~ cdc._file_format(node)
            ~ "`. Nothing was written. " ~ ("Drop the table, and build it in the new format from the raw events: dbt build --select "
            if is_history else "Build the table in the new format from its history: dbt build --full-refresh --select ") ~ node.name
        ) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    A table of events that is about to be built although it is there in the other format, whose tables are in another catalog: it
    would begin from the raw events, which may not be all there any more.
-#}
{% macro _refuse_second_home(node, relation) -%}
    {%- set catalog = target.get("iceberg_catalog") -%}
    {%- if not catalog -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set is_iceberg = cdc._is_iceberg(relation) -%}
    {%- set schema = relation.schema[catalog | length + 1:] if is_iceberg else catalog ~ "." ~ relation.schema -%}
    {%- set other = api.Relation.create(database=none, schema=schema, identifier=relation.identifier, type="table") -%}
    {%- if cdc._is_there(other) and "cdc.keys" in cdc._table_properties(other) -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ node.name ~ " is now declared with `file_format: " ~ cdc._file_format(node) ~ "`, and " ~ other
            ~ " holds its " ~ ("versions" if node.resource_type == "snapshot" else "rows") ~ " as "
            ~ ("a Delta" if is_iceberg else "an Iceberg") ~ " table. Built in the other format, it would have only what the"
            ~ " raw events still give. Nothing was written. Undo the change; or, if all raw events are there, drop "
            ~ other ~ " (or rename it, to keep it) and build again."
        ) -%}
    {%- endif -%}
{%- endmacro %}
