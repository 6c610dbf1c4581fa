-- depends_on: {{ ref('raw_orders') }}
{{ cdc.events(source('app', 'orders')) }}
