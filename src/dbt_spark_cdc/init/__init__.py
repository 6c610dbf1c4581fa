"""`cdc init`: makes a dbt project from what describes the tables."""
