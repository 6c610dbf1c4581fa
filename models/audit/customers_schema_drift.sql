{{ cdc.schema_drift(source('shop', 'customers')) }}
