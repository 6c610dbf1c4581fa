{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id'], partition_by=['month']) }}
{{ cdc.current(ref('events_maxwell')) }}
