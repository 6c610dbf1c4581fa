{{ cdc.changelog(ref('current_without_history')) }}
