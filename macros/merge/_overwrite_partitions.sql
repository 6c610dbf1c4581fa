{#-
    For `incremental_strategy: insert_overwrite`: all rows, as they have to be, of the partitions that a run's changes touch, in
    one commit. The other partitions are left alone; one that has no row any more is gone.
      source   the changes, as a subquery with the columns of the table, `_current_op` and `_is_known`
-#}
{% macro _overwrite_partitions(spec, node, source, batch) -%}
    {{ return(adapter.dispatch("overwrite_partitions", "cdc")(spec, node, source, batch)) }}
{%- endmacro %}


{% macro default__overwrite_partitions(spec, node, source, batch) -%}
    {%- do exceptions.raise_compiler_error(
        "cdc: " ~ node.name ~ " has `incremental_strategy: insert_overwrite`, which only the adapter `type: sparkcdc`"
        ~ " offers. Use `merge`."
    ) -%}
{%- endmacro %}


{% macro sparkcdc__overwrite_partitions(spec, node, source, batch) -%}
    {%- set parts = cdc._as_list(node.config.get("partition_by")) -%}
    {%- set columns = cdc._column_list(batch.names) -%}
    {%- set touched_sql -%}
        select {{ cdc._column_list(parts) }} from {{ source }} as changes where _current_op = 'U'
        union
        select {{ cdc._column_list(parts, "known") }}
        from {{ spec.relation }} as known
        left semi join {{ source }} as changes on {{ cdc._same(spec.key_columns, "known", "changes") }}
    {%- endset -%}
    {%- set touched = cdc._step(spec, "partitions", touched_sql, true) -%}
    {%- set rows -%}
        select {{ cdc._column_list(batch.names, "known") }}
        from {{ spec.relation }} as known
        left semi join {{ touched.relation }} as touched on {{ cdc._same(parts, "known", "touched") }}
        left anti join {{ source }} as changes on {{ cdc._same(spec.key_columns, "known", "changes") }}
        union all
        select {{ columns }} from {{ source }} as changes where _current_op = 'U'
    {%- endset -%}
    {{ return(adapter.write_changes(
        spec.relation | string,
        "insert into " ~ spec.relation ~ " replace where " ~ adapter.partition_condition(touched) ~ " select " ~ columns
            ~ " from " ~ cdc._step(spec, "overwritten", rows, false).relation,
        batch.version, cdc._checkpoint_text(spec.relation, dict(batch.position, base=batch.version)), false, cdc._maintenance()
    )) }}
{%- endmacro %}
