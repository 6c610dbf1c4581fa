{{ config(strategy='cdc.scd2', unique_key=['order_id', 'line']) }}
{{ looked_for_keys(model, ref('events_flagged')) }}
