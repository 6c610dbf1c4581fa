{{ cdc.audit(ref('orders_history'), ref('orders')) }}
union all
{{ cdc.audit(ref('customers_history'), ref('customers')) }}
