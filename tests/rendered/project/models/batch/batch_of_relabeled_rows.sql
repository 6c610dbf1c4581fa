{{ batch_of_history(ref('history_wal2json_v2'), relabeled=3) }}
