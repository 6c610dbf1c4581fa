{{ config(meta={'tables': ['resolved_followed', 'history_followed'], 'views': ['events_followed']}) }}
{{ operation('cdc_erase', ref('history_followed'), {'where': "name = 'person'"}) }}
