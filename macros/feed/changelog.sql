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
    {%- set table = cdc._literal(relation | string | replace("`", "")) -%}
    {%- if declaration is none or declaration.history -%}
select
    * except (_change_type),
    {{ cdc._row_kind("_change_type") }} as _row_kind
from table_changes({{ table }}, {{ since | int }})
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
    from table_changes({{ table }}, {{ since | int }})
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
