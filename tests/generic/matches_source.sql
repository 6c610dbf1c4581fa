{#-
    A table holds exactly the rows of another one, column by column: all columns that the other one has. With a unique_key counts
    and checksums of buckets are compared first, and then the rows of the buckets that differ. Without one, whole rows are
    compared, and counted.
#}
{% test matches_source(model, compare_to, unique_key=none) %}

{%- set keys = cdc._as_list(unique_key) %}
{%- set columns = cdc._column_names(compare_to) if execute else ["_"] %}
{%- if not columns and flags.WHICH not in ["compile", "generate", "list", "parse"] %}
    {%- do exceptions.raise_compiler_error(
        "cdc: matches_source of " ~ model ~ ": " ~ compare_to ~ ", which it is compared with, does not exist. Build it first, or "
        ~ "select it too."
    ) -%}
{%- endif %}
{%- set list = cdc._column_list(columns) %}

{%- if keys %}

{%- set where = "where " ~ cdc._bucket_of(keys) ~ " in (select _bucket from differing_buckets)" %}

with differing_buckets as (
    {{ cdc._differing_buckets(model, compare_to, keys, columns) | indent(4) }}
),

expected_rows as (
    select
        {{ list }},
        true as _is_there
    from {{ compare_to }}
    {{ where }}
),

actual_rows as (
    select
        {{ list }},
        true as _is_there
    from {{ model }}
    {{ where }}
)

select
    {%- for key in keys %}
    coalesce(expected_rows.{{ cdc._quoted(key) }}, actual_rows.{{ cdc._quoted(key) }}) as {{ cdc._quoted(key) }},
    {%- endfor %}
    case
        when actual_rows._is_there is null then 'missing'
        when expected_rows._is_there is null then 'not in the source'
        else 'different'
    end as difference,
    array_join(array_compact(array(
        {%- for column in columns %}
        if(expected_rows.{{ cdc._quoted(column) }} <=> actual_rows.{{ cdc._quoted(column) }}, null, {{ cdc._literal(column) }})
        {{- "," if not loop.last }}
        {%- endfor %}
    )), ', ') as different_columns
from expected_rows
full outer join actual_rows on {{ cdc._same(keys, "expected_rows", "actual_rows") }}
where
    not (
        struct(expected_rows._is_there, {{ cdc._column_list(columns, "expected_rows") }})
        <=> struct(actual_rows._is_there, {{ cdc._column_list(columns, "actual_rows") }})
    )

{%- else %}

with counted_rows as (
    select
        {{ list }},
        1 as _rows
    from {{ compare_to }}
    union all
    select
        {{ list }},
        -1 as _rows
    from {{ model }}
)

select
    {{ list }},
    sum(_rows) as missing_rows
from counted_rows
group by {{ list }}
having sum(_rows) <> 0

{%- endif %}

{% endtest %}
