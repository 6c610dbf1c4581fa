{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['cart_id']) }}
{{ cdc.current(ref('carts_history')) }}
