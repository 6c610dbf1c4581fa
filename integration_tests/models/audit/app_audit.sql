select * from ({{ cdc.audit(ref('orders_history'), ref('orders')) }})
union all
select * from ({{ cdc.audit(ref('customers_history'), ref('customers')) }})
