"""The ledger stands in the target's schema, whether or not anything else is built there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.history.tables import FINAL, histories, rows

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}_raw"
    tables:
      - name: items
        config:
          meta:
            cdc: {format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch}
        columns: &columns [{name: id, data_type: bigint}, {name: a, data_type: string}]
      - name: pets
        config: {meta: {cdc: {format: wal2json_v1, keys: [id], arrival: batch, history: false}}}
        columns: *columns
"""


def transaction(lsn: int, *ids: int) -> str:
    """A message of wal2json with several changes."""
    change = {
        "kind": "insert",
        "schema": "public",
        "table": "pets",
        "columnnames": ["id", "a"],
        "columntypes": ["bigint", "text"],
    }
    changes = [change | {"columnvalues": [number, "a"]} for number in ids]
    at = {"timestamp": "2026-01-01 10:00:00+00", "nextlsn": f"0/{lsn}", "xid": lsn}
    # `run_sql` takes single braces for places of its own.
    return json.dumps(at | {"change": changes}).replace("{", "{{").replace("}", "}}")


class TestLedgerSchema:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        models = {**project_config_update["models"], "+schema": "built"}
        return {
            **project_config_update,
            "models": models,
            "snapshots": {"+schema": "built"},
            "on-run-end": ["{{ cdc.record_run(results) }}"],
        }

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_items.sql": "{{ cdc.events(source('app', 'items')) }}",
            "items_final.sql": FINAL.format(read="items_history"),
            "stg_pets.sql": "{{ cdc.events(source('app', 'pets')) }}",
            "pets_final.sql": FINAL.format(read="stg_pets"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items")

    @pytest.fixture
    def raw(self, project: Any, package: None) -> Iterator[str]:
        """The raw table; and of the target's own schema nothing."""
        schema = project.test_schema
        project.run_sql(f"drop schema {schema} cascade")
        project.run_sql(f"create schema {schema}_raw")
        table = f"{schema}_raw.items"
        project.run_sql(
            f"create table {table} (id bigint, op string, seq int, a string, batch int) using delta"
        )
        project.run_sql(f"create table {schema}_raw.pets (value string, batch int) using delta")
        yield table
        for name in (f"{schema}_raw", f"{schema}_built"):
            project.run_sql(f"drop schema if exists {name} cascade")

    def test_the_ledger_has_a_schema_where_nothing_else_is_built(
        self, project: Any, raw: str
    ) -> None:
        project.run_sql(f"insert into {raw} values (1, 'I', 1, 'a', 1), (2, 'I', 2, 'b', 1)")
        pets = raw.replace("items", "pets")
        project.run_sql(f"insert into {pets} values ('{transaction(1, 1)}', 1)")
        run_dbt(["build"])
        found = rows(project, "select id, a from {s}_built.items_final order by id")
        assert found == [(1, "a"), (2, "b")]
        ledger = rows(project, "select node, events_read from {s}.cdc_runs order by node")
        assert ledger == [("items_history", 2), ("pets_final", 1)]

        # As many events as raw rows, and one of the rows has none.
        project.run_sql(f"insert into {pets} values ('{transaction(2, 2, 3)}', 2), ('broken', 2)")
        run_dbt(["build", "--select", "+pets_final"])
        counted = (
            "select events_read, events_quarantined from {s}.cdc_runs where watermark_after = 2"
        )
        assert rows(project, counted) == [(3, 1)]
