"""Tables that a statement creates empty, whatever a killed statement left of them before."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from dbt_spark_cdc.words import quoted

# Another process may have written the log of the table and not yet registered it in the catalog.
WAIT_SECONDS = 5.0
LOOK_SECONDS = 0.5

_IN_USE = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
_NO_COMMIT = "DELTA_TABLE_ONLY_OPERATION"
_LOCATION = re.compile(r"location \('(.+?)'\) is not empty")


class TableIsUnknown(Exception):
    """A folder holds a table that the catalog does not know."""


def create_if_missing(
    execute: Callable[[str], Any], session: Any, table: str, query: str, clauses: str = ""
) -> None:
    """Creates an empty Delta table unless it is there.

    A statement that is killed while it creates a table leaves files in the table's folder. Delta
    refuses to create the table there from then on. Such a folder holds no row; it is taken over.

    Args:
        execute: Runs a statement.
        session: The session, for questions about what was left.
        table: The table's name in SQL.
        query: A query with the table's columns; its rows are not written.
        clauses: Clauses between `using delta` and the query, such as `partitioned by (day)`.

    Raises:
        TableIsUnknown: The folder holds a table with rows, which is never taken over.
    """
    rest = f"{table} using delta {clauses} as select * from ({query}) as no_rows where false"
    try:
        execute(f"create table if not exists {rest}")
    except Exception as error:
        location = _LOCATION.search(str(error))
        if _IN_USE not in str(error) or location is None:
            raise
        waits_until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < waits_until:
            if session.catalog.tableExists(table):
                return
            time.sleep(LOOK_SECONDS)
        if _holds_rows(session, location[1]):
            raise TableIsUnknown(
                f"cdc: the catalog has no table {table}, but its folder holds one with rows:"
                f" {location[1]}. Move the folder and register it with `create table {table} using"
                f" delta location '<the new folder>'`, or remove it."
            ) from error
        execute(f"create or replace table {rest}")


def _holds_rows(session: Any, location: str) -> bool:
    """Whether a folder that the catalog knows no table of is, or was, a table with rows."""
    folder = quoted(location)
    try:
        commits = session.sql(f"describe history delta.{folder}").limit(2).collect()
    except Exception as error:  # files without a commit: the statement was killed before it
        if _NO_COMMIT in str(error):
            return False
        raise
    return len(commits) > 1 or bool(session.sql(f"select 1 from delta.{folder} limit 1").collect())
