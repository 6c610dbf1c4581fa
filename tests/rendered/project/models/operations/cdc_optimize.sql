{{ config(meta={'tables': ['history_flagged', 'history_flagged_tombstones']}) }}
{{ operation('cdc_optimize', ref('history_flagged'), {}) }}
