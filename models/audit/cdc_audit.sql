{{ config(materialized='table') }}

with addresses_audit as (
    {{ cdc.audit(ref('addresses_history'), ref('addresses')) }}
),

carts_audit as (
    {{ cdc.audit(ref('carts_history'), ref('carts')) }}
),

customers_audit as (
    {{ cdc.audit(ref('customers_history'), ref('customers')) }}
),

events_audit as (
    {{ cdc.audit(ref('events_history'), ref('events')) }}
),

order_lines_audit as (
    {{ cdc.audit(ref('order_lines_history'), ref('order_lines')) }}
),

orders_audit as (
    {{ cdc.audit(ref('orders_history'), ref('orders')) }}
),

payments_audit as (
    {{ cdc.audit(ref('payments_history'), ref('payments')) }}
),

products_audit as (
    {{ cdc.audit(ref('products_history'), ref('products')) }}
),

stock_audit as (
    {{ cdc.audit(ref('stock_history'), ref('stock')) }}
)

select * from addresses_audit
union all
select * from carts_audit
union all
select * from customers_audit
union all
select * from events_audit
union all
select * from order_lines_audit
union all
select * from orders_audit
union all
select * from payments_audit
union all
select * from products_audit
union all
select * from stock_audit
