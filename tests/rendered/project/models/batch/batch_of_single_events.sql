{{ batch_of_history(ref('history_flagged'), partial=false, single=true) }}
