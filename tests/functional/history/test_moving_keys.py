"""Histories that follow their rows through key changes, in any batching and order."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest
from dbt.tests.util import run_dbt, write_file

from tests.functional.history.moving import Form, MovingKeys, world
from tests.functional.keys.oracle import Event

BATCHES = 4
SCENARIOS = 400
SMALL_BATCHES, SMALL_SCENARIOS = 30, 8


@pytest.mark.soak
class TestMovingKeys(MovingKeys):
    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        draw = random.Random(20261121)
        worlds = [event for number in range(SCENARIOS) for event in world(number, draw)]
        arrivals = [
            (event, draw.randrange(self.form_of(event), BATCHES))
            for event in worlds + draw.sample(worlds, SCENARIOS // 3)
        ]
        arrivals.append((Event(None, "T", None, None, 3, 5), 2))
        seen: list[Event] = []
        for batch in range(BATCHES):
            form = min(batch, len(self.forms) - 1)
            write_file(self.forms[form].declared(), project.project_root, "models", "sources.yml")
            arriving = [event for event, at in arrivals if at == batch]
            self.put(project, spark, batch, arriving)
            seen += arriving
            run_dbt(["build"])
            self.check(project, seen, form)
        version = f"describe history {project.test_schema}.changes_final limit 1"
        before = project.run_sql(version, fetch="one")[0]
        self.put(project, spark, BATCHES, seen[:100])
        run_dbt(["build"])
        assert project.run_sql(version, fetch="one")[0] == before
        run_dbt(["build", "--full-refresh", "--select", "changes_keys"])
        run_dbt(["build"])
        self.check(project, seen, form)
        run_dbt(["build", "--full-refresh"])
        self.check(project, seen, form)


@pytest.mark.soak
class TestMovingKeysAndColumns(TestMovingKeys):
    """Meanwhile a column is added, one is renamed, and a part of the key is widened."""

    forms: ClassVar[list[Form]] = [
        Form({"scenario": "int", "id": "string", "a": "int", "b": "string"}, {}),
        Form(
            {"scenario": "bigint", "id": "string", "c": "string", "a": "bigint", "b": "string"}, {}
        ),
        Form(
            {"scenario": "bigint", "id": "string", "b": "string", "aa": "bigint", "c": "string"},
            {"aa": "a"},
        ),
    ]


@pytest.mark.soak
class TestMovingKeysInOrder(MovingKeys):
    """Each batch has whole transactions, after those of the batches before it."""

    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        draw = random.Random(20261129)
        events = [event for number in range(SCENARIOS) for event in world(number, draw)]
        events.sort(key=lambda event: (event.tx, event.n))
        seen: list[Event] = []
        for batch, transactions in enumerate(([1, 2], [3], [4], [5])):
            arriving = [event for event in events if event.tx in transactions]
            sent = self.build(project, spark, batch, arriving, seen)
            if batch:
                # Neither all events of the touched rows are read, nor are tables compared.
                assert "touched_entities" not in sent
                assert "_cdc_is_repeated" not in sent
                assert "is_in_order" in sent
                assert "touched_keys" in sent


@pytest.mark.soak
class TestMovingKeysInSmallBatches(MovingKeys):
    """A few events in each batch, so that late-arriving events do not decide how all are read."""

    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        draw = random.Random(20261130)
        events = [event for number in range(SMALL_SCENARIOS) for event in world(number, draw)]
        # Most come soon after their turn.
        events.sort(key=lambda event: 3 * event.tx + event.n + draw.choice((0, 0, 0, 4, 9)))
        seen: list[Event] = []
        ways: set[bool] = set()
        size = len(events) // SMALL_BATCHES + 1
        for batch in range(SMALL_BATCHES):
            arriving = events[batch * size : (batch + 1) * size]
            ways.add("touched_entities" in self.build(project, spark, batch, arriving, seen))
        assert ways == {True, False}


@pytest.mark.extended
class TestMovingKeysOneByOne(MovingKeys):
    """Batches that are in order for the history, until an event tells something of known ones."""

    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        batches = [
            [Event(1, "I", "k0", None, 1, 0, "x"), Event(2, "I", "k0", None, 1, 0, "x")],
            # The first row of this scenario was deleted before anything was seen of it.
            [Event(3, "D", "k0", None, 9, 0, ""), Event(2, "I", "k1", None, 2, 0, "x")],
            [Event(3, "I", "k0", None, 3, 0, "y"), Event(1, "M", "k1", "k0", 3, 0, "y")],
            # The second half of a swap comes a batch later: the row at k1 was not ended after all.
            [Event(2, "M", "k1", "k0", 4, 0, "y")],
            [Event(2, "M", "k0", "k1", 4, 1, "z"), Event(1, "U", "k1", None, 5, 0, "z")],
            [Event(1, "D", "k1", None, 6, 0, ""), Event(2, "U", "k0", None, 6, 0, "w")],
            # A row takes the key that another one left in the batch before.
            [Event(1, "I", "k1", None, 7, 0, "v"), Event(3, "I", "k0", None, 10, 0, "v")],
            [Event(1, "U", "k1", None, 8, 0, "u"), Event(3, "U", "k0", None, 11, 0, "u")],
        ]
        seen: list[Event] = []
        whole = []
        for batch, arriving in enumerate(batches):
            if "touched_entities" in self.build(project, spark, batch, arriving, seen):
                whole.append(batch)
        assert whole == [2, 4]
