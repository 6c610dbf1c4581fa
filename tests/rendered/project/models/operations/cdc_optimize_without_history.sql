{{ config(meta={'tables': ['current_without_history']}) }}
{{ operation('cdc_optimize', ref('current_without_history'), {'small_file_mb': 1}) }}
