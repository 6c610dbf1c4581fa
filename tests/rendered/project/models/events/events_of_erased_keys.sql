{{ config(meta={'tables': ['cdc_erasures']}) }}
{{ cdc.events(source('raw', 'positions')) }}
