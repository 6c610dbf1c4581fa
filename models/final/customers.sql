{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['customer_id']) }}
{{ cdc.current(ref('customers_history')) }}
