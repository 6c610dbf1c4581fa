{{ config(tags=['articles', 'final']) }}

{{ cdc._unequal_rows(
    "select scenario, id, value, _cdc_updated_at, _cdc_created_at from " ~ ref('article_003'),
    "select scenario, id, value, updated_at, created_at from " ~ ref('article_003_expected')
) }}
