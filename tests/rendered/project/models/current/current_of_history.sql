{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['order_id', 'line']) }}
{{ cdc.current(ref('history_flagged')) }}
