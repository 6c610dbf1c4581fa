{{ config(materialized='incremental', incremental_strategy='merge') }}
{{ cdc.changelog(ref('current_of_history')) }}
