"""History and current depend on the set of events only: any batching, any order, any repetition."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.history.tables import append
from tests.functional.oracle import Event, Version, histories
from tests.functional.scenarios import (
    BATCHES,
    Arrival,
    Scenario,
    draw_scenarios,
    pack,
    shrink,
)

SCENARIOS = int(os.environ.get("SCENARIOS", "500"))
MANY_SCENARIOS = 2000
SOAK_SCENARIOS = 10_000
SOAK_MINUTES = float(os.environ.get("MINUTES", "0"))

# One table of events, read by three declarations: the order by a struct, by an expression, and
# without a history.
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
          operation: op
          ignore_null_updates: [b]
          arrival: batch
    tables:
      - name: changes
        config: {meta: {cdc: {sequence_by: [step, sub]}}}
        columns: &columns
          - {name: scenario, data_type: int}
          - {name: id, data_type: int}
          - {name: a, data_type: string}
          - {name: b, data_type: string}
      - name: tracked
        identifier: changes
        config: {meta: {cdc: {sequence_by: step * 100 + sub, track_history_columns: [a]}}}
        columns: *columns
      - name: alone
        identifier: changes
        config: {meta: {cdc: {sequence_by: [step, sub], history: false}}}
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
    config:
      {strategy: cdc.scd2, unique_key: [scenario, id], file_format: delta,
      write_mode: merge-on-read}
"""

FINAL = """
{{{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key=['scenario', 'id']
) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""

DECLARED = {
    "changes": (("a", "b"), "changes_history"),
    "tracked": (("a",), "tracked_history"),
    "alone": (("a", "b"), "stg_alone"),
}
CHANGES = """
{{{{ config(materialized='table', tags=['feed']) }}}}
{{{{ cdc.changelog(ref('{name}_final')) }}}}
"""

AUDIT = """
select * from ({{ cdc.audit(ref('changes_history'), ref('changes_final')) }})
union all
select * from ({{ cdc.audit(ref('stg_alone'), ref('alone_final')) }})
"""

BUILD = ["build", "--exclude", "tag:feed"]
TABLES = ["changes_history", "tracked_history", "changes_final", "tracked_final", "alone_final"]


class Tables:
    """What the tests of one project ask of it.

    Attributes:
        schema: Where the events are.
        built: Where histories and final tables are.
    """

    def __init__(self, project: Any, spark: Any, catalog: str = "") -> None:
        self.project, self.spark, self.schema = project, spark, project.test_schema
        self.built = catalog + self.schema

    def empty(self) -> None:
        """Drops what was built, and makes the table of events again."""
        for table in TABLES + [f"{name}_history_tombstones" for name in ("changes", "tracked")]:
            self.spark.sql(f"drop table if exists {self.built}.{table}")
        self.spark.sql(
            f"create or replace table {self.schema}.changes (scenario int, id int, step int,"
            " sub int, op string, a string, b string, batch int) using delta"
        )

    def put(self, batch: int, events: list[Event]) -> None:
        arriving = [
            (e.scenario, e.id, e.position // 100, e.position % 100, e.op, e.a, e.b, batch)
            for e in events
        ]
        table = f"{self.schema}.changes"
        append(self.spark, table, arriving, self.spark.table(table).schema)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        table = self.spark.sql(query.format(schema=self.schema, built=self.built)).toArrow()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def version(self, table: str) -> int:
        """The newest version of a table."""
        return int(self.rows(f"describe history {{built}}.{table} limit 1")[0][0])

    def versions(self) -> dict[str, int]:
        """The newest version of each table."""
        return {table: self.version(table) for table in TABLES}

    def changed(self, versions: dict[str, int]) -> list[str]:
        """The tables whose rows are not those of a version."""
        return [
            table
            for table, version in versions.items()
            if unequal(
                self,
                f"select * from {{built}}.{table}",
                f"select * from {{built}}.{table} version as of {version}",
            )
        ]

    def ids(self, name: str) -> dict[Event, int]:
        """The id that each event has got: it orders upserts of one position."""
        position = number(name, "_seq")
        found = self.rows(
            f"select scenario, id, {position}, _op, a, b, _event_id from {{schema}}.stg_{name}"
        )
        return {Event(*row[:6]): row[6] for row in found}

    def differences(self, events: list[Event]) -> dict[int, str]:
        """Compares all tables with the oracle; the differences by scenario."""
        wrong: dict[int, str] = {}
        for name, (tracked, _) in DECLARED.items():
            expected = histories(events, tracked, self.ids(name))
            if name != "alone":
                columns = ", ".join(
                    number(name, column)
                    for column in ("_seq", "_seq_end", "_cdc_created_at", "_cdc_seq")
                )
                found = self.rows(
                    f"select scenario, id, a, b, {columns} from {{built}}.{name}_history"
                )
                versions = [Version(*row) for row in found]
                compare(wrong, f"{name}_history", set(expected), versions)
            columns = ", ".join(
                number(name, column)
                for column in ("_cdc_created_at", "_cdc_updated_at", "_cdc_seq")
            )
            living = "where _cdc_deleted_at is null" if name == "alone" else ""
            compare(
                wrong,
                f"{name}_final",
                {
                    (v.scenario, v.id, v.a, v.b, v.created, v.changed, v.changed)
                    for v in expected
                    if v.seq_end is None
                },
                self.rows(
                    f"select scenario, id, a, b, {columns} from {{built}}.{name}_final {living}"
                ),
            )
        return wrong

    def broken(self, scenarios: list[Scenario]) -> list[int]:
        """Runs scenarios batch by batch; the numbers of those whose tables are not the oracle's."""
        self.empty()
        arrivals = pack(scenarios)
        wrong: dict[int, str] = {}
        for batch in range(BATCHES):
            self.put(batch, arriving(arrivals, batch))
            run_dbt([*BUILD])
            wrong |= self.differences(
                [event for event, batches in arrivals if min(batches) <= batch]
            )
        return sorted(wrong)

    def explain(self, scenarios: list[Scenario], number: int) -> str:
        """A scenario that fails, shrunk, as a test case to copy."""
        shrunk = shrink(scenarios[number], self.broken)
        self.broken([shrunk])
        lines = ",\n    ".join(map(repr, shrunk))
        return f"A scenario fails:\nSCENARIO = (\n    {lines},\n)\nassert broken([SCENARIO]) == []"


