{{ config(meta={
    'tables': ['cdc_erased_ranges__raw__followed', 'resolved_followed', 'history_followed'],
    'views': ['events_followed'],
}) }}
{{ operation('cdc_erase', ref('history_followed'), {'keys': [7]}) }}
