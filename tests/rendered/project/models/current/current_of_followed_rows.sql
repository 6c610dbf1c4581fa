{{ config(materialized='view') }}
{{ cdc.current(ref('history_wal2json_v2')) }}
