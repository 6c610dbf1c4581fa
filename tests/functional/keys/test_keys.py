"""Which events belong to which row: odd cases by name, random worlds against the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from pyspark.sql import functions as F

from dbt_spark_cdc.keys import find_entities, overwrite_partitions, resolve, resolve_keys
from tests.functional.draws import draw
from tests.functional.keys.oracle import Event, entities
from tests.functional.keys.tables import COLUMNS, Table, as_row


class Step(NamedTuple):
    """An event of a case, and the row it must belong to: a letter."""

    does: str
    row: str
    ends: str = ""


# `A` upsert, `A>B` move, `A!` delete, `T` truncate; then the transaction, by default the next one,
# and the place in it.
CASES: dict[str, list[Step]] = {
    "chain": [Step("A", "x"), Step("A>B", "x"), Step("B", "x"), Step("B>C", "x"), Step("C", "x")],
    "there and back": [Step("A", "x"), Step("A>B", "x"), Step("B>A", "x"), Step("A", "x")],
    "swap": [
        Step("A 1", "x"),
        Step("B 1", "y"),
        Step("A>B 2", "x"),
        Step("B>A 2", "y"),
        Step("A", "y"),
        Step("B", "x"),
    ],
    "id + 1, ascending": [
        Step("1 1", "x"),
        Step("2 1", "y"),
        Step("3 1", "z"),
        Step("1>2 2", "x"),
        Step("2>3 2", "y"),
        Step("3>4 2", "z"),
        Step("2", "x"),
        Step("3", "y"),
        Step("4", "z"),
    ],
    "id + 1, descending": [
        Step("1 1", "x"),
        Step("2 1", "y"),
        Step("3 1", "z"),
        Step("3>4 2", "z"),
        Step("2>3 2", "y"),
        Step("1>2 2", "x"),
        Step("2", "x"),
        Step("3", "y"),
        Step("4", "z"),
    ],
    "freed key used again": [Step("A", "x"), Step("A>B", "x"), Step("A", "y"), Step("B", "x")],
    "deleted key used again": [Step("A", "x"), Step("A!", "x"), Step("A", "y")],
    "delete after a move": [Step("A", "x"), Step("A>B", "x"), Step("B!", "x"), Step("B", "y")],
    "onto a deleted key": [Step("A", "x"), Step("B", "y"), Step("B!", "y"), Step("A>B", "x")],
    "move, partial update, move": [
        Step("A", "x"),
        Step("A>B", "x"),
        Step("B", "x"),
        Step("B>C", "x"),
        Step("C", "x"),
    ],
    "circle where nobody lives": [Step("A>B 1 0", "x"), Step("B>A 1 0", "x"), Step("A", "y")],
    "circle of three": [Step("A>B 1 0", "x"), Step("B>C 1 0", "x"), Step("C>A 1 0", "x")],
    "move of a key that never existed": [Step("A>B", "x"), Step("B", "x"), Step("A", "y")],
    "onto a living key": [
        Step("A", "x"),
        Step("B", "y"),
        Step("A>B", "x", ends="y"),
        Step("B", "x"),
        Step("B!", "x"),
        Step("B", "z"),
    ],
    "two rows onto a living key": [
        Step("A 1", "x"),
        Step("B 1", "y"),
        Step("C 1", "z"),
        Step("A>B 2", "x", ends="y"),
        Step("C>B 2", "z", ends="x"),
        Step("B 3", "z"),
    ],
    "onto a living key that a late event moved away": [
        Step("A", "x"),
        Step("B", "y"),
        Step("A>B 4", "x", ends="y"),
        Step("B>C 4", "y"),
        Step("C", "y"),
    ],
    "delete that finds nothing": [Step("A!", "x"), Step("A", "y"), Step("A>B", "y")],
}
# In `onto a living key that a late event moved away` the last word is that nothing was ended.
CASES["onto a living key that a late event moved away"][2] = Step("A>B 4", "x")


def events_of(steps: Iterable[Step], scenario: int) -> list[Event]:
    """The events of a case."""
    events: list[Event] = []
    tx = 0
    for number, step in enumerate(steps):
        deed, *places = step.does.split()
        tx = int(places[0]) if places else tx + 1
        n = int(places[1]) if len(places) > 1 else number
        old, moves, key = deed.rpartition(">")
        op = "T" if deed == "T" else "M" if moves else "D" if deed.endswith("!") else "U"
        at = None if op == "T" else scenario
        name = None if op == "T" else key.removesuffix("!")
        events.append(Event(at, op, name, old or None, tx, n, str(number)))
    return events


def as_letters(
    events: list[Event], found: dict[int, tuple[Any, Any]], letters: Iterable[str]
) -> list[tuple[str, str]]:
    """Found labels as letters: the label of the first event that has a letter is that letter."""
    named: dict[Any, str] = {None: ""}
    for event, letter in zip(events, letters, strict=True):
        if found[event.event_id][0] not in named and letter not in named.values():
            named[found[event.event_id][0]] = letter
    return [
        tuple(named.get(label, "?") for label in found[event.event_id])  # type: ignore[misc]
        for event in events
    ]


def check_cases(
    cases: dict[str, list[Step]], found: dict[int, tuple[Any, Any]], orders: Iterable[str] = ("",)
) -> None:
    for number, (order, (name, steps)) in enumerate(product(orders, cases.items())):
        events = events_of(steps, number)
        assert as_letters(events, found, [step.row for step in steps]) == [
            (step.row, step.ends) for step in steps
        ], f"{name} {order}"


def batches_of(cases: dict[str, list[Step]], *orders: str) -> list[list[Event]]:
    """All cases in one table, in each order, and in every batch one event of each."""
    batches: dict[int, list[Event]] = {}
    for number, (order, steps) in enumerate(product(orders, cases.values())):
        events = events_of(steps, number)
        if order == "backward":
            events.reverse()
        if order == "inside out":
            events = events[1::2] + events[::2]
        for place, event in enumerate(events):
            batches.setdefault(0 if order == "at once" else place, []).append(event)
    return list(batches.values())


def test_cases(spark: Any, tmp_path: Path) -> None:
    orders = ["at once", "forward", "backward", "inside out"]
    table = Table(spark, tmp_path)
    found: dict[int, tuple[Any, Any]] = {}
    for batch in batches_of(CASES, *orders):
        found = table.put(batch)
    check_cases(CASES, found, orders)


@pytest.mark.parametrize("shape", ["plain", "time"])
def test_a_transaction_is_known_by_time_or_by_sequence(
    spark: Any, tmp_path: Path, shape: str
) -> None:
    names = ["swap", "id + 1, ascending", "id + 1, descending", "circle where nobody lives"]
    cases = {name: CASES[name] for name in names}
    check_cases(cases, Table(spark, tmp_path, shape).put(batches_of(cases, "at once")[0]))


def test_late_events_of_a_key_before_its_move(spark: Any, tmp_path: Path) -> None:
    table = Table(spark, tmp_path)
    before, move, after = events_of([Step("A 1", ""), Step("A>B 3", ""), Step("A 4", "")], 0)
    late, end = events_of([Step("A 2", ""), Step("A! 2", "")], 0)
    found = table.put([before, move, after])
    entity = found[before.event_id]
    assert found[move.event_id] == entity != found[after.event_id]
    # Belongs to the row that had the key then, and renames nothing.
    found = table.put([late])
    assert found[late.event_id] == entity
    assert table.changes == 1
    # A delete between: another row moved.
    renamed = table.put([end])
    assert renamed[before.event_id] == renamed[late.event_id] == renamed[end.event_id] == entity
    assert renamed[move.event_id] not in (entity, found[after.event_id])
    assert renamed[after.event_id] == found[after.event_id]
    former = {
        row[0]: row[1] for row in table.known.select("_event_id", "_former_entity_ids").collect()
    }
    assert former[move.event_id] == [entity[0]]


def test_an_ended_row_is_renamed_and_its_taker_keeps_its_way(spark: Any, tmp_path: Path) -> None:
    steps = ["P 1", "F 1", "F>G 2", "P>Q 3", "Q>G 4", "G>H 5", "H 6", "F! 1 9", "P! 2"]
    events = events_of([Step(step, "") for step in steps], 0)
    table = Table(spark, tmp_path)
    for count, batch in ((7, events[:7]), (8, events[7:8]), (9, events[8:])):
        found = table.put(batch)
        assert not differences(events[:count], found, {})
        assert found[events[4].event_id] == (
            found[events[5].event_id][0],
            found[events[2].event_id][0],
        )


def test_a_wider_key_names_its_rows_as_before(spark: Any) -> None:
    moves = [Event(3, "I", "A", None, 1, 1), Event(3, "M", "B", "A", 2, 1)]
    narrow = spark.createDataFrame([as_row(event, 0) for event in moves], COLUMNS)
    wide = narrow.withColumns(
        {name: narrow[name].cast("bigint") for name in ("scenario", "_old_scenario")}
    )
    names = [resolve(frame).select("_entity_id").distinct().collect() for frame in (narrow, wide)]
    assert names[0] == names[1]
    assert len(names[0]) == 1


def test_truncate_ends_all_lives_before_it(spark: Any, tmp_path: Path) -> None:
    steps = [
        Step("A 1", "x"),
        Step("B 1", "y"),
        Step("A>C 2", "x"),
        Step("T 3 9", ""),
        Step("A 4", "z"),
        Step("C 4", "w"),
        Step("B 4", "v"),
        Step("B>A 5", "v", ends="z"),
    ]
    events = events_of(steps, 0)
    for batches in ([events], [events[:3] + events[4:], [events[3]]], [[e] for e in events[::-1]]):
        table = Table(spark, tmp_path)
        for batch in batches:
            found = table.put(batch)
        check_cases({"truncate": steps}, found)
        assert found[events[3].event_id] == (None, None)
    # An upsert at the very position of the truncate is ended by it.
    same = events_of([Step("T 3 0", ""), Step("A 3 0", ""), Step("A 3 1", "")], 0)
    found = Table(spark, tmp_path).put(same)
    assert found[same[1].event_id] != found[same[2].event_id]


def test_replay_changes_nothing(spark: Any, tmp_path: Path) -> None:
    for numbered in (True, False):
        table = Table(spark, tmp_path)
        batch = batches_of(CASES, "at once")[0]
        found = table.put(batch + batch, numbered)
        columns = table.known.columns
        assert table.put(batch, numbered) == found
        assert table.changes == 0
        assert table.put([], numbered) == found
        assert table.known.columns == columns
        # Sources without a batch number are read whole.
        new = Event(0, "U", "Z", None, 99, 0)
        assert len(table.put([new], numbered)) == len(found) + 1
        assert table.changes == 1


class Dbt:
    """What dbt hands to a Python model."""

    def __init__(self, this: str, is_incremental: bool) -> None:
        self.this, self.is_incremental = this, is_incremental


def test_dbt_model(spark: Any, tmp_path: Path) -> None:
    [events] = batches_of(CASES, "at once")
    table = Table(spark, tmp_path)
    found = table.put(events)
    spark.sql("create schema if not exists resolved")
    rows = resolve_keys(Dbt("resolved.none", False), spark, table.events())
    rows.write.format("delta").saveAsTable("resolved.customers_keys")
    again = resolve_keys(Dbt("resolved.customers_keys", True), spark, table.events())
    assert again.columns == rows.columns
    assert again.isEmpty()
    stored = spark.table("resolved.customers_keys")
    labels = stored.select("_event_id", "_entity_id", "_ended_entity_id").collect()
    assert {row[0]: (row[1], row[2]) for row in labels} == found
    assert stored.select("_resolved").distinct().count() == 1


def test_refuses_events_that_are_not_canonical(spark: Any) -> None:
    frame = spark.sql("select 1 as id, 'I' as _op, 1 as _seq, 'x' as _event_id")
    with pytest.raises(
        ValueError, match="no key can change, and has an _event_id that is not a big"
    ):
        resolve(frame)
    with pytest.raises(ValueError, match="has no column _old_id"):
        resolve(frame, keys=["id"])


def test_refuses_what_it_cannot_tell_from_known_events(spark: Any, tmp_path: Path) -> None:
    table = Table(spark, tmp_path)
    [events] = batches_of(CASES, "at once")
    table.put(events)
    declared_later = table.events().selectExpr(
        "* except (_event_id, _arrived)",
        "'x' as city",
        "_event_id + 1 as _event_id",
        "_arrived + 1 as _arrived",
    )
    with pytest.raises(ValueError, match="has no column city: they may be the same ones"):
        resolve(declared_later, table.known)
    # One that is new is no reason to stop.
    new = declared_later.selectExpr("* except (id)", "concat('new ', id) as id")
    assert resolve(new.where("_op <> 'T'"), table.known).count() > 0

    lower = table.events().withColumn("_arrived", F.lit(0))
    with pytest.raises(
        ValueError, match="read up to arrival 1, and the highest of the events is 0"
    ):
        resolve(lower, table.known)


def test_plain_parquet(spark: Any, tmp_path: Path) -> None:
    """Article 000's way: no table format, and only touched partitions are rewritten."""
    path = tmp_path / "customers_keys"
    table = Table(spark, tmp_path)
    [events] = batches_of(CASES, "at once")
    late = [event for event in events if event.note == "0"]
    first = [event for event in events if event.note != "0"]
    found: dict[int, tuple[Any, Any]] = {}
    for scenarios, batch in [
        (range(len(CASES)), first),
        ({0, 1}, [event for event in late if event.scenario in (0, 1)]),
        (range(2, len(CASES)), [event for event in late if event.scenario not in (0, 1)]),
    ]:
        before = files_of(path)
        known = spark.read.parquet(str(path)) if before else None
        found = table.put(batch)
        overwrite_partitions(known, resolve(table.events(), known), str(path), ["scenario"])
        changed = before ^ files_of(path)
        assert {folder for folder, _ in changed} == {f"scenario={one}" for one in scenarios}
    rows = spark.read.parquet(str(path)).select("_event_id", "_entity_id", "_ended_entity_id")
    assert {row[0]: (row[1], row[2]) for row in rows.collect()} == found
    check_cases(CASES, found)


