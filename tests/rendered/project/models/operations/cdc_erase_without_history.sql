{{ config(meta={'tables': ['cdc_erasures', 'current_without_history_partitioned'], 'views': ['events_maxwell']}) }}
{{ operation('cdc_erase', ref('current_without_history_partitioned'), {'keys': ['a', 'b']}) }}
