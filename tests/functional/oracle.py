"""What history and current have to be: a plain fold over the sorted events, no macro involved."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One event of the test table; `b` is left unset by None (ignore_null_updates)."""

    scenario: int | None
    id: int | None
    seq: int
    op: str
    a: str | None
    b: str | None


class Version(NamedTuple):
    """A row of the history."""

    scenario: int
    id: int
    a: str | None
    b: str | None
    seq: int
    seq_end: int | None
    created: int
    changed: int


def histories(events: list[Event], tracked: tuple[str, ...] = ("a", "b")) -> set[Version]:
    """Folds events to the versions of every key.

    Args:
        events: In any order, with repetitions.
        tracked: Columns whose change begins a version.

    Returns:
        All versions.
    """
    truncates = {event.seq for event in events if event.op == "T"}
    by_key: dict[tuple[Any, Any], set[Event]] = defaultdict(set)
    for event in events:
        if event.op != "T":
            by_key[event.scenario, event.id].add(event)
    found = set()
    for (scenario, key), own in by_key.items():
        # A truncate is a delete of every key.
        ends = {Event(scenario, key, seq, "D", None, None) for seq in truncates}
        found |= fold(
            scenario, key, sorted(own | ends, key=lambda e: (e.seq, e.op == "D")), tracked
        )
    return found


def fold(scenario: Any, key: Any, events: list[Event], tracked: tuple[str, ...]) -> set[Version]:
    """Folds the sorted events of one key."""
    versions: list[dict[str, Any]] = []
    row: dict[str, Any] | None = None
    for event in events:
        if event.op == "D":
            if row is not None:
                versions[-1]["seq_end"] = event.seq
            row = None
            continue
        values = {"a": event.a, "b": event.b if event.b is not None or row is None else row["b"]}
        born = row["created"] if row else event.seq
        if row is None or any(values[name] != row[name] for name in tracked):
            if row is not None:
                versions[-1]["seq_end"] = event.seq
            versions.append({"seq": event.seq, "seq_end": None, "created": born, "changed": 0})
        if row is None or any(values[name] != row[name] for name in values):
            versions[-1]["changed"] = event.seq
        versions[-1] |= values
        row = {**values, "created": born}
    return {Version(scenario=scenario, id=key, **version) for version in versions}
