-- query
describe history app.current_without_history;

-- query
set spark.databricks.delta.commitInfo.userMetadata={"cdc": "app.current_without_history", "run": {"id": "second"}, "read_to": 7, "version": 7, "fingerprint": null, "declared": null, "rewound_to": 8, "set_back": true, "operation": "RESTORE"};

-- query
restore table app.current_without_history to version as of 8;

-- query
reset spark.databricks.delta.commitInfo.userMetadata;