def files_of(path: Path) -> set[tuple[str, str]]:
    return {(file.parent.name, file.name) for file in path.glob("*/*.parquet")}


def test_links_by_joins_are_those_in_memory(spark: Any) -> None:
    """More links than one task takes are followed by joins: chains, and circles without a start."""
    random = Random(20261121)
    names = random.sample(range(-5_000, 5_000), 600)
    links: list[tuple[int, int]] = []
    expected: dict[int, int] = {}
    while names:
        chain = [names.pop() for _ in range(min(len(names), random.choice((2, 3, 17, 90))))]
        closed = random.random() < 0.3
        links += list(zip(chain[1:], chain, strict=False)) + [(chain[0], chain[-1])] * closed
        first = min(chain) if closed else chain[0]
        expected |= {name: first for name in (chain if closed else chain[1:])}
    random.shuffle(links)
    frame = spark.createDataFrame(links, "_linked bigint, _parent bigint")
    for links_a_task in (len(links), 0):
        found = find_entities(frame, len(links), links_a_task).collect()
        assert {row["_linked"]: row["_entity"] for row in found} == expected


# Random worlds, many of them in one table.

BATCHES = 4
SCENARIOS, MANY_SCENARIOS = 1_000, 5_000
# Truncates empty all worlds at once. The first run after one labels everything again.
TRUNCATES = {0: Event(None, "T", None, None, 2, 1), 2: Event(None, "T", None, None, 5, 1)}
Arrivals = list[tuple[Event, int]]


