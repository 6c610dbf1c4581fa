{#-
    `dbt run-operation cdc_optimize --args '{dry_run: false}'`: puts the small files of histories, final tables, resolvers and
    landing models' tables together, clusters what is clustered, and purges deleted rows from files that hold many. Of Iceberg's
    tables it rewrites data files, files of deletes and manifests. Only where it pays: a table with few files, or with large ones,
    is left alone.
-#}
{% macro cdc_optimize(table=none, small_file_mb=32, min_small_files=16, dry_run=true) -%}
    {{ return(adapter.dispatch("cdc_optimize", "cdc")(table, small_file_mb, min_small_files, dry_run)) }}
{%- endmacro %}


{% macro default__cdc_optimize(table, small_file_mb, min_small_files, dry_run) -%}
    {%- for relation in cdc._managed_tables(table) -%}
        {%- set is_iceberg = cdc._is_iceberg(relation) -%}
        {%- if is_iceberg -%}
            {%- set counted = adapter.iceberg_files(relation | string) -%}
            {%- set files, bytes = counted.data + counted.deletes, counted.bytes -%}
        {%- else -%}
            {%- set detail = run_query("describe detail " ~ relation)[0] -%}
            {%- set files, bytes = detail["numFiles"] | int, detail["sizeInBytes"] | int -%}
        {%- endif -%}
        {%- set megabytes = (bytes / 1000000) | round(1) -%}
        {%- set pays = files >= min_small_files and megabytes / files < small_file_mb -%}
        {%- if pays and not dry_run -%}
            {%- if is_iceberg -%}
                {%- do adapter.compact_iceberg(relation | string) -%}
            {%- else -%}
                {%- do run_query("optimize " ~ relation) -%}
            {%- endif -%}
        {%- endif -%}
        {%- do log(
            "cdc: " ~ relation.identifier ~ ": " ~ files ~ " files, " ~ megabytes ~ " MB: "
            ~ ("left alone" if not pays else "would be optimized; run with dry_run: false" if dry_run else "optimized"), info=true
        ) -%}
    {%- endfor -%}
{%- endmacro %}
