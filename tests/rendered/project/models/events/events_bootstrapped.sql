{{ cdc.events(source('raw', 'bootstrapped')) }}
