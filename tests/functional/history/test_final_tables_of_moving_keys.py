"""Final tables whose rows move to other keys: what a key has after a row left it."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest
from dbt.tests.util import run_dbt

from tests.functional.history.moving import KEYS, SNAPSHOTS, MovingKeys, world
from tests.functional.history.tables import rows
from tests.functional.keys.oracle import Event

VALUES = "scenario, id, cast(a as string) as a, b, _entity_id, _cdc_created_at"
BOTH = ["changes_final", "changes_audit"]


def open_versions(project: Any, catalog: str = "") -> list[str]:
    """What a final table has to hold, by its history."""
    query = (
        f"select {VALUES}, dbt_updated_at, _cdc_seq from {catalog}{{s}}.changes_history"
        " where _cdc_is_latest and _seq_end is null"
    )
    return sorted(map(str, rows(project, query)))


def current(project: Any, table: str = "changes_final", catalog: str = "") -> list[str]:
    query = f"select {VALUES}, _cdc_updated_at, _cdc_seq from {catalog}{{s}}.{table}"
    return sorted(map(str, rows(project, query)))


@pytest.mark.extended
class TestTwoStepsAtOnePosition(MovingKeys):
    """A row that takes two steps at one position, k0 to k1 to k2, as a swap by way of a free key
    does in a source whose positions are those of transactions.

    The resolver puts the two in order at k1 (arrival, then end), the fold by `_event_id`: of half
    of the rows the open version stands at k1, which the resolver takes for free. A new row at k1
    makes two open versions of one key. When it goes, the key is the other row's again.
    """

    def arrive(self, project: Any, spark: Any, batch: int) -> None:
        events: list[Event] = []
        for scenario in range(32):
            events += {
                0: [Event(scenario, "I", "k0", None, 1, 0, "first")],
                1: [
                    Event(scenario, "M", "k1", "k0", 2, 0, "step"),
                    Event(scenario, "M", "k2", "k1", 2, 0, "two"),
                ],
                2: [Event(scenario, "I", "k1", None, 3, 0, "other")],
                3: [Event(scenario, "D", "k1", None, 4, 0, "")],
            }[batch]
        self.put(project, spark, batch, events)

    def finish(self, project: Any) -> None:
        wanted = open_versions(project)
        assert len(wanted) == 32
        found = current(project)
        lost = sorted(set(wanted) - set(found))
        run_dbt(["run", "--full-refresh", "--select", "changes_final"])
        assert current(project) == wanted
        assert not lost, f"{len(lost)} of 32 rows are missing, such as {lost[0]}"
        assert found == wanted

    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        """The final table takes the changes that its history published."""
        for batch in range(4):
            self.arrive(project, spark, batch)
            run_dbt(["build", "--exclude", "changes_audit"])
        self.finish(project)


@pytest.mark.soak
class TestTwoStepsAtOnePositionByFeed(TestTwoStepsAtOnePosition):
    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        """The final table reads the change feed of two builds of its history."""
        for batch in range(4):
            self.arrive(project, spark, batch)
            run_dbt(["build", "--exclude", *(BOTH if batch > 1 else BOTH[1:])])
        run_dbt(["run", "--select", "changes_final"])
        self.finish(project)


def model(options: str, keys: str = "'scenario', 'id'") -> str:
    return (
        f"{{{{ config(materialized='incremental', unique_key=[{keys}], {options}) }}}}\n"
        "{{ cdc.current(ref('changes_history')) }}\n"
    )


@pytest.mark.soak
class TestKindsOfFinalTables(MovingKeys):
    """Several final tables of one history, in partitions that rows leave with their keys; resolver,
    history and final tables are not always built together."""

    finals: ClassVar[dict[str, str]] = {
        "other_order": model("incremental_strategy='merge'", "'ID', 'Scenario'"),
        "parts": model("incremental_strategy='insert_overwrite', partition_by=['part']"),
        "plain": model(
            "incremental_strategy='insert_overwrite', file_format='parquet', partition_by=['part']"
        ),
        "seldom": model("incremental_strategy='merge', partition_by=['part']"),
    }

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        computed = 'key_changes: true\n              partition_by: {part: "coalesce(b, id)"}'
        return {
            "sources.yml": self.forms[0].declared().replace("key_changes: true", computed),
            "stg_changes.sql": "{{ cdc.events(source('app', 'changes')) }}",
            "changes_keys.py": KEYS,
            **{f"{name}.sql": text for name, text in self.finals.items()},
        }

    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        draw = random.Random(20261201)
        events = [event for number in range(40) for event in world(number, draw)]
        events.sort(key=lambda event: 3 * event.tx + event.n + draw.choice((0, 0, 0, 0, 4)))
        batches = 12
        size = len(events) // batches + 1
        for batch in range(batches):
            self.put(project, spark, batch, events[batch * size : (batch + 1) * size])
            if batch % 4 == 1:  # the history reads two runs of the resolver at once
                run_dbt(["run", "--select", "stg_changes", "changes_keys"])
                continue
            if batch % 4 == 3:  # the final tables read two runs of the history
                run_dbt(["build", "--exclude", *self.finals])
                continue
            rests = 0 < batch < batches - 2  # then it reads the feed of many runs
            run_dbt(["build", *(["--exclude", "seldom"] if rests else [])])
            wanted = open_versions(project)
            for name in self.finals:
                if name != "seldom" or not rests:
                    assert current(project, name) == wanted, (batch, name)
        run_dbt(["build"])
        wanted = open_versions(project)
        for name in self.finals:
            assert current(project, name) == wanted, name
        run_dbt(["build", "--full-refresh"])
        assert open_versions(project) == wanted
        for name in self.finals:
            assert current(project, name) == wanted, name


@pytest.mark.soak
class TestManyRowsShift(MovingKeys):
    """`set id = id + 1` of 3,000 rows: more keys than a statement lists; the transaction comes in
    two batches, so that for a while a row seems to be ended by the one that took its key."""

    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        count = 3000
        seen: list[Event] = []

        def shift(tx: int, n: int, number: int, by: int) -> Event:
            new, old = f"k{number + by:05}", f"k{number + by - 1:05}"
            return Event(1, "M", new, old, tx, n, f"{number}")

        first = [Event(1, "I", f"k{i:05}", None, 1, i, f"{i}") for i in range(count)]
        ascending = [shift(2, i, i, 1) for i in range(count)]
        descending = [shift(3, i, count - 1 - i, 2) for i in range(count)]
        half = count // 2
        for batch, arriving in enumerate((first, ascending[:half], ascending[half:], descending)):
            self.build(project, spark, batch, arriving, seen)


@pytest.mark.soak
class TestMovingKeysInIceberg(MovingKeys):
    """History and final table in Iceberg, the resolver's table in Delta."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**dbt_profile_target, "iceberg_catalog": "ice"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": self.forms[0].declared(),
            "stg_changes.sql": "{{ cdc.events(source('app', 'changes')) }}",
            "changes_keys.py": KEYS,
            "changes_final.sql": model("incremental_strategy='merge', file_format='iceberg'"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        text = SNAPSHOTS.replace("file_format: delta", "file_format: iceberg")
        return {"snapshots.yml": text}

    def test_any_batching_any_order(self, project: Any, spark: Any) -> None:
        draw = random.Random(20261202)
        events = [event for number in range(30) for event in world(number, draw)]
        events.sort(key=lambda event: 3 * event.tx + event.n + draw.choice((0, 0, 0, 0, 4)))
        batches = 8
        size = len(events) // batches + 1
        for batch in range(batches):
            self.put(project, spark, batch, events[batch * size : (batch + 1) * size])
            alone = batch % 3 == 1
            run_dbt(["build", *(["--exclude", "changes_final"] if alone else [])])
            if not alone:
                assert current(project, catalog="ice.") == open_versions(project, "ice."), batch
        run_dbt(["build"])
        wanted = open_versions(project, "ice.")
        assert current(project, catalog="ice.") == wanted
        run_dbt(["build", "--full-refresh"])
        assert open_versions(project, "ice.") == wanted
