{{ config(tags=['articles', 'final']) }}

{{ cdc._unequal_rows(
    "select id, value, dbt_valid_from, dbt_valid_to from " ~ ref('article_001_history'),
    "select id, value, valid_from, valid_to from " ~ ref('article_001_expected')
) }}
