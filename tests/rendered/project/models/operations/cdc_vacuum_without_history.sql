{{ config(meta={'tables': ['current_without_history']}) }}
{{ operation('cdc_vacuum', ref('current_without_history'), {}) }}
