{{ batch_of_current_by_key(ref('current_of_followed_rows'), ref('history_wal2json_v2')) }}
