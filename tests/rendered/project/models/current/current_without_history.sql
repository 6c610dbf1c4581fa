{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['sku']) }}
{{ cdc.current(ref('events_flagged_images')) }}
