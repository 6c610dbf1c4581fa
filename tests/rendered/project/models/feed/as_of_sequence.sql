{{ cdc.as_of(ref('history_flagged'), sequence=17) }}
