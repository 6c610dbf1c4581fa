"""What history and current have to be: a plain fold over the sorted events, no macro involved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One event of the test tables; `b` is left unset by None (ignore_null_updates)."""

    scenario: int | None
    id: int | None
    position: int
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


def histories(
    events: Iterable[Event],
    tracked: tuple[str, ...] = ("a", "b"),
    ids: Mapping[Event, int] | None = None,
) -> set[Version]:
    """Folds events to the versions of every key.

    Args:
        events: In any order, with repetitions.
        tracked: Columns whose change begins a version.
        ids: What orders upserts of one key at one position.

    Returns:
        All versions.
    """
    truncates = set()
    by_key: dict[tuple[Any, Any], set[Event]] = defaultdict(set)
    for event in events:
        if event.op == "T":
            truncates.add(event.position)
        else:
            by_key[event.scenario, event.id].add(event)
    found = set()
    for (scenario, key), own in by_key.items():
        # A truncate is a delete of every key.
        ends = {Event(scenario, key, position, "D", None, None) for position in truncates}
        found |= fold(
            scenario,
            key,
            sorted(
                own | ends,
                key=lambda e: (e.position, e.op == "D", ids.get(e, 0) if ids else 0),
            ),
            tracked,
        )
    return found


def fold(scenario: Any, key: Any, events: list[Event], tracked: tuple[str, ...]) -> set[Version]:
    """Folds the sorted events of one key."""
    versions: list[dict[str, Any]] = []
    row: dict[str, Any] | None = None
    for event in events:
        if event.op == "D":
            if row is not None:
                versions[-1]["seq_end"] = event.position
            row = None
            continue
        values = {"a": event.a, "b": event.b if event.b is not None or row is None else row["b"]}
        born = row["created"] if row else event.position
        if row is None or any(values[name] != row[name] for name in tracked):
            if row is not None:
                versions[-1]["seq_end"] = event.position
            versions.append({"seq": event.position, "seq_end": None, "created": born, "changed": 0})
        if row is None or any(values[name] != row[name] for name in values):
            versions[-1]["changed"] = event.position
        versions[-1] |= values
        row = {**values, "created": born}
    return {Version(scenario=scenario, id=key, **version) for version in versions}
