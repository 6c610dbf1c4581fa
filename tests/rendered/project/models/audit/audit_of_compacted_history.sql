{{ config(meta={'tables': ['history_wal2json_v2', 'history_wal2json_v2_tombstones']}) }}
{{ cdc.audit(ref('history_wal2json_v2'), ref('current_of_followed_rows')) }}
