select * from {{ ref('events_wal2json_v2') }}
