{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id']) }}
{{ cdc.current(ref('customers_history')) }}
