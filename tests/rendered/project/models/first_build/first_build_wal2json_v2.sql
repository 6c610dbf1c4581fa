{{ config(strategy='cdc.scd2', unique_key=['id']) }}
{{ first_build_of_history(ref('resolved_wal2json_v2')) }}
