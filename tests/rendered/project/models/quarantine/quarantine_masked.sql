{{ cdc.quarantine(source('raw', 'masked')) }}
