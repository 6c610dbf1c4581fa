{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['customer_id', 'kind']) }}
{{ cdc.current(ref('addresses_history')) }}
