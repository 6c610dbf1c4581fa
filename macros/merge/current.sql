{#-
    The body of a final table: the current row of each key that is not deleted of a history. Of a staging model where the source
    is declared with `history: false`.

    It is one plain SELECT of all rows that the table is to have. What a run changes of them is computed, and written, by the
    hooks of the materialization.
-#}
{% macro current(history) -%}
    {{ return(adapter.dispatch("current", "cdc")(history)) }}
{%- endmacro %}


{% macro default__current(history) -%}
    {%- if not execute -%}
        {{ return("select * from " ~ history) }}
    {%- endif -%}
    {%- set node = cdc._rendered_node(model) -%}
    {%- do cdc._refuse_current(node, history) -%}
    {%- if cdc._node_of(history).resource_type != "snapshot" -%}
        {{ return(cdc._first_lives(cdc._lives_spec_of_declaration(node, history))) }}
    {%- endif -%}
    {{ return(cdc._current_rows(node, history)) }}
{%- endmacro %}


{#- Raises what is wrong with a final model, before anything is written. -#}
{% macro _refuse_current(node, history) -%}
    {%- set above = cdc._node_of(history) -%}
    {%- set problems = cdc._final_problems(node, above) -%}
    {%- set deferred = cdc._deferred_node(history) if above is none else none -%}
    {%- if deferred -%}
        {%- do problems.append(node.name ~ ": `--defer` makes it read " ~ history ~ ". A final table follows the "
            ~ deferred.resource_type ~ " that is built with it, in its own schema. Build that too: `--select +" ~ node.name
            ~ "`. Or clone it from there first: `dbt clone --select " ~ deferred.name ~ "`, with the same --state.") -%}
    {%- elif above is none -%}
        {%- do problems.append(node.name ~ ": it reads " ~ history ~ ", which no model or snapshot of this project builds. Write"
            ~ " `cdc.current(ref(..))`.") -%}
    {%- endif -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(cdc._problem_report(problems)) -%}
    {%- endif -%}
{%- endmacro %}


{#-
    Everything that is wrong with a final model, each with its remedy.
      above   the history or staging model that it reads
-#}
{% macro _final_problems(node, above) -%}
    {%- set d = cdc._upstream_declaration(above) if above else none -%}
    {%- set strategy = node.config.get("incremental_strategy") or "append" -%}
    {%- set keys = cdc._as_list(node.config.get("unique_key")) -%}
    {%- set at = node.name ~ ": " -%}
    {%- set problems = cdc._embedded_problems(node) + cdc._format_problems(node) -%}
    {%- if node.config.materialized == "incremental" -%}
        {%- if strategy not in ["merge", "insert_overwrite"] -%}
            {%- do problems.append(at ~ "it has `incremental_strategy: " ~ strategy
                ~ "`, which would add a row for every change. Use `merge`, or `insert_overwrite` with `partition_by`.") -%}
        {%- elif strategy == "merge" and cdc._is_parquet(node) -%}
            {%- do problems.append(at ~ "it has `file_format: parquet`, and nothing can be merged into plain Parquet files. Use"
                ~ " `incremental_strategy: insert_overwrite`, or `file_format: delta`.") -%}
        {%- elif strategy == "insert_overwrite" and not cdc._is_parquet(node) and not cdc._as_list(node.config.get("partition_by")) -%}
            {%- do problems.append(at ~ "it has `incremental_strategy: insert_overwrite` and no `partition_by`, which would write"
                ~ " the whole table in every run. Name its partition columns, or use `merge`.") -%}
        {%- endif -%}
        {%- if node.config.get("incremental_predicates") -%}
            {%- do problems.append(at ~ "it has `incremental_predicates`. A known row that they leave out would be written"
                ~ " a second time. Remove them: a batch is compared with the rows of its keys only.") -%}
        {%- endif -%}
        {%- if not keys -%}
            {%- do problems.append(at ~ "it has no `unique_key`. Name the columns of the key.") -%}
        {%- elif d and keys | map("lower") | sort != d.key_columns | map("lower") | sort -%}
            {%- do problems.append(at ~ "its unique_key is " ~ (keys | join(", ")) ~ ", and the key of " ~ d.table ~ " is "
                ~ (d.key_columns | join(", ")) ~ ". Rows would replace each other, or stay when they are gone."
                ~ " Make both the same.") -%}
        {%- endif -%}
    {%- endif -%}
    {%- if cdc._text_around(node.raw_code) -%}
        {%- do problems.append(at ~ "it has SQL around `cdc.current`, which would apply to its first build only. Put it into a"
            ~ " model that reads this one.") -%}
    {%- endif -%}
    {%- if above and above.resource_type != "snapshot" -%}
        {%- if d is none or d.history -%}
            {%- do problems.append(at ~ "it reads " ~ above.name ~ ", which is not a history. Make a snapshot of it with"
                ~ " `strategy: cdc.scd2` and read that" ~ (", or declare `history: false` on " ~ d.table if d) ~ ".") -%}
        {%- endif -%}
        {%- if cdc._is_parquet(node) -%}
            {%- do problems.append(at ~ "it has `file_format: parquet`, and without a history the table keeps the state of its rows"
                ~ " itself, which only Delta and Iceberg commit as a whole. Use `file_format: delta`, or declare a history.") -%}
        {%- endif -%}
        {%- do problems.extend(cdc._source_problems(node, above) + cdc._hook_problems(node)) -%}
    {%- endif -%}
    {{ return(problems) }}
{%- endmacro %}


{#- What stands outside of Jinja and comments in a model's file. A hook in its config may hold Jinja of its own. -#}
{% macro _text_around(raw_code) -%}
    {%- set code = modules.re.sub("(?s)\\{#.*?#\\}|--[^\n]*", "", raw_code) -%}
    {%- set code = modules.re.sub("(?s)\"[^\"]*\"|'[^']*'", "", code) -%}
    {{ return(modules.re.sub("(?s)\\{\\{.*?\\}\\}|\\{%.*?%\\}", "", code) | trim) }}
{%- endmacro %}


{% macro _current_columns(node, hidden=[]) -%}
    * except (
        _seq, _seq_end, _cdc_created_at, _cdc_seq, _events, dbt_scd_id, dbt_updated_at, dbt_valid_from, dbt_valid_to, _event_id,
        _cdc_is_latest{{ ", " ~ (hidden | join(", ")) if hidden }}
    ),
    _cdc_created_at,
    dbt_updated_at as _cdc_updated_at,
    _cdc_seq
    {{- cdc._partition_columns(node) }}
{%- endmacro %}


{#- Columns that the final table is partitioned by, computed from its others. -#}
{% macro _partition_columns(node) -%}
    {%- set declaration = cdc._upstream_declaration(node) -%}
    {%- for name, expression in (declaration.partition_by if declaration else {}).items() -%}
        {{ ", " ~ expression ~ " as " ~ cdc._quoted(name) }}
    {%- endfor -%}
{%- endmacro %}


{#- Every open version. -#}
{% macro _current_rows(node, history) -%}
select
    {{ cdc._current_columns(node) }}
from {{ history }}
where
    _cdc_is_latest
    and _seq_end is null
{%- endmacro %}
