-- query
describe detail app.current_without_history;

-- query
optimize app.current_without_history;
