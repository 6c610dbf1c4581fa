-- depends_on: {{ ref('landing') }}
{{ cdc.quarantine(source('shop', 'order_lines')) }}
