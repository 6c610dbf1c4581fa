-- depends_on: {{ ref('article_003_events') }}
{{ cdc.events(source('articles', 'article_003_events')) }}
