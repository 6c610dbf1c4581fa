{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['sku']) }}
{{ large_first_build(model, ref('events_flagged_images'), 12, lives=true) }}
