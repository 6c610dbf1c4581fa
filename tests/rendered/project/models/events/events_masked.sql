{{ cdc.events(source('raw', 'masked')) }}
