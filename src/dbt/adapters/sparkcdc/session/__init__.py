"""A Spark session, in this process or on a server: opened, set, asked and timed."""
