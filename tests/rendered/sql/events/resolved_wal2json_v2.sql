select * from app.events_wal2json_v2
