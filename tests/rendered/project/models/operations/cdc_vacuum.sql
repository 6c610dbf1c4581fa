{{ config(meta={'tables': ['history_flagged', 'history_flagged_tombstones']}) }}
{{ operation('cdc_vacuum', ref('history_flagged'), {'retain_hours': 200}) }}
