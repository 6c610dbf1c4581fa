"""What the tests do with tables of their project: read them, and let events arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# A final table with the key `id`; `read` is its history or, without one, its staging model.
FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id']) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""


def histories(**read: str) -> dict[str, str]:
    """The file of histories with the key `id`.

    Args:
        read: What each of them reads, by its name.
    """
    config = "{strategy: cdc.scd2, unique_key: [id], file_format: delta}"
    declared = [
        f"  - name: {name}\n    relation: ref('{model}')\n    config: {config}\n"
        for name, model in read.items()
    ]
    return {"snapshots.yml": "version: 2\nsnapshots:\n" + "".join(declared)}


def rows(project: Any, query: str) -> list[tuple[Any, ...]]:
    """Rows of a query; `{s}` in it is the project's schema."""
    found = project.run_sql(query.replace("{s}", project.test_schema), fetch="all")
    return [tuple(row) for row in found]


def unexplained(project: Any, audit: str) -> int:
    """How many of the events that were read an audit finds nowhere; 0 is right."""
    query = (
        "select events_read - events_applied - events_duplicate - events_superseded"
        f" - events_quarantined from {{s}}.{audit}"
    )
    [(count,)] = rows(project, query)
    return count


def writes(project: Any, table: str) -> int:
    """How many commits a Delta table has, beside those that only set properties."""
    found = rows(project, f"describe history {{s}}.{table}")
    return len([row for row in found if row[4] != "SET TBLPROPERTIES"])


def append(spark: Any, table: str, arriving: Sequence[Any], columns: Any) -> None:
    """Writes rows to a Delta table, which is made where there is none.

    Args:
        spark: A session.
        table: The table, with its schema.
        arriving: The rows.
        columns: Their names and types.
    """
    frame = spark.createDataFrame(arriving, columns)
    frame.coalesce(1).write.format("delta").mode("append").saveAsTable(table)
