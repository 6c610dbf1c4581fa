{{ cdc.as_of(ref('history_flagged'), '2026-01-01 12:00:00') }}
