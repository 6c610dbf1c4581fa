-- query
set spark.databricks.delta.commitInfo.userMetadata={"cdc": "app.history_flagged", "read_to": 8, "written_at": 7, "at": 7, "operation": "TABLE AS SELECT"};

-- query
create or replace table app.history_flagged using delta
                    partitioned by (_cdc_is_latest)
                    tblproperties ('cdc.compacted' = 'true', 'cdc.keys' = 'order_id, line', 'delta.enableChangeDataFeed' = 'true')
                    as
                    select
                        *,
                        get(filter(_events, event -> event._op in ('I', 'U')), 0)._event_id as _event_id,
                        row_number() over (partition by `order_id`, `line` order by _seq desc, _seq_end desc nulls first) = 1 as _cdc_is_latest
                    from app.history_flagged;

-- query
reset spark.databricks.delta.commitInfo.userMetadata;
