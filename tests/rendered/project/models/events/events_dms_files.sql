{{ cdc.events(source('raw', 'dms_files')) }}
