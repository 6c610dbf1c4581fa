{{ config(meta={'late': true, 'tables': ['history_debezium_tombstones']}) }}
{{ batch_of_history(ref('history_debezium')) }}
