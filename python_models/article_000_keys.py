"""Follows the rows of article 000 through changes of their key."""

from typing import Any

from dbt_spark_cdc.keys import resolve_keys


def model(dbt: Any, session: Any) -> Any:
    """The events with the row that each belongs to."""
    dbt.config(
        materialized="incremental",
        incremental_strategy="merge",
        unique_key="_event_id",
        tags=["articles", "final"],
    )
    return resolve_keys(dbt, session, dbt.ref("stg_article_000"))
