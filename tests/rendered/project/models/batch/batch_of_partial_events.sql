{{ batch_of_history(ref('history_debezium')) }}
