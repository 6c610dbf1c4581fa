-- query
set spark.databricks.delta.commitInfo.userMetadata={"cdc": "app.current_without_history_partitioned", "read_to": 4, "at": 7, "written_at": 7, "raw_version": null, "fingerprint": null, "operation": "SET TBLPROPERTIES"};

-- query
alter table app.current_without_history_partitioned set tblproperties ('cdc.checkpoint' = '<invocation_id>');

-- query
reset spark.databricks.delta.commitInfo.userMetadata;
