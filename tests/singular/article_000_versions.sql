{{ config(tags=['articles', 'final']) }}

{{ cdc._unequal_rows(
    "select id, name, dbt_valid_from, dbt_valid_to from " ~ ref('article_000_history'),
    "select id, name, valid_from, valid_to from " ~ ref('article_000_expected')
) }}
