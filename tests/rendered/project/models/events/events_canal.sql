{{ cdc.events(source('raw', 'canal')) }}
