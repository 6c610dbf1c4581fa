{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['scenario', 'id']) }}
{{ cdc.current(ref('article_003_history')) }}
