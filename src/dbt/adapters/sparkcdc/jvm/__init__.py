"""The Java that Spark runs in: what it needs, what it starts with, and how it is talked to."""
