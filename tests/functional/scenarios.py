"""Small worlds of change events, drawn by hypothesis, thousands of them to one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import NamedTuple

from hypothesis import strategies as st

from tests.functional.draws import draw
from tests.functional.oracle import Event

BATCHES = 3
# Truncates empty the whole table, and with it every scenario: early, so that long lives follow.
TRUNCATES = (1200, 1301)
LAST = 40


class Arrival(NamedTuple):
    """An event and the batches that bring it."""

    event: Event
    batches: tuple[int, ...]


Scenario = tuple[Arrival, ...]

VALUES = ("x", "y", "z", None)
# What an event is drawn from: one number instead of ten draws, for hypothesis draws slowly.
CHOICES = {
    "step": range(1, LAST + 1),
    "sub": (0, 0, 1),
    "op": "IUUUUD",
    "a": VALUES,
    "b": VALUES,
    "key": (0, 0, 1),
    "late": (None, None, None, *range(BATCHES)),  # half of these come in another batch
    "again": (None,) * 15 + tuple(range(BATCHES)),
}
NUMBERS = prod(len(choices) for choices in CHOICES.values())
SPREAD = 1_000_003  # no divisor of NUMBERS, so that every event stays possible


def _arrival(number: int) -> Arrival:
    """The event that a number stands for: one of four is late, one of six comes twice."""
    number = number * SPREAD % NUMBERS  # hypothesis prefers small numbers
    chosen = {}
    for name, choices in CHOICES.items():
        number, index = divmod(number, len(choices))
        chosen[name] = choices[index]
    op, a, b = chosen["op"], chosen["a"], chosen["b"]
    if op == "D":
        a = b = None
    position = chosen["step"] * 100 + chosen["sub"]
    on_time = chosen["step"] * BATCHES // (LAST + 1)
    batch = on_time if chosen["late"] is None else chosen["late"]
    batches = (batch,) if chosen["again"] is None else (batch, chosen["again"])
    return Arrival(Event(None, chosen["key"], position, op, a, b), batches)


_arrivals = st.integers(0, NUMBERS - 1).map(_arrival)
scenarios: st.SearchStrategy[Scenario] = st.lists(_arrivals, min_size=3, max_size=12).map(tuple)


def draw_scenarios(count: int, start: int) -> list[Scenario]:
    """Draws scenarios; the same for the same start.

    Args:
        count: How many.
        start: Seed of the draw.
    """
    return draw(scenarios, count, start)


def pack(scenarios: Iterable[Scenario]) -> list[Arrival]:
    """One table's arrivals out of many scenarios, each under its own number, and the truncates.

    Args:
        scenarios: In the order of their numbers, from 0.
    """
    packed = [
        Arrival(Event(None, None, position, "T", None, None), (number,))
        for number, position in enumerate(TRUNCATES)
    ]
    for number, scenario in enumerate(scenarios):
        packed += [Arrival(event._replace(scenario=number), batches) for event, batches in scenario]
    return packed


def shrink(failing: Scenario, broken: Callable[[list[Scenario]], list[int]]) -> Scenario:
    """Leaves out whatever the failure does not need.

    Args:
        failing: A scenario that fails.
        broken: Runs scenarios, and returns the numbers of those that fail.

    Returns:
        A scenario that fails, and no longer does when any one arrival is left out or simplified.
    """
    while True:
        simpler = [failing[:i] + failing[i + 1 :] for i in range(len(failing)) if len(failing) > 1]
        simpler += [
            (*failing[:i], Arrival(arrival.event, arrival.batches[:1]), *failing[i + 1 :])
            for i, arrival in enumerate(failing)
            if len(arrival.batches) > 1
        ]
        still = broken(simpler) if simpler else []
        if not still:
            return failing
        failing = simpler[still[0]]
