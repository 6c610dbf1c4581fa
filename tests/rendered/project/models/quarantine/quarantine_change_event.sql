{{ cdc.quarantine(source('raw', 'change_event')) }}
