{{ cdc.events(source('raw', 'positions')) }}
