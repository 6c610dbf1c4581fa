-- in a commit with {"cdc": "app.current_without_history_partitioned", "read_to": 4, "written_at": 7, "at": 7, "batch": null, "raw_version": null, "fingerprint": null, "set_back": true, "base": 7, "operation": "SET TBLPROPERTIES"}
alter table app.current_without_history_partitioned set tblproperties ('cdc.checkpoint' = '<invocation_id>');
