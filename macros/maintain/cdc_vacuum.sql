{#-
    `dbt run-operation cdc_vacuum --args '{dry_run: false}'`: removes files that histories, final tables, resolvers and landing
    models' tables no longer own, the steps of past runs among them. Of Iceberg's tables it expires the older snapshots first.
    Readers and the change feed need files of the recent past: less than a week is refused.
-#}
{% macro cdc_vacuum(table=none, retain_hours=168, dry_run=true) -%}
    {{ return(adapter.dispatch("cdc_vacuum", "cdc")(table, retain_hours, dry_run)) }}
{%- endmacro %}


{% macro default__cdc_vacuum(table, retain_hours, dry_run) -%}
    {%- if retain_hours | int < 168 -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: cdc_vacuum with `retain_hours: " ~ retain_hours ~ "` could remove files that a reader, a build, or a final table"
            ~ " that has not read its history's changes yet, still needs. Keep 168 hours or more."
        ) -%}
    {%- endif -%}
    {%- for relation in cdc._managed_tables(table) -%}
        {%- if cdc._is_iceberg(relation) -%}
            {%- set found = adapter.expire_iceberg(relation | string, retain_hours | int, dry_run) -%}
        {%- else -%}
            {%- set found = run_query("vacuum " ~ relation ~ " retain " ~ (retain_hours | int) ~ " hours dry run").rows | length -%}
            {%- if found and not dry_run -%}
                {%- do run_query("vacuum " ~ relation ~ " retain " ~ (retain_hours | int) ~ " hours") -%}
            {%- endif -%}
        {%- endif -%}
        {%- do log(
            "cdc: " ~ relation.identifier ~ ": " ~ ("no file" if not found else (found ~ " files or folders"
            ~ (" would be removed; run with dry_run: false" if dry_run else " removed"))), info=true
        ) -%}
    {%- endfor -%}
{%- endmacro %}