@st.composite
def worlds(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Arrivals:
    """A few events of a few keys and the batch that brings each."""
    arrivals: Arrivals = []
    numbers = draw(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=14))
    for number in numbers:
        number = number * 2_654_435_761 % 2**32  # hypothesis prefers small numbers

        def choose(choices: Any) -> Any:
            nonlocal number
            number, index = divmod(number, len(choices))
            return choices[index]

        op = choose("UUUMMMMMD")
        key = choose(range(5))
        old = (key + 1 + choose(range(4))) % 5
        tx, n = 1 + choose(range(7)), choose((0, 0, 1, 2))
        batch = choose(range(BATCHES))
        event = Event(None, op, f"k{key}", f"k{old}" if op == "M" else None, tx, n)
        arrivals += [(event, batch)] * (2 if choose(range(12)) == 0 else 1)
    return arrivals


def draw_worlds(count: int, start: int) -> list[Arrivals]:
    """Draws worlds from a seed."""
    return draw(worlds(), count, start)


def differences(
    seen: list[Event], found: dict[int, tuple[Any, Any]], label_of: dict[Any, str]
) -> dict[int, str]:
    """Compares found labels with the oracle's rows: a row has one label, and a label means one row.

    Args:
        seen: Events that have arrived.
        found: Their labels.
        label_of: The label that each row had in earlier batches, and must keep.

    Returns:
        A difference by scenario.
    """
    expected = entities(seen)
    assert found.keys() == expected.keys()
    wrong: dict[int, str] = {}
    # Within a batch, for the name of a circle may be another row's when the circle opens.
    row_of: dict[str, Any] = {}
    for event in seen:
        for row, label in zip(expected[event.event_id], found[event.event_id], strict=True):
            if row is label is None:
                continue
            same = None not in (row, label) and label_of.setdefault(row, label) == label
            if not same or row_of.setdefault(label, row) != row:
                wrong[event.scenario or 0] = f"{event} is {label}, not {row}"
    return wrong


