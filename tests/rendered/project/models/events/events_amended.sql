{{ config(meta={'tables': ['cdc_amendments__raw_flagged']}) }}
{{ cdc.events(source('raw', 'flagged')) }}
