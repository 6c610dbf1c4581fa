{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['order_id', 'line_no']) }}
{{ cdc.current(ref('order_lines_history')) }}
