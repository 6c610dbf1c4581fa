{{ cdc.schema_drift(source('raw', 'flagged')) }}
