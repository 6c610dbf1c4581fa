"""The command `cdc`: writes a dbt project from a table of tables, and describes change files."""
