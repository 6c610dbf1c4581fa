{{ config(meta={'tables': ['cdc_erasures']}) }}
{{ operation('cdc_allow_return', source('raw', 'stock'), {'table': 'raw.stock', 'keys': ['A-1'], 'since': 40}) }}
