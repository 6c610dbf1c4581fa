{{ batch_without_history(ref('current_without_history'), single=true) }}
