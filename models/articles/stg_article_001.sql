-- depends_on: {{ ref('article_001_change_set') }}
{{ cdc.events(source('articles', 'article_001_change_set')) }}
