-- query
vacuum app.history_flagged retain 200 hours dry run;

-- query
vacuum app.history_flagged retain 200 hours;

-- query
vacuum app.history_flagged_tombstones retain 200 hours dry run;

-- query
vacuum app.history_flagged_tombstones retain 200 hours;
