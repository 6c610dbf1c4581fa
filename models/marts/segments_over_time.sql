-- The capture lasts three seconds. Over years the step would be `interval 1 month`.
{% set step = 'interval 250 milliseconds' %}

with customer_versions as (
    select * from {{ ref('customer_segments') }}
),

period as (
    select
        min(dbt_valid_from) as began_at,
        max(greatest(dbt_valid_from, coalesce(dbt_valid_to, dbt_valid_from))) as ended_at
    from customer_versions
),

-- The end of the period is one of the moments, so that the last of them shows the tables as they are.
moments as (
    select explode(array_union(sequence(began_at, ended_at, {{ step }}), array(ended_at))) as as_of
    from period
    where began_at is not null
),

-- A version is valid from the moment it began, and no longer at the moment it ended. Of versions that overlap because a clock
-- ran backwards the last one holds.
states as (
    select
        moments.as_of,
        customer_versions.customer_id,
        max_by(customer_versions.segment, customer_versions._seq) as segment
    from moments
    inner join customer_versions
        on
            moments.as_of >= customer_versions.dbt_valid_from
            and (customer_versions.dbt_valid_to is null or moments.as_of < customer_versions.dbt_valid_to)
    group by moments.as_of, customer_versions.customer_id
)

select
    as_of,
    segment,
    count(*) as customers
from states
group by as_of, segment
