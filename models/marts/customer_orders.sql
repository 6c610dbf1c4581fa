with customers as (
    select * from {{ ref('customers') }}
),

orders as (
    select * from {{ ref('orders') }}
),

payments as (
    select * from {{ ref('payments') }}
),

order_counts as (
    select
        customer_id,
        count(*) as orders,
        sum(total) as ordered,
        max(placed_at) as last_order_at
    from orders
    group by customer_id
),

paid_sums as (
    select
        orders.customer_id,
        count(*) as payments
    from payments
    inner join orders on payments.order_id = orders.order_id
    group by orders.customer_id
)

select
    customers.customer_id,
    customers.name,
    coalesce(order_counts.orders, 0) as orders,
    order_counts.ordered,
    order_counts.last_order_at,
    coalesce(paid_sums.payments, 0) as payments
from customers
left join order_counts on customers.customer_id = order_counts.customer_id
left join paid_sums on customers.customer_id = paid_sums.customer_id
