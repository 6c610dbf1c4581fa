{{ cdc.events(source('raw', 'goldengate')) }}
