{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['_row_id']) }}
{{ cdc.current(ref('events_history')) }}
