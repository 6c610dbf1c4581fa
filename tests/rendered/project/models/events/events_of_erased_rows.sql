{{ config(meta={'tables': ['cdc_erased_ranges__raw__wal2json_v2']}) }}
{{ cdc.events(source('raw', 'wal2json_v2')) }}
