{{ cdc.current(ref('events_flagged_images')) }}
