{{ config(meta={'tables': ['current_without_history']}) }}
{{ operation('cdc_rewind', ref('current_without_history'), {'run': 'third'}) }}
