"""Tables of Iceberg: what they are, how they are written, and what commits changed."""
