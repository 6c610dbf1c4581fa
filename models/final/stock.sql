{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['sku', 'warehouse']) }}
{{ cdc.current(ref('stock_history')) }}
