-- depends_on: {{ ref('landing') }}
{{ cdc.quarantine(source('shop', 'products')) }}
