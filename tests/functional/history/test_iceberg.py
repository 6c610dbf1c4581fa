"""Histories and final tables of Iceberg: the same rules, and what people do to such tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.history.test_one_answer import (
    BUILD,
    DECLARED,
    FINAL,
    SOURCES,
    Tables,
    arriving,
)
from tests.functional.history.test_one_answer import SNAPSHOTS as IN_DELTA
from tests.functional.scenarios import BATCHES, draw_scenarios, pack

CATALOG = "ice"
SCENARIOS = 300

# Each table writes in another way.
WAYS = {
    "changes_history": "file_format: iceberg, write_mode: copy-on-write",
    "tracked_history": "file_format: iceberg, format_version: 3",
}
FINALS = {
    "changes": "file_format='iceberg'",
    "tracked": "file_format='iceberg', write_mode='copy-on-write', format_version=3",
    "alone": "file_format='iceberg', format_version=3",
}


def snapshots() -> str:
    text = IN_DELTA
    for name, way in WAYS.items():
        head, _, tail = text.partition(f"name: {name}\n")
        text = f"{head}name: {name}\n" + tail.replace("file_format: delta", way, 1)
    return text


class IcebergTables(Tables):
    def version(self, table: str) -> int:
        """The newest snapshot of a table."""
        newest = "select snapshot_id from {built}.TABLE.refs where name = 'main'"
        return int(self.rows(newest.replace("TABLE", table))[0][0])


@pytest.fixture(scope="class")
def dbt_profile_target(dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
    return {**dbt_profile_target, "iceberg_catalog": CATALOG}


class TestOneAnswerInIceberg:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": SOURCES}
        for name, (_, read) in DECLARED.items():
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            models[f"{name}_final.sql"] = FINAL.format(read=read).replace(
                "materialized", f"{FINALS[name]}, materialized"
            )
        return models

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": snapshots()}

    @pytest.fixture
    def tables(self, project: Any, spark: Any, package: None) -> Iterator[Tables]:
        yield IcebergTables(project, spark, f"{CATALOG}.")

    def test_any_batching_any_order(self, tables: Tables) -> None:
        tables.empty()
        scenarios = draw_scenarios(SCENARIOS, start=20261125)
        arrivals = pack(scenarios)
        events = [event for event, _ in arrivals]
        for batch in range(BATCHES):
            tables.put(batch, arriving(arrivals, batch))
            run_dbt(BUILD)
            seen = [event for event, batches in arrivals if min(batches) <= batch]
            wrong = tables.differences(seen)
            assert not wrong, tables.explain(scenarios, min(wrong))
        versions = tables.versions()
        run_dbt(BUILD)
        assert versions == tables.versions()

        # Known events change no row, and neither does a rebuild from the raw events.
        tables.put(BATCHES, events[: len(events) // 2])
        run_dbt(BUILD)
        assert not tables.changed(versions)
        run_dbt([*BUILD, "--full-refresh"])
        assert not tables.differences(events)
