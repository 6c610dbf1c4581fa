{{ cdc.current(ref('events_flagged_keyless')) }}
