"""Statements whose failure is an answer."""

from __future__ import annotations

from typing import Any

from dbt.adapters.base.meta import available
from dbt.adapters.sparkcdc.methods.columns import ColumnMethods
from dbt_common.exceptions import DbtRuntimeError


def _in_one_line(error: Exception) -> str:
    """What Spark says of a statement, without the plan that follows."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line.startswith("[")), lines[-1])


class StatementMethods(ColumnMethods):
    """Statements that may fail for reasons which are not those of who asks."""

    @available.parse_none
    def query_problem(self, sql: str) -> str | None:
        """Returns why Spark does not accept a query, in one line, or None where it does.

        Args:
            sql: The query, which is not run.
        """
        try:
            self.query_types(sql)
        except DbtRuntimeError as exc:
            return _in_one_line(exc)
        return None

    @available.parse_none
    def attempt(self, sql: str) -> str | None:
        """Runs a statement; returns why it failed, in one line, or None where it did not.

        Args:
            sql: The statement.
        """
        try:
            self.execute(sql)
        except DbtRuntimeError as exc:
            return _in_one_line(exc)
        return None

    @available.parse_none
    def rows_if_it_can(self, sql: str) -> list[tuple[Any, ...]] | None:
        """Runs a query that may be wrong for reasons which are not those of who asks.

        Args:
            sql: The query.

        Returns:
            Its rows, or None where it failed.
        """
        try:
            return [tuple(row) for row in self.execute(sql, fetch=True)[1].rows]
        except DbtRuntimeError:
            return None
