{{ config(tags='final') }}

-- The last moment shows the customers that the final table has.
with moments as (
    select
        as_of,
        sum(customers) as customers
    from {{ ref('segments_over_time') }}
    group by as_of
),

last_moment as (
    select max_by(customers, as_of) as customers
    from moments
),

today as (
    select count(*) as customers
    from {{ ref('customers') }}
)

select
    last_moment.customers as customers_at_the_last_moment,
    today.customers as customers_today
from last_moment
cross join today
where not (last_moment.customers <=> today.customers)
