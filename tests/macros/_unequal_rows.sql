{#- Rows that only one of two queries gives. -#}
{% macro _unequal_rows(actual, expected) -%}
with actual_rows as (
    {{ actual }}
),

expected_rows as (
    {{ expected }}
),

missing_rows as (
    select * from expected_rows
    except all
    select * from actual_rows
),

surplus_rows as (
    select * from actual_rows
    except all
    select * from expected_rows
)

select
    'missing' as difference,
    *
from missing_rows
union all
select
    'surplus' as difference,
    *
from surplus_rows
{%- endmacro %}
