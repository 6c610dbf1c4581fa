{{ config(meta={'tables': ['history_flagged']}) }}
{{ operation('cdc_compact', ref('history_flagged'), {'keep_versions': 3, 'older_than_days': 90}) }}
