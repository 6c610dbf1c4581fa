"""A project with one table of changes, read twice: with a history and without one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.functional.oracle import Event, histories

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
          arrival: batch
    tables:
      - name: changes
        columns: &columns
          - {name: scenario, data_type: int}
          - {name: id, data_type: int}
          - {name: a, data_type: string}
          - {name: b, data_type: string}
      - name: alone
        identifier: changes
        config: {meta: {cdc: {history: false}}}
        columns: *columns
"""

SNAPSHOTS = """
version: 2
snapshots:
  - name: changes_history
    relation: ref('stg_changes')
    config: {strategy: cdc.scd2, unique_key: [scenario, id], file_format: delta}
"""

FINAL = """
{{{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key=['scenario', 'id']
) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""

# Statements that commit; the steps of a run are files that no table knows.
WRITES = re.compile(
    r"\s*(/\*.*?\*/\s*)?(merge|insert into|create or replace table|create table)\b", re.S
)


def events_of(batch: int) -> list[Event]:
    """A new row, updates of an old one, a late one too, deletes, and now and then a truncate."""
    now = 10 * batch
    events = [
        Event(0, batch, now, "I", "x", "p"),
        Event(0, batch - 1, now + 1, "U", f"v{batch}", "q"),
        Event(0, batch - 1, now - 9, "U", "late", "q"),
        Event(0, batch - 2, now + 2, "D", None, None),
        Event(0, 1000 + batch, now + 3, "D", None, None),
    ]
    return events + [Event(None, None, now + 4, "T", None, None)] * (batch % 4 == 3)


class Changes:
    """Fixtures and helpers of test classes that build the project."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        return dbt_profile_target | {"threads": 1}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_changes.sql": "{{ cdc.events(source('app', 'changes')) }}",
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "changes_final.sql": FINAL.format(read="changes_history"),
            "alone_final.sql": FINAL.format(read="stg_alone"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOTS}

    @pytest.fixture(scope="class")
    def changes(self, project: Any, package: None) -> None:
        """The raw table, empty, and the package."""
        project.run_sql(
            f"create table {project.test_schema}.changes"
            " (scenario int, id int, seq int, op string, a string, b string, batch int) using delta"
        )

    def put(self, project: Any, batch: int, events: list[Event]) -> None:
        """Appends a batch of events to the raw table."""
        texts = ["(" + ", ".join("null" if v is None else repr(v) for v in e) for e in events]
        values = ", ".join(f"{text}, {batch})" for text in texts)
        project.run_sql(f"insert into {project.test_schema}.changes values {values}")

    def check(self, project: Any, events: list[Event]) -> None:
        """The tables are what the oracle makes of the events."""

        def rows(columns: str, table: str) -> set[tuple[Any, ...]]:
            query = f"select {columns} from {project.test_schema}.{table}"
            found = project.run_sql(query, fetch="all")
            assert len(found) == len(set(found)), table
            return set(found)

        expected = histories(events)
        history = "scenario, id, a, b, _seq, _seq_end, _cdc_created_at, _cdc_seq"
        assert rows(history, "changes_history") == {tuple(version) for version in expected}
        living = {(v.scenario, v.id, v.a, v.b, v.changed) for v in expected if v.seq_end is None}
        current = "scenario, id, a, b, _cdc_seq"
        assert rows(current, "changes_final") == living
        assert rows(current, "alone_final where _cdc_deleted_at is null") == living