def unequal(tables: Tables, left: str, right: str) -> list[tuple[Any, ...]]:
    """Rows that only one of two queries gives."""
    return tables.rows(f"({left} except all {right}) union all ({right} except all {left})")


def number(name: str, column: str) -> str:
    """A position as the oracle counts them."""
    if name == "tracked":
        return column
    return f"{column}.part_1 * 100 + {column}.part_2"


def compare(wrong: dict[int, str], table: str, expected: set[Any], found: list[Any]) -> None:
    for row in expected ^ set(found):
        side = "missing" if row in expected else "surplus"
        wrong[row[0]] = f"{table}: {side} {row}"
    for row, times in Counter(found).items():
        # Of versions without duration, those of ties, two can look the same.
        if times > 1 and row[4] != row[5]:
            wrong[row[0]] = f"{table}: {times} times {row}"


def arriving(arrivals: list[Arrival], batch: int) -> list[Event]:
    return [event for event, batches in arrivals for number in batches if number == batch]


class TestOneAnswer:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": SOURCES}
        for name, (_, read) in DECLARED.items():
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            models[f"{name}_final.sql"] = FINAL.format(read=read)
            models[f"{name}_changes.sql"] = CHANGES.format(name=name)
        models["audit.sql"] = AUDIT
        return models

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOTS}

    @pytest.fixture
    def tables(self, project: Any, spark: Any) -> Iterator[Tables]:
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        yield Tables(project, spark)

    @pytest.mark.parametrize(
        "count", [SCENARIOS, pytest.param(MANY_SCENARIOS, marks=pytest.mark.soak)]
    )
    def test_any_batching_any_order(self, tables: Tables, count: int) -> None:
        tables.empty()
        scenarios = draw_scenarios(count, start=20261121)
        arrivals = pack(scenarios)
        events = [event for event, _ in arrivals]
        for batch in range(BATCHES):
            tables.put(batch, arriving(arrivals, batch))
            run_dbt([*BUILD])
            seen = [event for event, batches in arrivals if min(batches) <= batch]
            wrong = tables.differences(seen)
            assert not wrong, tables.explain(scenarios, min(wrong))

        # Nothing new writes nothing.
        versions = tables.versions()
        run_dbt([*BUILD])
        assert versions == tables.versions()

        # The changes add up to the table, and none is for nothing.
        run_dbt(["build", "--select", "tag:feed"])
        for name in DECLARED:
            columns = "scenario, id, a, b, _cdc_created_at, _cdc_updated_at, _cdc_seq"
            changes = f"{{schema}}.{name}_changes"
            living = "where _cdc_deleted_at is null" if name == "alone" else ""
            added = (
                f"select {columns} from {changes} group by {columns}"
                " having sum(if(_row_kind in ('+I', '+U'), 1, -1)) <> 0"
            )
            table = f"select {columns} from {{schema}}.{name}_final {living}"
            assert not unequal(tables, added, table)
            assert not tables.rows(
                f"select _commit_version, {columns} from {changes}"
                f" group by _commit_version, {columns} having count(*) > 1"
            )
        for row in tables.rows("select * from {schema}.audit"):
            _, read, applied, duplicate, superseded, quarantined = row[:6]
            assert read == applied + duplicate + superseded + quarantined > 0

        # A replay changes no row, and a rebuild from the raw events gives the same rows.
        tables.put(BATCHES, events[: len(events) // 2])
        run_dbt([*BUILD])
        assert not tables.changed(versions)
        run_dbt([*BUILD, "--full-refresh"])
        assert not tables.differences(events)
        assert not tables.changed(versions)

    @pytest.mark.soak
    def test_soak(self, tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
        start = time.time_ns()
        end = time.monotonic() + SOAK_MINUTES * 60
        proven = 0
        while time.monotonic() < end:
            scenarios = draw_scenarios(SOAK_SCENARIOS, start + proven)
            broken = tables.broken(scenarios)
            assert not broken, tables.explain(scenarios, broken[0])
            proven += len(scenarios)
            with capsys.disabled():
                print(f"{proven:,} scenarios equal the oracle after every batch")
