"""Deletes and updates by condition: events of their own, which every rebuild repeats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.impl import SparkCdcAdapter
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file
from dbt_common.exceptions import DbtRuntimeError

from tests.functional.history.tables import FINAL, histories, rows, unexplained, writes

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
          - {name: city, data_type: string}
          - {name: country, data_type: string}
          - {name: points, data_type: "decimal(6,2)"}
      - name: visits
        identifier: people
        config: {meta: {cdc: {<<: *cdc, history: false}}}
        columns: *columns
      # Read whole in each run, in the session's own time.
      - name: whole
        identifier: people
        config: {meta: {cdc: {<<: *cdc, arrival: null}}}
        columns: *columns
      - name: log
        identifier: people
        config: {meta: {cdc: {<<: *cdc, keys: null}}}
        columns: *columns
"""
BASES = ["people_history", "visits_final", "whole_history"]
TABLES = ["people_history", "people_final", "visits_final", "whole_history"]
# What an audit reads: where the events are, and the current rows.
AUDITED = {
    "people": ("people_history", "people_final"),
    "visits": ("stg_visits", "visits_final"),
    "whole": ("whole_history", "whole_history"),
}


class TestAmend:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return project_config_update | {"on-run-end": ["{{ cdc.record_run(results) }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {
            "sources.yml": SOURCES,
            "people_final.sql": FINAL.format(read="people_history"),
            "visits_final.sql": FINAL.format(read="stg_visits"),
        }
        for name, tables in AUDITED.items():
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            read, now = tables
            models[f"{name}_audit.sql"] = f"{{{{ cdc.audit(ref('{read}'), ref('{now}')) }}}}"
        return models

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(people_history="stg_people", whole_history="stg_whole")

    @pytest.fixture(autouse=True)
    def prepare(self, project: Any) -> Iterator[None]:
        self.project = project
        yield

    def arrive(self, batch: int, *events: tuple[Any, ...]) -> None:
        """Events (key, position, operation, city, country, points) of the day of their position."""
        values = ", ".join(
            f"({key}, {seq}, '{op}', '{city}', '{country}', {points},"
            f" timestamp '2026-01-01' + make_dt_interval({seq}), {batch})"
            for key, seq, op, city, country, points in events
        )
        name = f"{self.project.test_schema}.people"
        self.project.run_sql(f"insert into {name} select /*+ coalesce(1) */ * from values {values}")

    def build(self, *more: str) -> None:
        """Builds all but the audits."""
        audits = [f"{name}_audit" for name in AUDITED]
        run_dbt(["build", "--exclude", *audits, *more])

    def amend(self, *, passes: bool = True, dry_run: bool = False, **args: Any) -> str:
        command = ["run-operation", "cdc_amend", "--args", json.dumps(args | {"dry_run": dry_run})]
        return run_dbt_and_capture(command, expect_pass=passes)[1]

    def amend_all(self, **args: Any) -> list[str]:
        """The same for a table with a history, one without, and one that is read whole."""
        tables = ("people_final", "visits_final", "whole_history")
        return [self.amend(table=table, **args) for table in tables]

    def final(self, expected: dict[int, tuple[Any, ...]]) -> None:
        """Checks city, country and points of all current rows in all tables."""
        for table, living in (
            ("people_final", "true"),
            ("visits_final", "_cdc_deleted_at is null"),
            ("whole_history", "_seq_end is null"),
        ):
            found = rows(
                self.project,
                f"select id, city, country, cast(points as double) from {{s}}.{table}"
                f" where {living}",
            )
            assert {row[0]: row[1:] for row in found} == expected, table
            assert len(found) == len(expected)

    def versions(self, key: int, history: str = "people_history") -> list[tuple[Any, ...]]:
        return rows(
            self.project,
            f"select city, country, cast(points as double), _seq, _seq_end from {{s}}.{history}"
            f" where id = {key} order by _seq, _seq_end nulls last, dbt_valid_from",
        )

    def state(self, *, but: int = 0) -> list[Any]:
        """The rows of all keys but one."""
        return [
            rows(self.project, f"select * from {{s}}.{table} where id <> {but} order by all")
            for table in TABLES
        ]

    def audits_hold(self) -> None:
        run_dbt(["run", "--select", *(f"{name}_audit" for name in AUDITED)])
        for name in AUDITED:
            assert unexplained(self.project, f"{name}_audit") == 0, name

