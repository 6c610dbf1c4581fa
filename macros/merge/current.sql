{#-
    The body of a final table: the current row of each living key of a history. Of a staging model where the source is declared
    with `history: false`.
-#}
{% macro current(history) -%}
    {{ return(adapter.dispatch("current", "cdc")(history)) }}
{%- endmacro %}


{% macro default__current(history) -%}
    {%- if execute -%}{%- do cdc._refuse_strategy() -%}{%- endif -%}
    {%- if execute and cdc._is_staging(history) -%}
        {{ return(cdc._current_without_history(history)) }}
    {%- endif -%}
    {%- set runs = execute and flags.WHICH in ["run", "build", "retry"] -%}
    {%- set updates = runs and is_incremental() -%}
    {%- set seen = {"read": none, "now": none, "id": none, "columns": none} -%}
    {%- set columns = {} -%}
    {%- set sight = cdc._sight(model, [cdc._last_commit(history)]) if runs else none -%}
    {%- if updates and cdc._is_stamped(this, sight) -%}
        {{ return(cdc._nothing_new_rows()) }}
    {%- elif runs -%}
        {%- do seen.update({
            "now": cdc._noted(history).get("version") or cdc._table_version(history),
            "id": cdc._table_properties(history).get("cdc.build"),
        }) -%}
        {%- do columns.update(cdc._column_types(history)) -%}
        {%- do seen.update({"columns": local_md5(columns | string)}) -%}
    {%- endif -%}
    {%- if updates -%}
        {%- set stamp = cdc._read_stamp(this) -%}
        {%- do seen.update({"at": stamp.at}) -%}
        {#- Delta has no changes to tell between two versions of a history that differ in their columns. -#}
        {%- if stamp.get("columns") != seen.columns -%}
            {%- for hidden in cdc._history_columns({"key_columns": [], "value_columns": []}) -%}
                {%- do columns.pop(hidden) -%}
            {%- endfor -%}
            {%- set declaration = cdc._upstream_declaration(model) -%}
            {%- do cdc._evolve(this, columns, renames=declaration.renames if declaration else {}) -%}
            {%- do seen.update({"at": cdc._table_version(this)}) -%}
        {%- elif stamp.get("history") == seen.id and stamp.version <= seen.now -%}
            {%- do seen.update({"read": stamp.version}) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set position = {"history": seen.id, "version": seen.now, "columns": seen.columns, "sight": sight} -%}
    {%- if runs and not updates -%}
        {%- do cdc._write_stamp(this, position) -%}
    {%- endif -%}
    {%- if not updates -%}
        {{ return(cdc._current_rows(history)) }}
    {%- elif seen.read == seen.now -%}
        {{ return(cdc._nothing_new_rows()) }}
    {#- Where rows are followed, one can leave a key that another has: what changed does not tell who has it now. -#}
    {%- elif seen.read is none or "_entity_id" in columns -%}
        {%- set rows = cdc._compared_rows(history) -%}
        {{ return(cdc._overwritten_rows(rows, position) if cdc._overwrites() else cdc._merge_mark(seen.at, position) ~ rows) }}
    {%- endif -%}
    {#- As a step of its own, for the merge reads it twice, and knows then which part of the table it can leave out. -#}
    {%- set t = {"few": cdc._noted(history).get("few", false)} -%}
    {%- do cdc._plan_rows(t) -%}
    {%- set detail = cdc._table_detail(this) -%}
    {%- do t.update({"large": detail.large}) -%}
    {%- set step = cdc._steps(detail.location).changes -%}
    {%- do cdc._write_step(step, cdc._changed_rows(history, seen.read, seen.now)) -%}
    {%- if cdc._overwrites() -%}
        {%- do cdc._plan_as_ever(t) -%}
        {{ return(cdc._overwritten_rows("select * from " ~ step.view, position)) }}
    {%- endif -%}
    {%- set keyed = {"key_columns": cdc._as_list(config.get("unique_key")), "types": columns} -%}
    {%- set range = run_query("select " ~ cdc._key_range(keyed, step) ~ " from " ~ step.view).rows[0][0] -%}
    {%- set bounds = cdc._key_bounds(keyed, range) -%}
    {%- do cdc._plan_rows(t, scans_table=true) -%}
    {{ return(cdc._merge_mark(seen.at, position, bounds, t.planned_small) ~ "select * from " ~ step.view) }}
{%- endmacro %}


{#- Whether the partitions that changes touch are written anew, instead of a merge. -#}
{% macro _overwrites() -%}
    {{ return(config.get("incremental_strategy") == "insert_overwrite") }}
{%- endmacro %}


{#- dbt's default strategy on Spark is `append`, which would add a row for every change. -#}
{% macro _refuse_strategy() -%}
    {%- set strategy = config.get("incremental_strategy") or "append" -%}
    {%- set problem = [] -%}
    {%- if model.config.materialized != "incremental" -%}
    {%- elif strategy not in ["merge", "insert_overwrite"] -%}
        {%- do problem.append("has `incremental_strategy: " ~ strategy ~ "`, which would add a row for every change. Use `merge`, or"
            ~ " `insert_overwrite` with `partition_by`.") -%}
    {%- elif not cdc._as_list(config.get("unique_key")) -%}
        {%- do problem.append("has no `unique_key`. Name the columns of the key.") -%}
    {%- elif strategy == "insert_overwrite" and not cdc._as_list(config.get("partition_by")) -%}
        {%- do problem.append("has `incremental_strategy: insert_overwrite` and no `partition_by`, which would write the whole"
            ~ " table in every run. Name its partition columns, or use `merge`.") -%}
    {%- endif -%}
    {%- if problem -%}
        {%- do exceptions.raise_compiler_error("cdc: " ~ model.name ~ " " ~ problem[0]) -%}
    {%- endif -%}
{%- endmacro %}


{#- Whether a final table reads events and not a history, as it may where the source says so. -#}
{% macro _is_staging(relation) -%}
    {%- set above = cdc._node_of(relation) -%}
    {%- if above is none or above.resource_type == "snapshot" -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set declaration = cdc._upstream_declaration(above) -%}
    {%- if declaration is none -%}
        {{ return(false) }}
    {%- elif declaration.history -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report([
            model.name ~ ": `cdc.current` reads " ~ above.name ~ ", which is no history. Make a snapshot of it with"
            ~ " `strategy: cdc.scd2` and read that, or declare `history: false` on " ~ declaration.table ~ "."
        ])) -%}
    {%- endif -%}
    {{ return(true) }}
{%- endmacro %}


{% macro _current_columns() -%}
    * except (_seq, _seq_end, _cdc_created_at, _cdc_seq, _events, dbt_scd_id, dbt_updated_at, dbt_valid_from, dbt_valid_to),
    _cdc_created_at,
    dbt_updated_at as _cdc_updated_at,
    _cdc_seq
    {{- cdc._partition_columns() }}
{%- endmacro %}


{#- Columns that the final table is partitioned by, computed from its others. -#}
{% macro _partition_columns() -%}
    {%- set declaration = cdc._upstream_declaration(model) -%}
    {%- for name, expression in (declaration.partition_by if declaration else {}).items() -%}
        {{ ", " ~ expression ~ " as " ~ cdc._quoted(name) }}
    {%- endfor -%}
{%- endmacro %}


{#- Every open version. -#}
{% macro _current_rows(history) -%}
select
    {{ cdc._current_columns() }}
from {{ history }}
where _seq_end is null
{%- endmacro %}


{#- Every open version and every row that has none: for a table whose stamp is lost or whose history was built anew. -#}
{% macro _compared_rows(history) -%}
    {%- set keys = cdc._as_list(config.get("unique_key")) -%}
    {%- set columns = cdc._column_list(adapter.get_columns_in_relation(this) | map(attribute="name")) -%}
with open_versions as (
    {{ cdc._current_rows(history) | indent(4) }}
)

select
    {{ columns }},
    'U' as _op
from open_versions
union all
select
    {{ columns }},
    'D' as _op
from {{ this }} as known
where
    not exists (
        select 1
        from open_versions
        where {{ cdc._same(keys, "open_versions", "known") }}
    )
{%- endmacro %}


{#- Tells the merge, which dbt runs in any case, that it need not be one. -#}
{% macro _nothing_new_mark() -%}
-- cdc: nothing new
{%- endmacro %}


{% macro _nothing_new_rows() -%}
    {{ return(cdc._nothing_new_mark() ~ "\nselect * from " ~ this ~ "\nwhere false") }}
{%- endmacro %}


{#-
    Tells the merge for which version of the table the rows were computed, up to where they bring it, where their keys are, and whether
    the session plans for few rows. The compiled query is all that both see.
-#}
{% macro _merge_mark(version, position, bounds=none, planned_small=false) -%}
    {{ return("-- cdc: " ~ tojson({
        "version": version, "position": position, "bounds": bounds, "planned_small": planned_small,
    }) ~ "\n") }}
{%- endmacro %}


{#-
    The keys whose versions changed since a version of the history: their open version, or that it ended. A key whose
    closed versions changed while its open one did not is left alone.
-#}
{% macro _changed_rows(history, read, now) -%}
    {%- set keys = cdc._column_list(cdc._as_list(config.get("unique_key"))) -%}
with changes as (
    select
        *,
        row_number() over (partition by dbt_scd_id order by _commit_version desc) as _newest
    from table_changes({{ cdc._literal(history | string | replace("`", "")) }}, {{ read + 1 }}, {{ now }})
    where _change_type <> 'update_preimage'
),

changed_versions as (
    select * except (_newest, _change_type, _commit_version, _commit_timestamp)
    from changes
    where _newest = 1 and _change_type <> 'delete'
),

last_versions as (
    select
        *,
        row_number() over (partition by {{ keys }} order by _seq_end is null desc, _seq_end desc) as _latest
    from changed_versions
    where
        _seq_end is null
        or exists(_events, event -> event._op in ('D', 'M', 'T') and event._seq = _seq_end)
)

select
    {{ cdc._current_columns() | replace("* except (", "* except (_latest, ")
        | replace("    _cdc_seq", "    coalesce(_seq_end, _cdc_seq) as _cdc_seq") }},
    if(_seq_end is null, 'U', 'D') as _op
from last_versions
where _latest = 1
{%- endmacro %}
