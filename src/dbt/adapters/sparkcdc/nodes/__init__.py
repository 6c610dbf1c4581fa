"""What a node of a build runs with: intermediate results, a Python model, the report of a load."""