    @pytest.mark.usefixtures("package")
    def test_one_after_the_other(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, warehouse: Path
    ) -> None:
        project.run_sql(
            f"create table {project.test_schema}.people (id bigint, seq int, op string,"
            " city string, country string, points decimal(6,2), at timestamp, batch int)"
            " using delta"
        )
        self.arrive(
            1,
            *((key, 10, "I", f"city {key}", "CH", key) for key in range(1, 8)),
            (11, 10, "I", "old", "XX", 1),
            (12, 10, "I", "old", "XX", 2),
            (12, 20, "U", "new", "XX", 2),
            (13, 10, "I", "old", "YY", 3),
        )
        self.build()
        self.bad_input_is_refused_at_once()
        self.a_killed_command_is_run_again(monkeypatch)
        self.rows_are_deleted()
        self.rows_are_updated_among_events_of_the_source()
        self.replays_and_a_lost_history_repeat_them()
        self.all_rows_and_the_same_row_again()
        self.columns_that_change_and_rows_whose_events_are_gone()
        self.an_erasure_takes_them_along(warehouse)

    def refused(self, args: dict[str, Any], *problems: str) -> None:
        """Checks that a call is refused with all these messages."""
        output = self.amend(passes=False, **args)
        for problem in problems:
            assert problem in output, problem

    def bad_input_is_refused_at_once(self) -> None:
        before = self.state()
        self.refused(
            {
                "table": "people_final",
                "set": {"id": 1, "town": "'x'", "city": None, "CITY": "'a'"},
                "everything": "yes",
            },
            "`where` is missing",
            "`everything` is yes",
            "`id` is a key column",
            "`town` is not a column",
            "`city` has no expression",
            "`CITY` is listed twice",
        )
        self.refused(
            {"table": "app.log", "where": "id > 0", "delete": True, "set": {"city": "'x'"}},
            "declares no keys",
            "has not been built",
            "`delete` and `set` cannot be combined",
        )
        self.refused({"table": "people_final", "where": "id > 0"}, "neither `delete` nor `set`")
        self.refused({"where": "true", "delete": True}, "cdc_amend needs a `table`")
        # One value would be rounded, one is too large, and one is no number.
        rounded = "case when id = 1 then points / 3 else 12345.00 end"
        for where, value, place in (
            ("id in (1, 2)", rounded, "in 2 rows"),
            ("id = 1", "'many'", "in 1 row."),
        ):
            args = {"table": "people_final", "where": where, "set": {"points": value}}
            self.refused(args, f"does not fit decimal(6,2) {place}")
        output = self.amend(table="people_final", where="id = 4711", delete=True)
        assert "no row is to be deleted" in output
        assert self.state() == before
        assert not rows(self.project, "show tables in {s} like 'cdc_amendments*'")

    def what_spark_does_not_accept_is_refused(self) -> None:
        recorded = "select count(*) from {s}.cdc_amendments__app__people"
        before = rows(self.project, recorded)
        wrong = {
            "town": "upper(",
            "points": "date '2026-01-01'",
            "country": "max(country)",
            "note": "explode(array('a', 'b'))",
        }
        self.refused(
            {"table": "people_final", "where": "contry = 'XX'", "set": wrong},
            "`where` is not a condition on people_final, whose columns are id, ",
            "`town` (upper() is not an expression",
            "`points` (date '2026-01-01') is a date, and the column is a decimal(8,2)",
            "`country` (max(country)) is not an expression",
            "`note` (explode(array('a', 'b'))) is not an expression",
        )
        assert rows(self.project, recorded) == before

    def a_killed_command_is_run_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before, execute = self.state(), SparkCdcAdapter.execute

        def dies(adapter: Any, sql: str, *args: Any, **more: Any) -> Any:
            if "insert into" in sql and "cdc_amendments__app__people" in sql:
                raise DbtRuntimeError("killed here")
            return execute(adapter, sql, *args, **more)

        args = {"table": "people_final", "where": "country = 'XX'", "delete": True}
        with monkeypatch.context() as patched:
            patched.setattr(SparkCdcAdapter, "execute", dies)
            assert "killed here" in self.amend(passes=False, **args)
        assert rows(self.project, "select * from {s}.cdc_amendments__app__people") == []
        run_dbt(["build", "--select", "stg_people", "people_history"])
        assert self.state() == before