def broken_worlds(
    spark: Any, tmp_path: Path, drawn: list[Arrivals], truncates: dict[int, Event]
) -> dict[int, str]:
    """Lets the worlds arrive batch by batch and compares each label with the oracle's."""
    table = Table(spark, tmp_path)
    seen: list[Event] = []
    wrong: dict[int, str] = {}
    label_of: dict[Any, str] = {}
    for batch in range(BATCHES):
        arriving = [
            event._replace(scenario=number)
            for number, world in enumerate(drawn)
            for event, at in world
            if at == batch
        ] + [truncate for at, truncate in truncates.items() if at == batch]
        seen += arriving
        found = table.put(arriving)
        for scenario, difference in differences(seen, found, label_of).items():
            wrong.setdefault(scenario, f"batch {batch}: {difference}")
    assert table.put(seen) == found
    assert table.changes == 0
    return wrong


@pytest.mark.parametrize("truncates", [{}, TRUNCATES], ids=["no truncates", "truncates"])
@pytest.mark.parametrize("count", [SCENARIOS, pytest.param(MANY_SCENARIOS, marks=pytest.mark.soak)])
def test_any_batching_any_order(
    spark: Any, tmp_path: Path, truncates: dict[int, Event], count: int
) -> None:
    drawn = draw_worlds(count, start=20261121)
    wrong = broken_worlds(spark, tmp_path, drawn, truncates)
    if wrong:
        number = min(wrong, key=lambda number: len(drawn[number]))
        pytest.fail(f"{len(wrong)} worlds fail, {wrong[number]}\n{drawn[number]}")
