-- query
describe detail app.history_flagged;

-- query
optimize app.history_flagged;

-- query
describe detail app.history_flagged_tombstones;

-- query
optimize app.history_flagged_tombstones;
