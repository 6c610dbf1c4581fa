"""Cutting crowded keys and following links, without Spark."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbt_spark_cdc.keys import (
    ARRIVAL,
    END,
    ENDED,
    LEAVE,
    LEFT,
    OWN,
    UPSERT,
    _cut_batches,
    cut_crowded_keys,
    follow_links,
)

FIRST = -1
AFTER = 1_000_000


def cut(*marks: tuple[int, int]) -> list[tuple[int, int, str]]:
    """Cuts one key; a mark is its kind and transaction, its event is its number."""
    parts = cut_crowded_keys(
        (number == 0, number, kind, transaction, FIRST, AFTER + number)
        for number, (kind, transaction) in enumerate(marks)
    )
    return [
        (event, part, "first" if segment == FIRST else f"after {segment - AFTER}")
        for event, part, segment in parts
    ]


def test_an_end_closes_the_segment() -> None:
    assert cut((UPSERT, 1), (END, 2), (UPSERT, 3), (LEAVE, 4)) == [
        (0, OWN, "first"),
        (1, OWN, "first"),
        (2, OWN, "after 1"),
        (3, LEFT, "after 1"),
    ]


def test_an_end_where_nobody_lives_makes_a_segment() -> None:
    assert cut((END, 1), (END, 2), (ARRIVAL, 3)) == [
        (0, OWN, "first"),
        (1, OWN, "after 0"),
        (2, OWN, "after 1"),
    ]


def test_who_lives_at_a_key_that_another_row_takes_may_leave_later() -> None:
    assert cut((UPSERT, 1), (ARRIVAL, 2), (UPSERT, 2), (LEAVE, 2), (UPSERT, 3), (LEAVE, 3)) == [
        (0, OWN, "first"),
        (1, OWN, "after 1"),
        (2, OWN, "after 1"),
        (3, LEFT, "first"),
        (4, OWN, "after 1"),
        (5, LEFT, "after 1"),
    ]


def test_who_has_not_left_when_the_transaction_ends_was_ended() -> None:
    assert cut((UPSERT, 1), (ARRIVAL, 2), (ARRIVAL, 2), (END, 2), (END, 3)) == [
        (0, OWN, "first"),
        (1, OWN, "after 1"),
        (2, OWN, "after 2"),
        (3, OWN, "first"),
        (2, ENDED, "after 1"),
        (4, OWN, "after 2"),
    ]
    assert cut((UPSERT, 1), (ARRIVAL, 2))[-1] == (1, ENDED, "first")


def test_each_key_begins_anew() -> None:
    marks = [
        (True, 0, UPSERT, 1, 10, 100),
        (False, 1, ARRIVAL, 1, 10, 101),
        (True, 2, END, 1, 20, 102),
    ]
    assert list(cut_crowded_keys(marks)) == [
        (0, OWN, 10),
        (1, OWN, 101),
        (1, ENDED, 10),
        (2, OWN, 20),
    ]


@settings(deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from([UPSERT, ARRIVAL, END, LEAVE]), st.integers(0, 2)),
            min_size=1,
            max_size=6,
        ),
        max_size=8,
    ),
    st.integers(1, 7),
)
def test_keys_are_cut_together_as_one_by_one(
    keys: list[list[tuple[int, int]]], batch_rows: int
) -> None:
    rows = [
        (place == 0, kind, transaction, key)
        for key, marks in enumerate(keys)
        for place, (kind, transaction) in enumerate(marks)
    ]
    columns = {
        "_event_id": [*range(len(rows))],
        "_kind": [row[1] for row in rows],
        "_transaction": [row[2] for row in rows],
        "_first_id": [row[3] for row in rows],
        "_next_id": [AFTER + event for event in range(len(rows))],
    }
    begins = [row[0] for row in rows]
    expected = cut_crowded_keys(zip(begins, *columns.values(), strict=True))
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    found = [
        row
        for batch in _cut_batches(table.to_batches(max_chunksize=batch_rows))
        for row in zip(*batch.to_pydict().values(), strict=True)
    ]
    assert sorted(found) == sorted(expected)


def test_a_hot_key_costs_each_mark_the_same() -> None:
    marks = [(UPSERT, 0)] + [(ARRIVAL, 1)] * 200_000 + [(LEAVE, 1)] * 200_000
    assert len(cut(*marks)) == len(marks)


def follow(links: list[tuple[str, str]]) -> tuple[dict[str, str], int]:
    linked = [link[0] for link in links]
    entities, rounds = follow_links(pa.array(linked), pa.array([link[1] for link in links]))
    return dict(zip(linked, entities.to_pylist(), strict=True)), rounds


@pytest.mark.parametrize(("length", "most"), [(1, 0), (2, 1), (3, 2), (1_000, 10), (100_000, 17)])
def test_rounds_grow_with_the_logarithm(length: int, most: int) -> None:
    links = [(f"s{number + 1}", f"s{number}") for number in range(length)]
    random.Random(length).shuffle(links)
    entities, rounds = follow(links)
    assert set(entities.values()) == {"s0"}
    assert rounds <= most


def test_circles_take_their_smallest_name() -> None:
    circles = [(f"c{number}", f"c{(number + 1) % 5}") for number in range(5)]
    circles += [("b2", "b1"), ("b1", "b2"), ("d", "d")]
    chain = [("y", "x"), ("z", "y")]
    links = circles + chain
    random.Random(7).shuffle(links)
    assert follow(links)[0] == {
        **{f"c{number}": "c0" for number in range(5)},
        **{"b1": "b1", "b2": "b1", "d": "d", "y": "x", "z": "x"},
    }
