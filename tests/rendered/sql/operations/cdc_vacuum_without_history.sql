-- query
vacuum app.current_without_history retain 168 hours dry run;

-- query
vacuum app.current_without_history retain 168 hours;
