{{ config(strategy='cdc.scd2', unique_key=['order_id', 'line']) }}
{{ first_build_of_history(ref('events_flagged')) }}
