{#-
    `batch_order`, for a source that promises numbered batches: refuses a run in which a batch is missing or comes again. Returns
    the last number; the table's checkpoint keeps it.
-#}
{% macro _refuse_batches(d, read_from, read_to, last, table) -%}
    {%- set asked -%}
with new_batches as (
    select distinct cast({{ d.batch_order }} as bigint) as _number
    {{ cdc._from_new_rows(d, read_from, read_to) }}
)

select
    min(_number),
    max(_number),
    count(*),
    count_if(_number is null)
from new_batches
    {%- endset -%}
    {%- set found = run_query(asked).rows[0] -%}
    {%- set problem = [] -%}
    {%- if found[2] == 0 -%}
        {{ return(last) }}
    {%- elif found[3] -%}
        {%- do problem.append("holds rows without a batch number") -%}
    {%- elif last is not none and found[0] <= last -%}
        {%- do problem.append("brings batch " ~ found[0] ~ " again, after batch " ~ last) -%}
    {%- elif found[1] - found[0] + 1 != found[2] or (last is not none and found[0] != last + 1) -%}
        {%- do problem.append("lacks a batch between " ~ (last if last is not none else found[0]) ~ " and " ~ found[1]) -%}
    {%- endif -%}
    {%- if problem -%}
        {%- do exceptions.raise_compiler_error(
            "cdc: " ~ d.table ~ " " ~ problem[0] ~ ", and declares `batch_order`. Nothing was written."
            ~ " Let the missing batch arrive, or take the repeated one out of " ~ d.relation ~ "; without `batch_order` any"
            ~ " order and any repetition gives the same tables."
            ~ (" If rows of the batch were only deleted and restored there, read them again: dbt run-operation cdc_replay --args"
            ~ " '{table: " ~ table ~ ", since: " ~ (read_from + 1) ~ "}'" if problem[0].startswith("brings") and read_from is not none else "")
        ) -%}
    {%- endif -%}
    {{ return(found[1]) }}
{%- endmacro %}
