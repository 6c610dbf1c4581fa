"""Whose events are whose: lives as plain objects, walked one by one, no Spark involved."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple


class Event(NamedTuple):
    """An event of the test tables; `M` moves its row from key `old` to `key`."""

    scenario: int | None
    op: str
    key: str | None
    old: str | None
    tx: int
    n: int
    note: str = ""

    @property
    def event_id(self) -> int:
        """Equal for equal events."""
        digest = hashlib.blake2b(repr(tuple(self)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


class Life:
    """A life at a key: from one end to the next."""

    def __init__(self, key: Any, begins_after: int | None) -> None:
        self.name = (key, begins_after)
        self.taker: Event | None = None
        self.came_from: Life | None = None

    def entity(self) -> Any:
        """The first life of the row; all of them, where they follow each other in a circle."""
        seen, life = [self], self
        while life.came_from is not None:
            life = life.came_from
            if life is self:
                return frozenset(one.name for one in seen)
            seen.append(life)
        return life.name


def entities(events: Iterable[Event]) -> dict[int, tuple[Any, Any]]:
    """Tells for each event which row it belongs to, and which one it ended by taking its key.

    Args:
        events: In any order, with repetitions.

    Returns:
        By the event's id; names of rows are anything that can be compared.
    """
    distinct = set(events)
    truncates = [event for event in distinct if event.op == "T"]
    deeds: dict[Any, list[tuple[Any, Event, str]]] = defaultdict(list)
    for event in distinct - set(truncates):
        place = (event.tx, event.n)
        here = (event.scenario, event.key)
        deeds[here].append(((place, event.op == "D", event.event_id), event, event.op))
        if event.op == "M":
            deeds[event.scenario, event.old].append(((place, True, event.event_id), event, "left"))
    own: dict[Event, Life] = {}
    left: dict[Event, Life] = {}
    ended: dict[Event, Life] = {}
    for key, list_of_deeds in deeds.items():
        for truncate in truncates:
            place = ((truncate.tx, truncate.n), True, float("inf"), truncate.event_id)
            list_of_deeds.append((place, truncate, "T"))
        list_of_deeds.sort(key=lambda deed: deed[0])
        living: list[Life] = []
        begins_after: int | None = None
        tx = None
        for _, event, deed in list_of_deeds:
            if deed == "T" or event.tx != tx:
                for life in living[:-1]:
                    assert life.taker
                    ended[life.taker] = life
                living = [] if deed == "T" else living[-1:]
                tx = event.tx
            if deed == "T":
                begins_after = event.event_id
            elif deed in ("D", "left"):
                # Of several lives at one key, the oldest one ends first.
                life = living.pop(0) if living else Life(key, begins_after)
                (own if deed == "D" else left)[event] = life
                if not living:
                    begins_after = event.event_id
            else:
                if deed == "M" and living:
                    living[-1].taker = event
                    living.append(Life(key, event.event_id))
                elif not living:
                    living.append(Life(key, begins_after))
                own[event] = living[-1]
        for life in living[:-1]:
            assert life.taker
            ended[life.taker] = life
    for event, life in left.items():
        own[event].came_from = life
    found: dict[int, tuple[Any, Any]] = {truncate.event_id: (None, None) for truncate in truncates}
    for event, life in own.items():
        taken = ended.get(event)
        found[event.event_id] = (life.entity(), taken.entity() if taken else None)
    return found
