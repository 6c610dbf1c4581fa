{#-
    For `incremental_strategy: insert_overwrite`: all rows, as they have to be, of the partitions that a run's changes touch. dbt writes them over
    these partitions and leaves the others alone. What it does not overwrite is a partition that has no row any more: its rows are
    deleted before, in a commit of their own.
      changes    SELECT of rows with `_op`, U or D, as the merge takes them
      position   up to where they bring the table: its stamp
-#}
{% macro _overwritten_rows(changes, position) -%}
    {%- set keys = cdc._as_list(config.get("unique_key")) -%}
    {%- set parts = cdc._as_list(config.get("partition_by")) -%}
    {%- set steps = cdc._steps(cdc._table_detail(this).location) -%}
    {%- set names = adapter.get_columns_in_relation(this) | map(attribute="name") | list -%}
    {%- set columns = cdc._column_list(names) -%}
    {%- do cdc._write_step(steps.effective, cdc._effective_changes(changes, keys, parts, names)) -%}
    {%- set touched -%}
        select {{ cdc._column_list(parts) }} from {{ steps.effective.view }} where _op = 'U'
        union
        select inline(array(_former)) from {{ steps.effective.view }} where _former is not null
    {%- endset -%}
    {%- set kept -%}
        select {{ cdc._column_list(names, "known") }}
        from {{ this }} as known
        left semi join ({{ touched }}) as touched on {{ cdc._same(parts, "known", "touched") }}
        left anti join {{ steps.effective.view }} as changes on {{ cdc._same(keys, "known", "changes") }}
        union all
        select {{ columns }} from {{ steps.effective.view }} where _op = 'U'
    {%- endset -%}
    {%- do cdc._write_step(steps.overwritten, kept) -%}
    {%- set emptied -%}
        select {{ cdc._column_list(parts) }} from ({{ touched }})
        except
        select {{ cdc._column_list(parts) }} from {{ steps.overwritten.view }}
    {%- endset -%}
    {%- if run_query("select count(*) from (" ~ emptied ~ ")").rows[0][0] -%}
        {%- do run_query(
            "merge into " ~ this ~ " as known using (" ~ emptied ~ ") as emptied on " ~ cdc._same(parts, "known", "emptied")
            ~ " when matched then delete"
        ) -%}
    {%- endif -%}
    {%- do cdc._write_stamp(this, position) -%}
    {{ return("select " ~ columns ~ " from " ~ steps.overwritten.view) }}
{%- endmacro %}


{#- The changes that change something, each with the partition that its row was in. -#}
{% macro _effective_changes(changes, keys, parts, names) -%}
    {%- set dest = "struct(" ~ cdc._column_list(names, "known") ~ ")" -%}
    {%- set source = "struct(" ~ cdc._column_list(names, "changes") ~ ")" -%}
select
    {{ cdc._column_list(names, "changes") }},
    changes._op,
    if(known._is_known, struct({{ cdc._column_list(parts, "known") }}), null) as _former
from ({{ changes }}) as changes
left join (select *, true as _is_known from {{ this }}) as known on {{ cdc._same(keys, "known", "changes") }}
where
    (changes._op = 'U' and (known._is_known is null or not {{ source }} <=> {{ dest }}))
    or (changes._op = 'D' and known._is_known and known._cdc_seq <= changes._cdc_seq)
{%- endmacro %}
