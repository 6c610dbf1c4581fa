{{ cdc.events(source('raw', 'change_event')) }}
