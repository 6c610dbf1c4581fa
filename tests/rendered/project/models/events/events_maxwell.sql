{{ cdc.events(source('raw', 'maxwell')) }}
