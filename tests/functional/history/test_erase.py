"""Erasure: a person is gone from rows and files, stays gone, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from dbt.adapters.sparkcdc.impl import SparkCdcAdapter
from dbt.tests.util import run_dbt, run_dbt_and_capture
from dbt_common.exceptions import DbtRuntimeError

from tests.functional.history import tables
from tests.functional.history.tables import FINAL, histories

pytestmark = pytest.mark.extended

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
      - name: people
        config:
          meta:
            cdc: &cdc
              {format: flagged, keys: [id], sequence_by: seq, event_time: at, operation: op,
               arrival: batch}
        columns: &columns
          - {name: id, data_type: bigint}
          - {name: email, data_type: string}
          - {name: city, data_type: string}
      - name: visits
        config: {meta: {cdc: {<<: *cdc, history: false}}}
        columns: *columns
"""
CHANGES = """
{{ config(materialized='incremental', incremental_strategy='merge', file_format='delta') }}
{{ cdc.changelog(ref('people_final')) }}
"""
PERSON = "email like 'seven%'"
# Conditions that are looked at in the table itself, and what no table is asked about.
CONDITIONS = [
    (
        {"table": "people_final", "where": "email like 'seven"},
        "is not a condition on people_final, whose columns are id, email",
    ),
    ({"table": "people_final", "where": "id > 0"}, "holds for all 60 rows"),
    ({"table": "people_final", "where": "id = 4711"}, "no row of people_final"),
]
ARGUMENTS = [
    ({"table": "nowhere", "where": PERSON}, "nowhere is not a history"),
    ({"table": "people_final", "keys": [1, "x"]}, "key 2 of `keys` is not a bigint"),
    ({"table": "people_final", "keys": [1], "where": "id = 1"}, "cannot be combined"),
    ({"where": "id = 1"}, "needs a `table`"),
]
# What is built of the people.
PEOPLE = ["people_history", "people_final", "people_changes"]
TABLES = ["people", "people_history", "people_history_tombstones", "people_final", "people_changes"]


