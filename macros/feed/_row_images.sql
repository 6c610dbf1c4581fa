{#-
    The rows that commits of a table changed, as they were before and are after each: its columns, `_change_type` (`insert`,
    `delete`, `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`. Rows that a commit only moved to
    another file can be among both. What comes back stands behind FROM.

    Delta keeps them in a change feed. Of Iceberg they are all rows of the files that a commit changed, which are looked up here.
      first, last   versions, both included; `last` is none for all there are
-#}
{% macro _row_images(relation, first, last) -%}
    {{ return(adapter.dispatch("row_images", "cdc")(relation, first, last)) }}
{%- endmacro %}


{% macro default__row_images(relation, first, last) -%}
    {%- set versions = [first | int] + ([last | int] if last is not none else []) -%}
    {{ return("table_changes(" ~ cdc._literal(relation | string | replace("`", "")) ~ ", " ~ (versions | join(", ")) ~ ")") }}
{%- endmacro %}


{% macro sparkcdc__row_images(relation, first, last) -%}
    {%- if not cdc._is_iceberg(relation) -%}
        {{ return(cdc.default__row_images(relation, first, last)) }}
    {%- endif -%}
    {#- dbt compiles models of tables that are not there yet. -#}
    {%- set is_there = cdc._is_there(relation) -%}
    {#- The files of format version 3 have columns of their own. -#}
    {%- set columns = "select " ~ (cdc._column_list(cdc._column_types(relation).keys() | list) if is_there else "*") -%}
    {%- set images = [columns ~ ", '' as _change_type, cast(0 as bigint) as _commit_version,"
        ~ " current_timestamp() as _commit_timestamp from " ~ relation ~ " where false"] -%}
    {%- set found = adapter.iceberg_images(relation | string, first | int, last if last is none else last | int)
        if is_there and (last is none or last >= first) else [] -%}
    {%- for image in found -%}
        {%- do images.append(columns ~ ", '" ~ ("delete" if image.is_before else "insert") ~ "' as _change_type, cast("
            ~ image.version ~ " as bigint) as _commit_version, timestamp " ~ cdc._literal(image.timestamp)
            ~ " as _commit_timestamp from " ~ image.relation) -%}
    {%- endfor -%}
    {{ return("(" ~ (images | join(" union all ")) ~ ")") }}
{%- endmacro %}
