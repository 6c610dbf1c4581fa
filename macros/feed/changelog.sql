{#-
    The changes of a final table, row by row, from its change feed: +I, -U, +U, -D as streaming systems name them. Added up they
    give the table.
-#}
{% macro changelog(relation, since=0) -%}
    {{ return(adapter.dispatch("changelog", "cdc")(relation, since)) }}
{%- endmacro %}


{% macro default__changelog(relation, since) -%}
    {%- if not execute -%}
        {{ return("select 1 as _row_kind") }}
    {%- endif -%}
    {%- set node = cdc._node_of(relation) -%}
    {%- set declaration = cdc._upstream_declaration(node) if node else none -%}
    {%- set changes = cdc._changes_since(relation, since | int, declaration.renames if declaration else {}) -%}
    {%- if declaration is none or declaration.history -%}
select
    * except (_change_type),
    {{ cdc._row_kind("_change_type") }} as _row_kind
from {{ changes }}
    {%- else -%}
    {%- set row = "partition by _commit_version, " ~ cdc._column_list(cdc._as_list(node.config.unique_key)) -%}
    {%- set hidden = ["_cdc_deleted_at", "_events"] -%}
    {%- set names = adapter.get_columns_in_relation(relation) | map(attribute="name") | reject("in", hidden) | list -%}
    {%- set image = "struct(" ~ cdc._column_list(names) ~ ")" -%}
{#- A tombstone is no row: what becomes one is deleted, what was one is inserted. Nor is a change of what is hidden a change. #}
with living_rows as (
    select
        *,
        count_if(_change_type = 'update_preimage') over ({{ row }}) as _before,
        count_if(_change_type = 'update_postimage') over ({{ row }}) as _after,
        min({{ image }}) over ({{ row }}) <=> max({{ image }}) over ({{ row }}) as _is_same
    from {{ changes }}
    where _cdc_deleted_at is null
)

select
    * except (_change_type, _before, _after, _is_same, _cdc_deleted_at, _events),
    case
        when _change_type = 'update_preimage' and _after = 0 then '-D'
        when _change_type = 'update_postimage' and _before = 0 then '+I'
        else {{ cdc._row_kind("_change_type") }}
    end as _row_kind
from living_rows
where not (_is_same and _before = 1 and _after = 1)
    {%- endif -%}
{%- endmacro %}


{% macro _row_kind(change_type) -%}
    {{ return("case " ~ change_type ~ " when 'insert' then '+I' when 'update_preimage' then '-U'"
        ~ " when 'update_postimage' then '+U' when 'delete' then '-D' end") }}
{%- endmacro %}


{#-
    What Delta's change feed gives since a version. It reads no range in which a column was renamed or its type widened: such a range is
    read in parts, each brought to the columns of today.
-#}
{% macro _changes_since(relation, since, renames) -%}
    {%- set table = cdc._literal(relation | string | replace("`", "")) -%}
    {%- set starts = [since] -%}
    {%- set properties = cdc._table_properties(relation) -%}
    {%- if "delta.columnMapping.mode" in properties or "delta.enableTypeWidening" in properties -%}
        {%- for commit in run_query("describe history " ~ relation) | reverse -%}
            {%- if commit["version"] > since and commit["operation"] in ["RENAME COLUMN", "CHANGE COLUMN"] -%}
                {%- do starts.append(commit["version"]) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if starts | length == 1 -%}
        {{ return("table_changes(" ~ table ~ ", " ~ since ~ ")") }}
    {%- endif -%}
    {%- set present = cdc._column_types(relation) -%}
    {%- set location = cdc._table_detail(relation).location -%}
    {%- set parts = [] -%}
    {%- for start in starts -%}
        {#- Spark looks a name up once a query, for all parts with the columns of the first: a slash more is another name. -#}
        {%- set path = cdc._literal(location ~ "/" * loop.index) -%}
        {%- set end = ", " ~ (starts[loop.index] - 1) if not loop.last else "" -%}
        {%- set part = "table_changes_by_path(" ~ path ~ ", " ~ start ~ end ~ ")" -%}
        {%- set types = cdc._column_types("select * from " ~ part) -%}
        {%- set columns = [] -%}
        {%- for column, type in present.items() -%}
            {%- set name = ([column] + renames.get(column, [])) | select("in", types) | first -%}
            {%- do columns.append((cdc._fitted(cdc._quoted(name), types[name], type) if name else "cast(null as " ~ type ~ ")")
                ~ " as " ~ cdc._quoted(column)) -%}
        {%- endfor -%}
        {%- do columns.extend(["_change_type", "_commit_version", "_commit_timestamp"]) -%}
        {%- do parts.append("select " ~ (columns | join(", ")) ~ " from " ~ part) -%}
    {%- endfor -%}
    {{ return("(" ~ (parts | join(" union all ")) ~ ") as changes") }}
{%- endmacro %}
