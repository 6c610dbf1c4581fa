"""What a project's tables and runs look like: status, report, metrics, lineage, explanations."""
