"""A live PostgreSQL, the load on it, and when its changes are in final tables."""
