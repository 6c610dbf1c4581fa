{{ config(tags=['articles', 'final']) }}

{{ cdc._unequal_rows(
    "select id, name, _cdc_updated_at from " ~ ref('article_000'),
    "select id, name, valid_from from " ~ ref('article_000_expected') ~ " where valid_to is null"
) }}
