-- depends_on: {{ ref('landing') }}
{{ cdc.events(source('shop', 'stock')) }}
