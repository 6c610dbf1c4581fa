{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['sku']) }}
{{ cdc.current(ref('products_history')) }}
