-- depends_on: {{ ref('landing') }}
{{ cdc.schema_drift(source('shop', 'customers')) }}