    def rows_are_deleted(self) -> None:
        args = {"where": "country = 'XX'", "delete": True}
        said = self.amend_all(reason="no such country", **args)
        assert all("2 rows will be deleted" in one for one in said)
        # They wait for a build: the same again is known, and something else has to wait.
        for table in ("people_final", "visits_final"):
            assert "2 rows were recorded before" in self.amend(table=table, **args)
        recorded = "select count(*), max(_cdc_reason) from {s}.cdc_amendments__app__people"
        assert rows(self.project, recorded) == [(2, "no such country")]
        said = [self.amend(passes=False, table="people_final", where="id = 1", delete=True)]
        assert "has not applied the amendments" in said[0] and "dbt build --select" in said[0]
        # The staging view of the other tables was built before there were any.
        command = ["build", "--select", "whole_history"]
        assert (
            "the staging model does not show" in run_dbt_and_capture(command, expect_pass=False)[1]
        )
        self.build()
        self.expected = {key: (f"city {key}", "CH", float(key)) for key in range(1, 8)}
        self.expected[13] = ("old", "YY", 3.0)
        self.final(self.expected)
        for history in ("people_history", "whole_history"):
            assert self.versions(12, history) == [
                ("old", "XX", 2.0, 10, 20),
                ("new", "XX", 2.0, 20, 20),
            ]
        assert rows(
            self.project,
            "select events_read, events_deleted from {s}.cdc_runs where node = 'people_history'"
            " order by run_started_at desc limit 1",
        ) == [(2, 2)]
        assert rows(
            self.project,
            "select count(*) from {s}.people_history where country = 'XX' and id = 12"
            " and dbt_valid_to > current_timestamp() - interval 1 hour",
        ) == [(1,)]

    def nothing_more(self, **args: Any) -> None:
        """The same command finds nothing, and another build has nothing to do."""
        said = self.amend_all(**args)
        assert all("no row is to be" in one for one in said)
        before, written = self.state(), [writes(self.project, base) for base in BASES]
        run_dbt(["build", "--select", *BASES])
        assert self.state() == before
        assert [writes(self.project, base) for base in BASES] == written

    def rows_are_updated_among_events_of_the_source(self) -> None:
        change = {"COUNTRY": "lower('LI')", "points": "null", "city": "'city 1'"}
        said = self.amend_all(where="id <= 3", set=change)
        assert all("3 rows will be updated" in one for one in said)
        self.arrive(
            2,
            (2, 30, "U", "moved", "CH", 22),
            (3, 10, "I", "city 3", "CH", 3),  # once more
            (11, 30, "I", "back", "AA", 1),
            (12, 15, "U", "late", "XX", 5),
            (12, 20, "U", "new", "XX", 2),  # once more
        )
        self.build()
        for key in (1, 3):
            self.expected[key] = ("city 1", "li", None)
        self.expected[2] = ("moved", "CH", 22.0)
        self.expected[11] = ("back", "AA", 1.0)
        self.final(self.expected)
        for history in ("people_history", "whole_history"):
            assert self.versions(2, history) == [
                ("city 2", "CH", 2.0, 10, 10),
                ("city 1", "li", None, 10, 30),
                ("moved", "CH", 22.0, 30, None),
            ]
            assert self.versions(12, history) == [
                ("old", "XX", 2.0, 10, 15),
                ("late", "XX", 5.0, 15, 20),
                ("new", "XX", 2.0, 20, 20),
            ]
        self.audits_hold()
        self.nothing_more(where="id in (1, 3)", set=change)

    def replays_and_a_lost_history_repeat_them(self) -> None:
        """A row that was amended is deleted meanwhile."""
        before = self.state(but=3)
        self.amend_all(where="id = 3", delete=True)
        for table in ("people_history", "visits_final"):
            args = f"{{table: {table}, since: 1}}"
            run_dbt(["run-operation", "cdc_replay", "--args", args])
        self.project.run_sql(f"drop table {self.project.test_schema}.whole_history")
        self.build()
        assert self.state(but=3) == before
        for history in ("people_history", "whole_history"):
            assert self.versions(3, history) == [
                ("city 3", "CH", 3.0, 10, 10),
                ("city 1", "li", None, 10, 10),
            ]
        del self.expected[3]
        self.final(self.expected)

