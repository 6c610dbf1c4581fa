{{ config(meta={'tables': ['history_debezium'], 'old': true}) }}
{{ operation('cdc_upgrade', ref('history_debezium'), {}) }}
