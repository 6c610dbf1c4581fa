{{ config(meta={'tables': ['cdc_erasures']}) }}
{{ operation('cdc_allow_return', source('raw', 'masked'), {'table': 'raw.masked', 'keys': [7], 'since': '2026-12-01 08:00:00'}) }}
