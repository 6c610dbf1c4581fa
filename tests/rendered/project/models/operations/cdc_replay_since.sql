{{ config(meta={'tables': ['current_without_history_partitioned']}) }}
{{ operation('cdc_replay', ref('current_without_history_partitioned'), {'since': 5}) }}
