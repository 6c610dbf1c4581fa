"""Takes new change files exactly once into the append-only raw table."""

from typing import Any

from dbt_spark_cdc.landing import land


def model(dbt: Any, session: Any) -> Any:
    """Lands what is new; the model's own table is the log of landed files."""
    dbt.config(
        materialized="incremental",
        incremental_strategy="append",
        on_schema_change="append_new_columns",
        file_format="delta",
    )
    return land(dbt, session, dbt.config.get("landing_folder"), dbt.config.get("raw_table"))
