{#-
    The rows of a changelog as Debezium's change events, in JSON: one SELECT with a row for each event. `-U` and `+U` of a row
    become one update. A row whose key changed is a delete of the old key and a create of the new one, as in Debezium.

    An event of one commit is the same text whenever it is rendered, so that it can be written again after a crash.
-#}
{% macro debezium_json(changelog, name=none, tombstones=true) -%}
    {{ return(adapter.dispatch("debezium_json", "cdc")(changelog, name, tombstones)) }}
{%- endmacro %}


{% macro default__debezium_json(changelog, name, tombstones) -%}
    {%- if not execute -%}
        {{ return("select * from " ~ changelog) }}
    {%- endif -%}
    {%- set node = cdc._node_of(changelog) -%}
    {%- do cdc._refuse_debezium_json(model, changelog, node, tombstones) -%}
    {%- set table = cdc._graph().nodes[node.depends_on.nodes[0]] -%}
    {%- set position = "if(_row_kind = '-D', 0, 1)" -%}
with row_images as (
    select
        {{ cdc._as_json("struct(" ~ cdc._column_list(cdc._changelog_keys(table)) ~ ")", "UTC") }} as key,
        struct({{ cdc._exported_columns(table) }}) as _cdc_row,
        _row_kind,
        _commit_version,
        _commit_timestamp
    from {{ changelog }}
),

paired_images as (
    select
        *,
        lag(_cdc_row) over (partition by _commit_version, key order by _row_kind desc) as _cdc_row_before
    from row_images
),

events as (
    select
        key,
        {{ cdc._as_json("struct(
            case _row_kind when '+U' then _cdc_row_before when '-D' then _cdc_row end as before,
            if(_row_kind = '-D', null, _cdc_row) as after,
            struct(
                'delta' as connector,
                " ~ cdc._literal(name or project_name) ~ " as name,
                unix_millis(_commit_timestamp) as ts_ms,
                unix_micros(_commit_timestamp) as ts_us,
                'false' as snapshot,
                " ~ cdc._literal(table.database or table.schema) ~ " as db,
                " ~ cdc._literal(table.schema) ~ " as `schema`,
                " ~ cdc._literal(table.alias) ~ " as `table`,
                _commit_version as commit_version,
                " ~ position ~ " as ord
            ) as source,
            case _row_kind when '+I' then 'c' when '+U' then 'u' when '-D' then 'd' end as op,
            unix_millis(_commit_timestamp) as ts_ms
        )", "UTC") }} as value,
        _commit_version,
        _commit_timestamp,
        {{ position }} as _position
    from paired_images
    where _row_kind <> '-U'
)
{%- if tombstones %},

messages as (
    select
        *,
        explode(if(_position = 0, array(false, true), array(false))) as _cdc_is_tombstone
    from events
)

select
    key,
    if(_cdc_is_tombstone, null, value) as value,
    _commit_version,
    _commit_timestamp,
    if(_cdc_is_tombstone, 1, _position) as _position
from messages
{%- else %}

select
    key,
    value,
    _commit_version,
    _commit_timestamp,
    _position
from events
{%- endif %}
{%- endmacro %}


{#- Everything that is wrong with a model that writes changes as events. -#}
{% macro _refuse_debezium_json(reader, changelog, node, tombstones) -%}
    {%- set problems = [] -%}
    {%- set name = node.name if node else changelog | string -%}
    {%- set remedy = " Write `cdc.debezium_json(ref(..))` with a model whose body is `cdc.changelog`." -%}
    {%- if node is none -%}
        {%- do problems.append("writes the changes in " ~ name ~ ", which no model of this project builds." ~ remedy) -%}
    {%- elif cdc._kind_of(node) != "changelog" or node.depends_on.nodes | length != 1 -%}
        {%- do problems.append("writes the changes in " ~ name ~ ", which is not a changelog of a table." ~ remedy) -%}
    {%- elif node.config.materialized not in ["incremental", "table"] -%}
        {%- do problems.append("writes the changes in " ~ name ~ ", which is materialized as " ~ node.config.materialized
            ~ ". Make it an incremental model: the events of a commit are complete in a table only.") -%}
    {%- endif -%}
    {%- if tombstones is not boolean -%}
        {%- do problems.append("has `tombstones=" ~ tombstones ~ "`. Write `true` or `false`.") -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ reader.name ~ " " ~ (problems | join("\n  It also "))) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    The columns of an event's images. JSON writes small decimals with an exponent, and some readers take such a number for a double,
    which rounds it: a variant is written digit by digit.
-#}
{% macro _exported_columns(table) -%}
    {%- set d = cdc._upstream_declaration(table) -%}
    {%- set small = [] -%}
    {%- for column in (d.columns if d and cdc._kind_of(table) in ["history", "final"] else []) -%}
        {%- if (cdc._decimal_digits(cdc._element_type(column.type) or column.type) or [0, 0])[1] > 6 -%}
            {%- do small.append(column.name) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set columns = ["* except (" ~ cdc._column_list(["_row_kind", "_commit_version", "_commit_timestamp"] + small) ~ ")"] -%}
    {%- for name in small -%}
        {%- do columns.append("cast(" ~ cdc._quoted(name) ~ " as variant) as " ~ cdc._quoted(name)) -%}
    {%- endfor -%}
    {{ return(columns | join(", ")) }}
{%- endmacro %}
