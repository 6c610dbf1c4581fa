"""`cdc generate`: the files of the tables that a CONFIG table lists."""
