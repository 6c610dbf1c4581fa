{{ cdc.changelog(ref('current_of_history'), from_version=7) }}
