{{ cdc.events(source('raw', 'followed')) }}
