{{ config(meta={'tables': ['history_flagged_tombstones']}) }}
{{ operation('cdc_replay', ref('history_flagged'), {}) }}
