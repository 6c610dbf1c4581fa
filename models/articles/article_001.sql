{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id']) }}
{{ cdc.current(ref('article_001_history')) }}
