{{ config(tags=['articles', 'final']) }}

{{ cdc._unequal_rows(
    "select id, value, _cdc_updated_at from " ~ ref('article_001'),
    "select id, value, valid_from from " ~ ref('article_001_expected') ~ " where valid_to is null"
) }}
