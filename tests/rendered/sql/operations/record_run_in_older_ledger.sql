-- query
alter table app.cdc_runs add columns (events_erased bigint);

-- query
insert into app.cdc_runs (run_id, run_started_at, table_name, node, events_read, events_inserted, events_updated, events_deleted, events_duplicate, events_late, events_tied, events_unchanged, events_quarantined, events_left_out, events_erased, watermark_before, watermark_after, seconds) values ('<invocation_id>', timestamp '<run_started_at> UTC', 'raw.flagged', 'history_flagged', cast(9 as bigint), cast(3 as bigint), cast(2 as bigint), cast(1 as bigint), cast(null as bigint), cast(1 as bigint), cast(null as bigint), cast(null as bigint), cast(null as bigint), cast(null as bigint), cast(null as bigint), cast(7 as bigint), cast(8 as bigint), cast(1.25 as double));
