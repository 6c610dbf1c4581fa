"""Captures change files from a real PostgreSQL: `python -m capture`."""
