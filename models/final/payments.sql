{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['payment_id']) }}
{{ cdc.current(ref('payments_history')) }}
