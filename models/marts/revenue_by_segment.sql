with orders as (
    select * from {{ ref('orders') }}
),

order_versions as (
    select
        order_id,
        customer_id,
        dbt_valid_from,
        _seq,
        lag(_seq_end) over (partition by order_id order by _seq) as previous_end
    from {{ ref('orders_history') }}
),

-- How each order came in, for the last time where it was deleted and entered again. Today's row may have another customer, or
-- none because the customer was deleted.
placed_orders as (
    select
        order_id,
        max_by(customer_id, _seq) as customer_id,
        max_by(dbt_valid_from, _seq) as ordered_at
    from order_versions
    where not (_seq <=> previous_end)
    group by order_id
),

customer_versions as (
    select * from {{ ref('customer_segments') }}
),

customers_today as (
    select
        customer_id,
        max_by(segment, _seq) as segment
    from customer_versions
    where dbt_valid_to is null
    group by customer_id
),

-- A change at the very moment of the order counts: a version begins with its event.
segments_then as (
    select
        placed_orders.order_id,
        max_by(customer_versions.segment, customer_versions._seq) as segment
    from placed_orders
    inner join customer_versions
        on
            placed_orders.customer_id = customer_versions.customer_id
            and placed_orders.ordered_at >= customer_versions.dbt_valid_from
            and (customer_versions.dbt_valid_to is null or placed_orders.ordered_at < customer_versions.dbt_valid_to)
    group by placed_orders.order_id
),

answers as (
    select
        coalesce(segments_then.segment, 'no customer') as segment,
        orders.total as revenue,
        null as revenue_by_todays_segment
    from orders
    left join segments_then on orders.order_id = segments_then.order_id
    union all
    select
        coalesce(customers_today.segment, 'no customer') as segment,
        null as revenue,
        orders.total as revenue_by_todays_segment
    from orders
    left join customers_today on orders.customer_id = customers_today.customer_id
)

select
    segment,
    coalesce(sum(revenue), 0) as revenue,
    coalesce(sum(revenue_by_todays_segment), 0) as revenue_by_todays_segment
from answers
group by segment
