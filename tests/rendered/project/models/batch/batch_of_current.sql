{{ batch_of_current(ref('current_of_history'), ref('history_flagged')) }}
