{{ cdc.audit(ref('history_flagged'), ref('current_of_history')) }}
