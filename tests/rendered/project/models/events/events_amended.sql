{{ config(meta={'tables': ['cdc_amendments__raw__flagged']}) }}
{{ cdc.events(source('raw', 'flagged')) }}
