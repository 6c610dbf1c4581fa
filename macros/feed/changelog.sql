{#-
    The changes of a final table or a history, row by row, from its change feed: +I, -U, +U, -D as streaming systems name them.
    Added up they give the table. A row that is replaced comes as -U and +U whichever way it was written, and one that stays what
    it is not at all.

    It is one plain SELECT. As the body of an incremental model it is the first build's; what the table has gained since is
    read, and appended, by the hooks of the materialization.
-#}
{% macro changelog(relation, from_version=none, to_version=none) -%}
    {{ return(adapter.dispatch("changelog", "cdc")(relation, from_version, to_version)) }}
{%- endmacro %}


{% macro default__changelog(relation, from_version, to_version) -%}
    {%- if not execute -%}
        {{ return("select 1 as _row_kind") }}
    {%- endif -%}
    {%- set node = cdc._node_of(relation) -%}
    {%- do cdc._refuse_changelog(model, relation, node, from_version, to_version) -%}
    {%- set to_version = -1 if cdc._is_iceberg(cdc._relation_of(node)) and cdc._goes_on(model) else to_version -%}
    {#- A consumer that `--sample` makes stays empty, so that the next build still has all changes to read. -#}
    {%- set is_empty = relation.limit == 0 or (model.config.materialized == "incremental" and cdc._reads_a_part()) -%}
    {{ return(cdc._row_changes(node, from_version or 0, to_version, is_empty)) }}
{%- endmacro %}


{#- Everything that is wrong with a model that asks for changes. -#}
{% macro _refuse_changelog(reader, relation, node, from_version, to_version) -%}
    {%- set problems = [] -%}
    {%- set name = node.name if node else relation | string -%}
    {%- if node is none -%}
        {%- do problems.append("asks for the changes of " ~ name ~ ", which no model or snapshot of this project builds. Write"
            ~ " `cdc.changelog(ref(..))`.") -%}
    {%- elif node.config.materialized in ["view", "ephemeral"] -%}
        {%- do problems.append("asks for the changes of " ~ name ~ ", which is a view and has no change feed."
            ~ " Ask for those of the history that it reads, or make it an incremental table.") -%}
    {%- elif cdc._file_format(node) == "iceberg" and reader.config.materialized == "view" -%}
        {%- do problems.append("asks for the changes of " ~ name ~ ", which has `file_format: iceberg`, and is a view: they"
            ~ " are looked up when a model is built. Materialize it as `incremental` or `table`.") -%}
    {%- elif cdc._is_parquet(node) -%}
        {%- do problems.append("asks for the changes of " ~ name ~ ", which has `file_format: parquet` and no change feed."
            ~ " Ask for those of the history that it reads, or make it a Delta table.") -%}
    {%- elif not cdc._changelog_keys(node) -%}
        {%- do problems.append("asks for the changes of " ~ name ~ ", which has no `unique_key`: without a key an update looks like"
            ~ " a delete and an insert. Name its key columns in its config.") -%}
    {%- endif -%}
    {%- for option, value in {"from_version": from_version, "to_version": to_version}.items()
        if value is not none and (value | string | int(-1) < 0) -%}
        {%- do problems.append("has `" ~ option ~ "=" ~ value ~ "`, which is not a commit version. Write a whole number.") -%}
    {%- endfor -%}
    {%- if reader.config.materialized == "incremental" -%}
        {%- if reader.config.get("incremental_strategy") != "merge" -%}
            {%- do problems.append("has `incremental_strategy: " ~ (reader.config.get("incremental_strategy") or "append")
                ~ "`, with which dbt would write all changes in every run. Use `merge`: only new changes are appended then.") -%}
        {%- endif -%}
        {%- if to_version is not none -%}
            {%- do problems.append("has `to_version`, and an incremental model reads up to the newest version in every run."
                ~ " Remove it, or materialize the model as `table`.") -%}
        {%- endif -%}
        {%- if cdc._text_around(reader.raw_code) -%}
            {%- do problems.append("has SQL around `cdc.changelog`, which would apply to its first build only. Put it into a model"
                ~ " that reads this one.") -%}
        {%- endif -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ reader.name ~ " " ~ (problems | join("\n  It also "))) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    Whether a consumer goes on from its checkpoint, so that nobody runs its body: changes that would have to be looked up for it may
    have expired.
-#}
{% macro _goes_on(reader) -%}
    {%- set target = cdc._relation_of(reader) -%}
    {{ return(reader.config.materialized == "incremental" and not should_full_refresh() and load_relation(target) is not none
        and cdc._read_checkpoint(target).get("version") is not none) }}
{%- endmacro %}


{#- The columns that tell one row of a table from the others. -#}
{% macro _changelog_keys(node) -%}
    {{ return(["dbt_scd_id"] if cdc._kind_of(node) == "history" else cdc._as_list(node.config.get("unique_key"))) }}
{%- endmacro %}


{#-
    The changes of a node's table between two commit versions, both included. A commit can hold any number of images of a row:
    deletion vectors and replaced files give them as deletes and inserts. Equal images before and after cancel out.
-#}
{% macro _row_changes(node, from_version, to_version, empty=false) -%}
    {%- set d = cdc._upstream_declaration(node) -%}
    {%- set kind = cdc._kind_of(node) -%}
    {%- set is_life = kind == "final" and d and not d.history -%}
    {%- set hidden = ["_events", "_event_id", "_cdc_is_latest"] if kind == "history"
        else ["_cdc_deleted_at", "_events", "_event_id"] if is_life else [] -%}
    {%- set row = "partition by _commit_version, " ~ cdc._column_list(cdc._changelog_keys(node)) -%}
with changes as (
    select
        * except ({{ cdc._column_list(hidden + ["_change_type", "_commit_version", "_commit_timestamp"]) }}),
        _commit_version,
        _commit_timestamp,
        _change_type in ('delete', 'update_preimage') as _cdc_is_before
    from {{ cdc._row_images(cdc._relation_of(node), from_version, to_version) }}
    {#- A tombstone is no row: what becomes one is deleted, what was one is inserted. #}
    {%- if empty or is_life %}
    where {{ "false" if empty else "_cdc_deleted_at is null" }}
    {%- endif %}
),

row_images as (
    select
        *,
        {{ cdc._as_json("struct(* except (_commit_version, _commit_timestamp, _cdc_is_before))") }} as _cdc_image
    from changes
),

counted_images as (
    select
        *,
        sum(if(_cdc_is_before, -1, 1)) over ({{ row }}, _cdc_image) as _cdc_gained,
        row_number() over ({{ row }}, _cdc_image, _cdc_is_before order by _commit_timestamp) as _cdc_number
    from row_images
),

effective_changes as (
    select
        *,
        max(_cdc_is_before) over ({{ row }})
        and not min(_cdc_is_before) over ({{ row }}) as _cdc_is_update
    from counted_images
    where _cdc_number <= if(_cdc_is_before, -_cdc_gained, _cdc_gained)
)

select
    * except (_cdc_is_before, _cdc_image, _cdc_gained, _cdc_number, _cdc_is_update),
    case
        when _cdc_is_update then if(_cdc_is_before, '-U', '+U')
        else if(_cdc_is_before, '-D', '+I')
    end as _row_kind
from effective_changes
{%- endmacro %}
