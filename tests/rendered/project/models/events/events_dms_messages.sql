{{ cdc.events(source('raw', 'dms_messages')) }}
