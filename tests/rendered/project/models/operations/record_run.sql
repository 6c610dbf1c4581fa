{{ config(meta={
    'counters': {'history_flagged': {'read': 9, 'inserted': 3, 'updated': 2, 'deleted': 1, 'late': 1, 'watermark_before': 7,
        'watermark_after': 8},
        'current_without_history_partitioned': {'read': 4, 'inserted': 4, 'watermark_after': 8},
        'history_positions': {'read': 5}},
}) }}
{{ end_of_run([ref('history_flagged'), ref('current_without_history_partitioned'), ref('history_positions')]) }}
