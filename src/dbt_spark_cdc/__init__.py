"""The command `cdc`: writes a dbt project from a control table, and describes change files."""
