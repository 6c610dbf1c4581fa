{{ batch_without_history(ref('current_without_history_partitioned'), has_truncates=true) }}
