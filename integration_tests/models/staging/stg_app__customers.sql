-- depends_on: {{ ref('raw_customers') }}
{{ cdc.events(source('app', 'customers')) }}
