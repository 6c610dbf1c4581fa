{{ config(strategy='cdc.scd2', unique_key=['order_id', 'line']) }}
{{ large_first_build(model, ref('events_flagged'), 12) }}
