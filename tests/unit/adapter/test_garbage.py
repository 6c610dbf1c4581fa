"""How often Python looks for garbage while dbt runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from dbt.adapters.sparkcdc.impl import NEW_OBJECTS, collect_garbage_less


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("thresholds")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((700, 10, 10), (NEW_OBJECTS, 10, 10)),
        ((2_000, 5, 0), (NEW_OBJECTS, 5, 0)),
        # The process has turned it off, or looks less often still.
        ((0, 10, 10), (0, 10, 10)),
        ((100_000, 50, 50), (100_000, 50, 50)),
    ],
)
def test_garbage_is_looked_for_less_often(
    before: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    gc.set_threshold(*before)
    collect_garbage_less()
    assert gc.get_threshold() == after
