"""Counts the SQL statements that dbt's nodes send to Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt_common.events.contextvars import get_node_info


@dataclass
class Statements:
    """The statements of a run, in their order.

    Attributes:
        all: Node and text of each; the node is empty for what belongs to none, such as the look
            at the catalog when dbt starts, and hooks of the whole run.
    """

    all: list[tuple[str, str]] = field(default_factory=list)

    def by_node(self) -> dict[str, int]:
        """Returns how many statements each node ran."""
        return dict(Counter(node for node, _ in self.all if node))

    def of(self, *nodes: str) -> list[str]:
        """Returns the text of some nodes' statements; of all nodes where none is named."""
        return [sql for node, sql in self.all if node and (not nodes or node in nodes)]

    def listed(self) -> str:
        """Returns a line for each statement of a node, for the message of a failed test."""
        return "\n".join(f"{node}: {' '.join(sql.split())[:160]}" for node, sql in self.all if node)


@contextmanager
def recorded_statements() -> Iterator[Statements]:
    """Records what reaches Spark through the adapter's cursor as long as the block lasts.

    dbt's own event `SQLQuery` would miss what an adapter runs without dbt's `execute`.
    """
    recorded = Statements()
    plain = Cursor.execute

    def execute(self: Cursor, sql: str, *arguments: Any, **options: Any) -> None:
        recorded.all.append((get_node_info().get("node_name", ""), sql))
        plain(self, sql, *arguments, **options)

    Cursor.execute = execute  # type: ignore[method-assign]
    try:
        yield recorded
    finally:
        Cursor.execute = plain  # type: ignore[method-assign]
