{{ cdc.events(source('raw', 'flagged_keyless')) }}
