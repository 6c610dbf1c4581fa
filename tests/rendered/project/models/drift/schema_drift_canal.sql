{{ cdc.schema_drift(source('raw', 'canal')) }}
