{{ config(meta={
    'tables': ['history_flagged', 'history_flagged_tombstones', 'current_of_history', 'changes_of_current'],
    'views': ['events_flagged'],
}) }}
{{ operation('cdc_erase', ref('history_flagged'), {'where': "status = 'person'"}) }}
