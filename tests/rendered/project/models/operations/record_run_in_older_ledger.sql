{{ config(meta={
    'tables': ['cdc_runs'],
    'counters': {'history_flagged': {'read': 9, 'inserted': 3, 'updated': 2, 'deleted': 1, 'late': 1, 'watermark_before': 7,
        'watermark_after': 8}},
}) }}
{{ end_of_run([ref('history_flagged'), ref('current_without_history_partitioned'), ref('history_positions')]) }}
