"""`cdc capture`: reads changes from a live database and lands them as files."""
