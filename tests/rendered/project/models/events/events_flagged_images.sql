{{ cdc.events(source('raw', 'flagged_images')) }}
