{{ cdc.changelog(ref('history_flagged')) }}
