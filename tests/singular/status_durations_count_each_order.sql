{{ config(tags='final') }}

-- Each order that exists is in one status, and in no other.
with visits as (
    select sum(still_open) as still_open
    from {{ ref('status_durations') }}
),

today as (
    select count(*) as orders
    from {{ ref('orders') }}
)

select
    visits.still_open,
    today.orders
from visits
cross join today
where not (visits.still_open <=> today.orders)
