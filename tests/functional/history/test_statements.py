"""A batch costs few SQL statements: they are counted, not timed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.statement_log import FILE
from dbt.tests.util import run_dbt

from tests.functional.history.tables import FINAL, histories, rows
from tests.functional.statements import Statements, recorded_statements

# Statements of one table's batch, with history and final table, for a late event too.
MOST = 7
# Of a build that finds nothing new.
MOST_IDLE = 2

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
      - name: items
        identifier: raw_items
        config:
          meta:
            cdc: {format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch}
        columns: [{name: id, data_type: bigint}, {name: a, data_type: string}]
"""
STAGING = "{{ config(materialized='view') }}{{ cdc.events(source('app', 'items')) }}"
NODES = {"stg_items", "items_history", "items"}


class TestStatements:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**dbt_profile_target, "log_statements": True}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_items.sql": STAGING,
            "items.sql": FINAL.format(read="items_history"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items")

    @pytest.mark.usefixtures("package")
    def test_a_batch_of_a_table_with_history_runs_few_statements(self, project: Any) -> None:
        raw = f"{project.test_schema}.raw_items"
        project.run_sql(
            f"create table {raw} (id bigint, a string, seq int, op string, batch int) using delta"
        )

        def arrives(*events: str) -> None:
            project.run_sql(f"insert into {raw} values {', '.join(events)}")

        arrives("(1, 'a', 1, 'I', 1), (2, 'a', 2, 'I', 1), (3, 'a', 3, 'I', 1)")
        run_dbt(["build"])
        # A change, a new key, a delete and a late event: all that a batch has to do.
        arrives("(1, 'b', 11, 'U', 2), (4, 'a', 12, 'I', 2), (2, null, 13, 'D', 2)")
        arrives("(3, 'z', 2, 'U', 2)")
        with recorded_statements() as batch:
            run_dbt(["build"])
        assert rows(project, "select id, a from {s}.items order by id") == [
            (1, "b"),
            (3, "a"),
            (4, "a"),
        ]
        # The staging view stays, for its text and the types of the raw table are the same.
        assert batch.by_node().keys() == NODES - {"stg_items"}, batch.by_node()
        assert len(batch.of()) <= MOST, f"{batch.by_node()}\n{batch.listed()}"

        with recorded_statements() as idle:
            run_dbt(["build"])
        assert len(idle.of()) <= MOST_IDLE, f"{idle.by_node()}\n{idle.listed()}"

        # The option for people records the same ones, of the last build alone.
        assert logged(project) == idle.by_node()
        arrives("(5, 'e', 21, 'I', 3), (1, 'c', 22, 'U', 3)")
        with recorded_statements() as batch:
            run_dbt(["build"])
        assert logged(project) == batch.by_node()
        assert forms(batch) == {"items_history": "replace", "items": "replace"}

        # New keys alone touch no row that is there. More keys than a statement lists are merged.
        many = "insert into {} select id, '{}', {} + id, '{}', {} from range(10, 2500)"
        for op, position, form in (("I", 100, "append"), ("U", 10_000, "merge")):
            project.run_sql(many.format(raw, op, position, op, position))
            with recorded_statements() as batch:
                run_dbt(["build"])
            assert forms(batch) == {"items_history": form, "items": form}
            found = rows(project, "select count(*), max(a) from {s}.items where id >= 10")
            assert found == [(2490, op)]
        # Such rows say all that there is to say of their events.
        remembered = "select count(*) from {s}.items_history where _events is not null and id >= 10"
        assert rows(project, remembered) == [(0,)]


def forms(batch: Statements) -> dict[str, str]:
    """How a batch wrote each table."""
    found = {}
    for node, sql in batch.all:
        words = " ".join(sql.lower().split())
        if "merge into" in words:
            found[node] = "merge"
        elif "insert into" in words:
            found[node] = "replace" if " replace where " in words else "append"
    return found


def logged(project: Any) -> dict[str, int]:
    """How many statements of each node `log_statements` recorded."""
    text = Path(project.project_root, "target", FILE).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(line["seconds"] > 0 and not line["failed"] for line in lines)
    assert any("merge into" in line["sql"] or "insert into" in line["sql"] for line in lines) or (
        len(lines) <= MOST_IDLE
    )
    return dict(Counter(line["node"].split(".")[2] for line in lines if line["node"]))
