{{ cdc.quarantine(source('raw', 'flagged')) }}
