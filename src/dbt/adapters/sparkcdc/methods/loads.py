"""Loads in parts, and the report of how far they are."""

from __future__ import annotations

from dbt.adapters.base.meta import available
from dbt.adapters.sparkcdc.methods.base import BaseMethods
from dbt.adapters.sparkcdc.nodes.progress import Load


class LoadMethods(BaseMethods):
    """Large loads."""

    @available.parse_none
    def rows_at_once(self) -> int | None:
        """Returns how many raw rows one commit may hold; None where a load is one commit."""
        return self.config.credentials.max_rows_per_commit or None

    @available.parse_none
    def begin_load(self, table: str, rows: int, left: int) -> None:
        """Reports from now on how far a load is.

        Args:
            table: Its name in SQL.
            rows: Raw rows of the part that begins.
            left: Those that are not read yet, the part's included.
        """
        handle = self._handle
        if handle.load is None or handle.load.table != table:
            handle.end_load()
            handle.load = Load(handle.spark, table)
        handle.load.begin_part(rows, left)

    @available.parse_none
    def expect_reads(self, reads: int, folds: bool) -> None:
        """Notes what the load that is reported does with its rows.

        Args:
            reads: How often it reads them.
            folds: Whether it folds them after that.
        """
        load = self._handle.load
        if load is not None:
            load.expect(reads, folds)

    @available.parse_none
    def end_load(self) -> None:
        """Ends the report of a load."""
        self._handle.end_load()