class TestErase:
    # Whether some data files of each table hold nothing of the person.
    has_other_files = True
    refusals: ClassVar[list[tuple[dict[str, Any], str]]] = CONDITIONS + ARGUMENTS
    # How a changelog goes on after a full refresh of its table.
    after_refresh: tuple[str, ...] = ()

    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return project_config_update | {"on-run-end": ["{{ cdc.record_run(results) }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return self.bodies()

    def bodies(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_people.sql": "{{ cdc.events(source('app', 'people')) }}",
            "stg_visits.sql": "{{ cdc.events(source('app', 'visits')) }}",
            "people_final.sql": FINAL.format(read="people_history"),
            "visits_final.sql": FINAL.format(read="stg_visits"),
            "people_changes.sql": CHANGES,
            "people_audit.sql": "{{ cdc.audit(ref('people_history'), ref('people_final')) }}",
            "cities.sql": "{{ config(materialized='table') }}"
            "select distinct city from {{ ref('people_final') }}",
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(people_history="stg_people")

    @pytest.fixture(autouse=True)
    def prepare(self, project: Any, warehouse: Path) -> Iterator[None]:
        self.project, self.warehouse = project, warehouse
        yield

    def arrive(self, table: str, batch: int, *events: tuple[int, int, str, str | None]) -> None:
        """Events (key, day of 2026, operation, email), in one file of the raw table."""
        values = ", ".join(
            f"({key}, {seq}, '{op}', {'null' if email is None else repr(email)}, 'Bern',"
            f" timestamp '2026-01-01' + make_dt_interval({seq}), {batch})"
            for key, seq, op, email in events
        )
        name = f"{self.project.test_schema}.{table}"
        self.project.run_sql(f"insert into {name} select /*+ coalesce(1) */ * from values {values}")

    def operate(self, operation: str = "cdc_erase", *, passes: bool = True, **args: Any) -> str:
        command = ["run-operation", operation, "--args", json.dumps(args)]
        result, said = run_dbt_and_capture(command, expect_pass=None)  # type: ignore[arg-type]
        assert all(part.status == "success" for part in result) == passes, said
        return said

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return tables.rows(self.project, query)

    def folder(self, table: str) -> Path:
        return self.warehouse / f"{self.project.test_schema}.db" / table

    def holding(self, text: str, names: list[str] = TABLES) -> set[str]:
        """The tables with a file that holds a text, by reading every file as it is."""
        found = set()
        for table in names:
            for file in self.folder(table).rglob("*"):
                if file.is_file():
                    content = self.content(file)
                    if text.encode() in content:
                        found.add(table)
        return found

    def content(self, file: Path) -> bytes:
        """The bytes of a file, and what is compressed in them."""
        content = file.read_bytes()
        if file.suffix == ".parquet":
            content += repr(pq.ParquetFile(file).read().to_pylist()).encode()
        return content

    def data(self, table: str) -> set[str]:
        return {file.name for file in self.folder(table).rglob("part-*.parquet")}

    def state(self, key: int = 7) -> list[Any]:
        """The rows of other keys."""
        return [
            self.rows(f"select * from {{s}}.{table} where id <> {key} order by all")
            for table in ("people_history", "people_final", "people_changes")
        ]

    def writes(self, table: str) -> int:
        return tables.writes(self.project, table)

    def audit_holds(self) -> None:
        assert tables.unexplained(self.project, "people_audit") == 0

    @pytest.mark.usefixtures("package")
    def test_one_after_the_other(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        for table in ("people", "visits"):
            project.run_sql(
                f"create table {project.test_schema}.{table} (id bigint, seq int, op string,"
                " email string, city string, at timestamp, batch int) using delta"
            )
        self.bad_input_is_refused_and_a_dry_run_writes_nothing()
        self.a_crash_is_finished_by_running_it_again(monkeypatch)
        self.a_build_writes_nothing()
        self.the_tables_go_on()

    def the_tables_go_on(self) -> None:
        self.a_table_without_a_history_loses_the_person()
        self.nothing_brings_the_person_back()
        self.a_key_may_return()

    def bad_input_is_refused_and_a_dry_run_writes_nothing(self) -> None:
        # A build writes one file, and this one does not hold the person.
        self.arrive("people", 0, *((key, 1, "I", f"q{key}@example.com") for key in range(101, 131)))
        run_dbt(["build", "--select", "stg_people", "people_history", "people_final"])
        people = [(key, 1, "I", f"p{key}@example.com") for key in range(1, 31) if key != 7]
        self.arrive("people", 1, *people, (7, 1, "I", "seven@example.com"))
        self.arrive("visits", 1, *people, (7, 1, "I", "visitor@example.com"))
        run_dbt(["build", "--select", *PEOPLE, "stg_visits", "visits_final"])
        self.arrive("people", 2, (7, 5, "U", "seven.new@example.com"), (8, 5, "U", "eight@a.com"))
        self.arrive("people", 2, (99, 5, "D", "nobody@example.com"), (9, 5, "U", "other@a.com"))
        # Its number is the highest of the raw table, and only the person has it.
        self.arrive("people", 3, (7, 3, "U", "seven.between@example.com"))
        run_dbt(["build", "--select", *PEOPLE])
        before = self.state()
        assert self.holding("seven") == set(TABLES) - {"people_history_tombstones"}
        for args, message in self.refusals:
            assert message in self.operate(passes=False, dry_run=False, **args)
        # A RESTORE leaves a log without checksums.
        for table in TABLES:
            for checksum in (self.folder(table) / "_delta_log").glob("*.crc"):
                checksum.unlink()
        said = self.operate(table="people_history", where=PERSON)
        assert "nothing was written" in said and "1 key would be erased" in said
        assert "people: 3 raw events" in said and "people_history: 3 rows" in said
        assert "Rebuild them" in said and "tables: cities" in said
        assert self.state() == before
        assert not self.rows("show tables in {s} like 'cdc_erasures'")
        assert self.holding("seven") == set(TABLES) - {"people_history_tombstones"}

    def a_crash_is_finished_by_running_it_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before, data = self.state(), {table: self.data(table) for table in TABLES}
        kept = SparkCdcAdapter.forget_past

        def dies(adapter: Any, table: str, *args: Any) -> Any:
            if table.endswith("history`") or table.endswith("history"):
                raise DbtRuntimeError("killed here")
            return kept(adapter, table, *args)

        args = {"table": "people_history", "where": PERSON, "dry_run": False}
        with monkeypatch.context() as patched:
            patched.setattr(SparkCdcAdapter, "forget_past", dies)
            assert "killed here" in self.operate(passes=False, **args)
        assert self.rows("select is_done from {s}.cdc_erasures") == [(False,)]
        assert "people_history" in self.holding("seven")
        said = self.operate(**args)
        assert self.holding("seven") == set()
        assert self.holding("p8@example.com") >= {"people", "people_history"}
        assert self.state() == before
        for table in TABLES:
            assert not self.rows(f"select 1 from {{s}}.{table} where id = 7")
        # Files of other keys are those that they were.
        for table in ("people", "people_history", "people_final"):
            assert self.data(table) & data[table] or not self.has_other_files
        certificate = self.rows(
            "select role, sum(rows_removed), max(files_rewritten), max(files_holding)"
            " from {s}.cdc_erasure_certificates group by role order by role",
        )
        assert [row[0] for row in certificate] == sorted(
            ["changelog", "final", "history", "raw", "tombstones"]
        )
        assert {row[3] for row in certificate} == {0}
        [file] = Path(self.project.project_root).glob("target/cdc_erasure_*.json")
        assert "seven" not in file.read_text() and "seven" not in said
        assert self.rows("select is_done from {s}.cdc_erasures") == [(True,)]

    def a_build_writes_nothing(self) -> None:
        before = self.state()
        written = [self.writes(table) for table in TABLES]
        run_dbt(["build", "--select", "stg_people", *PEOPLE, "people_audit"])
        assert self.state() == before
        assert [self.writes(table) for table in TABLES] == written
        self.audit_holds()

    def a_table_without_a_history_loses_the_person(self) -> None:
        names = ["visits", "visits_final"]
        self.others = [row for row in self.visits() if row[0] != 7]
        assert self.holding("visitor", names) == set(names)
        self.operate(table="app.visits", keys=[7], dry_run=False)
        assert self.holding("visitor", names) == set()

    def visits(self) -> list[tuple[Any, ...]]:
        found = self.rows("select id, email, city from {s}.visits_final order by id")
        return [tuple(row) for row in found]

    def nothing_brings_the_person_back(self) -> None:
        # The late event meets a staging view that dbt has not built since.
        late = (7, 4, "U", "seven.late@example.com")
        # One that would be in the quarantine.
        bad = (7, 5, "X", "seven.bad@example.com")
        self.arrive("people", 4, late, bad, (8, 6, "U", "eight@b.com"))
        run_dbt(["build", "--select", *PEOPLE])
        count = "select count(*), count_if(id = 7) from {s}.people_final"
        assert self.rows(count) == [(59, 0)]
        assert self.rows("select email from {s}.people_final where id = 8") == [("eight@b.com",)]
        # The changelog goes on where it was.
        kinds = "select _row_kind from {s}.people_changes where email = 'eight@b.com'"
        assert self.rows(kinds) == [("+U",)]
        ledger = (
            "select events_read, events_updated, events_erased from {s}.cdc_runs"
            " where watermark_after = 4"
        )
        assert self.rows(ledger) == [(3, 1, 2)]
        tables = [*PEOPLE[:2], "people_audit", "stg_visits", "visits_final"]
        run_dbt(["build", "--full-refresh", "--select", "stg_people", *tables])
        assert self.rows(count) == [(59, 0)]
        assert not self.rows("select 1 from {s}.people_history where id = 7")
        assert self.visits() == self.others
        self.audit_holds()
        # The raw event of it is still there, until it is erased as well.
        run_dbt(["run", "--select", "people_changes", *self.after_refresh])
        for address in ("seven.late", "seven.bad"):
            assert self.holding(address) == {"people"}
        self.operate(table="app.people", dry_run=False)
        for address in ("seven.late", "seven.bad"):
            assert self.holding(address) == set()
        assert self.rows(count) == [(59, 0)]

    def a_key_may_return(self) -> None:
        refused = self.operate(
            "cdc_allow_return", passes=False, table="app.people", keys=8, since="x"
        )
        assert "`since: x` is not a time" in refused and "`keys` is not a list of keys" in refused
        unknown = {"table": "app.people", "keys": [{"id": 7}, {"id": 8}], "since": "2026-02-01"}
        refused = self.operate("cdc_allow_return", passes=False, **unknown)
        assert "2 keys are named, and 1 of them are erased" in refused
        # A key is one key, however often and in whatever form it is named.
        since = {"table": "app.people", "keys": [7, "7", {"id": 7}], "since": "2026-02-01"}
        self.operate("cdc_allow_return", **since, dry_run=False)
        self.arrive(
            "people", 5, (7, 40, "I", "another@example.com"), (7, 6, "U", "seven.old@a.com")
        )
        run_dbt(["build", "--select", "stg_people", "people_history", "people_audit"])
        query = "select email, _seq from {s}.people_history where id = 7"
        assert self.rows(query) == [("another@example.com", 40)]
        self.audit_holds()
