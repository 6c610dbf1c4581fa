-- query
describe history app.history_flagged;

-- query
describe history app.current_of_history;

-- query
set spark.databricks.delta.commitInfo.userMetadata={"cdc": "app.current_of_history", "run": {"id": "first"}, "read_to": 5, "version": 5, "fingerprint": null, "declared": null, "rewound_to": 6, "set_back": true, "operation": "RESTORE"};

-- query
restore table app.current_of_history to version as of 6;

-- query
reset spark.databricks.delta.commitInfo.userMetadata;

-- query
describe history app.history_flagged_tombstones;

-- query
restore table app.history_flagged_tombstones to version as of 5;

-- query
set spark.databricks.delta.commitInfo.userMetadata={"cdc": "app.history_flagged", "run": {"id": "first"}, "read_to": 5, "fingerprint": null, "declared": null, "rewound_to": 6, "set_back": true, "operation": "RESTORE"};

-- query
restore table app.history_flagged to version as of 6;

-- query
reset spark.databricks.delta.commitInfo.userMetadata;
