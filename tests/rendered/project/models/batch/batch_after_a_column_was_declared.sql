{{ config(meta={'late': true}) }}
{{ batch_of_history(ref('history_debezium'), traits={'recognizes': true, 'added': ['balance']}) }}
