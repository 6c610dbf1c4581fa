-- depends_on: {{ ref('raw_orders') }}
{{ cdc.quarantine(source('app', 'orders')) }}
