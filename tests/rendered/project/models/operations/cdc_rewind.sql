{{ config(meta={'tables': ['history_flagged', 'history_flagged_tombstones', 'current_of_history']}) }}
{{ operation('cdc_rewind', ref('history_flagged'), {'run': 'second'}) }}
