{{ config(meta={'tables': ['history_positions']}) }}
{{ operation('cdc_compact', ref('history_positions'), {'keep_versions': 1}) }}
