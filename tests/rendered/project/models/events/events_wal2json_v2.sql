{{ cdc.events(source('raw', 'wal2json_v2')) }}
