{{ cdc.audit(ref('events_flagged_images'), ref('current_without_history')) }}
