"""History and current depend on the set of events only: any batching, any order, any repetition."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.oracle import Event, Version, histories

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = 400
BATCHES = 3

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config:
      meta:
        cdc:
          format: flagged
          keys: [scenario, id]
          sequence_by: seq
          operation: op
          ignore_null_updates: [b]
          arrival: batch
    tables:
      - name: changes
        columns: &columns
          - {name: scenario, data_type: int}
          - {name: id, data_type: int}
          - {name: a, data_type: string}
          - {name: b, data_type: string}
      - name: tracked
        identifier: changes
        config: {meta: {cdc: {track_history_columns: [a]}}}
        columns: *columns
"""

SNAPSHOTS = """
version: 2
snapshots:
  - name: changes_history
    relation: ref('stg_changes')
    config: {strategy: cdc.scd2, unique_key: [scenario, id], file_format: delta}
  - name: tracked_history
    relation: ref('stg_tracked')
    config: {strategy: cdc.scd2, unique_key: [scenario, id], file_format: delta}
"""

FINAL = """
{{{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key=['scenario', 'id']
) }}}}
{{{{ cdc.current(ref('{name}_history')) }}}}
"""


def random_events(seed: int) -> list[Event]:
    """Some events of many small worlds, and two truncates that hit them all."""
    dice = random.Random(seed)
    events = [Event(None, None, seq, "T", None, None) for seq in (9, 17)]
    for scenario in range(SCENARIOS):
        for key in range(dice.randint(1, 3)):
            for seq in dice.sample(range(1, 31), dice.randint(1, 8)):
                a, b = dice.choice("xyz"), dice.choice(["p", "q", None, None])
                kind = dice.random()
                if kind < 0.75:
                    events.append(Event(scenario, key, seq, dice.choice("IU"), a, b))
                if kind > 0.65:  # now and then at the position of an upsert: the delete wins
                    events.append(Event(scenario, key, seq, "D", None, None))
    return events


def in_batches(events: list[Event], seed: int) -> list[list[Event]]:
    """The events in any order, some of them twice; every truncate in another batch."""
    dice = random.Random(seed)
    doubled = events + dice.sample(events, len(events) // 7)
    batches: list[list[Event]] = [[] for _ in range(BATCHES)]
    for event in doubled:
        batches[dice.randrange(BATCHES)].append(event)
    return batches


def literal(value: Any) -> str:
    return "null" if value is None else repr(value)


class TestOneAnswer:
    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        return {"packages": [{"local": str(ROOT)}]}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "models": {"+file_format": "delta"},
            "dispatch": [{"macro_namespace": "dbt", "search_order": ["test", "cdc", "dbt"]}],
        }

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": SOURCES}
        for name in ("changes", "tracked"):
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            models[f"{name}_final.sql"] = FINAL.format(name=name)
        return models

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOTS}

    def put(self, project: Any, batch: int, events: list[Event]) -> None:
        rows = ", ".join(f"({', '.join(map(literal, event))}, {batch})" for event in events)
        project.run_sql(f"insert into {project.test_schema}.changes values {rows}")

    def history(self, project: Any, name: str) -> list[Version]:
        rows = project.run_sql(
            "select scenario, id, a, b, _seq, _seq_end, _cdc_created_at, _cdc_seq"
            f" from {project.test_schema}.{name}_history",
            fetch="all",
        )
        return [Version(*row) for row in rows]

    def everything(self, project: Any, table: str) -> list[tuple[Any, ...]]:
        return sorted(
            project.run_sql(f"select * from {project.test_schema}.{table}", fetch="all"), key=repr
        )

    def commits(self, project: Any, table: str) -> int:
        return len(project.run_sql(f"describe history {project.test_schema}.{table}", fetch="all"))

    def check(self, project: Any, events: list[Event]) -> None:
        for name, tracked in (("changes", ("a", "b")), ("tracked", ("a",))):
            expected = histories(events, tracked)
            actual = self.history(project, name)
            assert len(actual) == len(set(actual))
            assert set(actual) == expected
            current = self.everything(project, f"{name}_final")
            assert [row[:4] for row in current] == sorted(
                [(v.scenario, v.id, v.a, v.b) for v in expected if v.seq_end is None], key=repr
            )
            assert {row[4:] for row in current} == {
                (v.created, v.changed, v.changed) for v in expected if v.seq_end is None
            }

    def test_any_batching_any_order(self, project: Any) -> None:
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        project.run_sql(
            f"create table {project.test_schema}.changes"
            " (scenario int, id int, seq int, op string, a string, b string, batch int) using delta"
        )
        events = random_events(seed=4)
        seen: list[Event] = []
        for batch, part in enumerate(in_batches(events, seed=5)):
            self.put(project, batch, part)
            seen += part
            run_dbt(["build"])
            self.check(project, seen)

        # Nothing new writes nothing.
        commits = [self.commits(project, f"{name}_history") for name in ("changes", "tracked")]
        run_dbt(["build"])
        assert commits == [
            self.commits(project, f"{name}_history") for name in ("changes", "tracked")
        ]

        # A replay changes no row, and a rebuild from the raw events gives the same rows.
        tables = ["changes_history", "tracked_history", "changes_final", "tracked_final"]
        before = {table: self.everything(project, table) for table in tables}
        self.put(project, BATCHES, events[: len(events) // 2])
        run_dbt(["build"])
        assert before == {table: self.everything(project, table) for table in tables}
        run_dbt(["build", "--full-refresh"])
        assert before == {table: self.everything(project, table) for table in tables}
