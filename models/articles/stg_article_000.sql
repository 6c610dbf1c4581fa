-- depends_on: {{ ref('article_000_events') }}
{{ cdc.events(source('articles', 'article_000_events')) }}
