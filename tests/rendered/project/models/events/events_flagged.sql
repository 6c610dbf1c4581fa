{{ cdc.events(source('raw', 'flagged')) }}
