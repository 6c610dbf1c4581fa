"""Draws of hypothesis outside its own test loop: many at once, to fill one table."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

Drawn = TypeVar("Drawn")


def draw(strategy: SearchStrategy[Drawn], count: int, start: int) -> list[Drawn]:
    """Draws from a strategy; the same for the same start.

    Args:
        strategy: What to draw from.
        count: How many.
        start: Seed of the draw.
    """
    drawn: list[Drawn] = []

    @seed(start)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Drawn) -> None:
        drawn.append(example)

    collect()
    return drawn
