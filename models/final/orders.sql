{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['order_id']) }}
{{ cdc.current(ref('orders_history')) }}