    def all_rows_and_the_same_row_again(self) -> None:
        args = {"where": "true", "set": {"country": "'EU'"}}
        self.refused(
            {"table": "people_final", **args},
            f"for all {len(self.expected)} rows of people_final",
            "add `everything: true`",
        )
        self.amend_all(everything=True, **args)
        # Late for a row that a build before has amended.
        self.arrive(3, (1, 5, "U", "late", "CH", 9))
        self.build()
        self.expected = {
            key: (city, "EU", points) for key, (city, _, points) in self.expected.items()
        }
        self.final(self.expected)
        for history in ("people_history", "whole_history"):
            assert self.versions(1, history) == [
                ("late", "CH", 9.0, 5, 10),
                ("city 1", "CH", 1.0, 10, 10),
                ("city 1", "li", None, 10, 10),
                ("city 1", "EU", None, 10, None),
            ]
        self.audits_hold()

    def columns_that_change_and_rows_whose_events_are_gone(self) -> None:
        """A column has another name, a wider type, and there is one more; a rebuild repeats all.

        But an amendment does not bring a row back of which nothing else is known.
        """
        before, schema = self.rows_by("city"), self.project.test_schema
        self.project.run_sql(f"alter table {schema}.people add columns (note string)")
        changed = SOURCES.replace("decimal(6,2)", "decimal(8,2)").replace(
            "{name: city, data_type: string}",
            "{name: note, data_type: string}\n          - {name: town, data_type: string}",
        )
        changed = changed.replace("arrival: batch}", "arrival: batch, renames: {town: city}}")
        write_file(changed, self.project.project_root, "models", "sources.yml")
        self.project.run_sql(f"delete from {schema}.people where id = 13")
        command = ["build", "--full-refresh", "--select", "stg_people", "people_history"]
        assert "would remove 2 of" in run_dbt_and_capture(command, expect_pass=False)[1]
        self.build("--full-refresh", "--vars", "{cdc_rebuild: true}")
        after = self.rows_by("town")
        assert [table for table in before if after[table] != before[table]] == []
        for table in TABLES:
            living = " and _cdc_deleted_at is null" if table == "visits_final" else ""
            found = rows(self.project, f"select * from {{s}}.{table} where id = 13{living}")
            assert found == [], table
        self.what_spark_does_not_accept_is_refused()
        self.amend_all(where="id = 5", set={"note": "'kept'", "town": "'named'"})
        self.arrive_wide(4, (1, 3, "late", "n"))
        self.build()
        self.columns_are_kept()
        self.audits_hold()
        run_dbt(["build", "--full-refresh", "--select", "visits_final", "whole_history"])
        self.columns_are_kept()

    def rows_by(self, column: str) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of all tables, with the column that gets another name; not the row 13."""
        more = {
            "people_history": "_seq, _seq_end",
            "whole_history": "_seq, _seq_end",
            "visits_final": "_cdc_deleted_at is null",
            "people_final": "_cdc_seq",
        }
        return {
            table: rows(
                self.project,
                f"select id, {column}, country, points, {columns} from {{s}}.{table}"
                " where id <> 13 order by all",
            )
            for table, columns in more.items()
        }

    def columns_are_kept(self) -> None:
        for table, living in (
            ("people_final", "true"),
            ("visits_final", "true"),
            ("whole_history", "_seq_end is null"),
        ):
            found = rows(
                self.project,
                f"select id, town, country, note from {{s}}.{table}"
                f" where id in (1, 5) and {living} order by id",
            )
            assert found == [(1, "city 1", "EU", None), (5, "named", "EU", "kept")], table

    def arrive_wide(self, batch: int, *events: tuple[int, int, str, str]) -> None:
        values = ", ".join(
            f"({key}, {seq}, 'U', '{city}', 'CH', 1.0, timestamp '2026-01-01', {batch}, '{note}')"
            for key, seq, city, note in events
        )
        name = f"{self.project.test_schema}.people"
        self.project.run_sql(f"insert into {name} select * from values {values}")

    def an_erasure_takes_them_along(self, warehouse: Path) -> None:
        command = ["run-operation", "cdc_erase", "--args"]
        said = run_dbt_and_capture([*command, "{table: people_final, keys: [5], dry_run: false}"])[
            1
        ]
        assert "the amendments of app.people: 2 rows" in said
        found = rows(self.project, "select distinct id from {s}.cdc_amendments__app__people")
        assert (5,) not in found and (1,) in found
        for file in warehouse.glob("*.db/cdc_amendments__app__people/**/*"):
            content = file.read_bytes() if file.is_file() else b""
            assert b"named" not in content or file.suffix != ".parquet"
        run_dbt(["build", "--select", "stg_people", "people_history", "people_audit"])
        assert rows(self.project, "select * from {s}.people_history where id = 5") == []
        assert unexplained(self.project, "people_audit") == 0
