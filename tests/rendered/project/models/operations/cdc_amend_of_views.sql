{{ config(meta={
    'tables': ['current_without_history'],
    'views': ['current_without_history_as_view', 'current_without_history_as_keyed_view'],
}) }}
{{ amendment_problems([
    'current_without_history_as_view',
    'raw.flagged_keyless',
    'current_without_history_as_keyed_view',
    'raw.flagged_images',
    'current_without_history_partitioned',
    'raw.maxwell',
]) }}
