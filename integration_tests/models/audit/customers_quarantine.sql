-- depends_on: {{ ref('raw_customers') }}
{{ cdc.quarantine(source('app', 'customers')) }}
