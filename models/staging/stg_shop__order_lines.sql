-- depends_on: {{ ref('landing') }}
{{ cdc.events(source('shop', 'order_lines')) }}
