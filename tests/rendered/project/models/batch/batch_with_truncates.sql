{{ batch_of_history(ref('history_flagged'), truncates=2) }}
