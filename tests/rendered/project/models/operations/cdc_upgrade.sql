{{ config(meta={'tables': ['history_flagged'], 'old': true}) }}
{{ operation('cdc_upgrade', ref('history_flagged'), {}) }}
