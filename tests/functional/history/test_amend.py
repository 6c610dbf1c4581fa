"""Deletes and updates by condition: events of their own, which every rebuild repeats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture

from tests.functional.history.tables import FINAL, histories, rows

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


class TestAmend:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return project_config_update | {"on-run-end": ["{{ cdc.record_run(results) }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": SOURCES}
        for name in ("people", "visits", "whole", "log"):
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
        for name in ("people", "visits", "whole"):
            read = "stg_visits" if name == "visits" else f"{name}_history"
            models[f"{name}_final.sql"] = FINAL.format(read=read)
            call = f"cdc.audit(ref('{read}'), ref('{name}_final'))"
            models[f"{name}_audit.sql"] = f"{{{{ {call} }}}}"
        return models

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(
            people_history="stg_people", whole_history="stg_whole", log_history="stg_log"
        )

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

    def amend(self, *, passes: bool = True, dry_run: bool = False, **args: Any) -> str:
        command = ["run-operation", "cdc_amend", "--args", json.dumps(args | {"dry_run": dry_run})]
        return run_dbt_and_capture(command, expect_pass=passes)[1]

    def amend_all(self, **args: Any) -> list[str]:
        """The same for a table with a history, one without, and one that is read whole."""
        return [
            self.amend(table=table, **args)
            for table in ("people_final", "visits_final", "whole_history")
        ]

    def final(self, expected: dict[int, tuple[Any, ...]]) -> None:
        """Checks city, country and points of all current rows in all tables."""
        for table, living in (
            ("people_final", "true"),
            ("visits_final", "_cdc_deleted_at is null"),
            ("whole_final", "true"),
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

    def state(self) -> list[Any]:
        return [
            rows(self.project, f"select * from {{s}}.{table} order by all")
            for table in ("people_history", "people_final", "visits_final", "whole_history")
        ]

    def audits_hold(self) -> None:
        for name in ("people", "visits", "whole"):
            found = rows(
                self.project,
                "select events_read - events_applied - events_duplicate - events_superseded"
                f" - events_quarantined, events_read from {{s}}.{name}_audit",
            )
            assert found[0][0] == 0, (name, found)

    def writes(self, table: str) -> int:
        found = rows(self.project, f"describe history {{s}}.{table}")
        return len([row for row in found if row[4] != "SET TBLPROPERTIES"])

    def test_one_after_the_other(self, project: Any) -> None:
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
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
            (13, 10, "I", "old", "YY", 3),
        )
        run_dbt(["build"])
        self.arrive(2, (12, 20, "U", "new", "XX", 2))
        run_dbt(["build"])
        self.bad_input_is_refused_at_once()
        self.rows_are_deleted_and_updated()

    def bad_input_is_refused_at_once(self) -> None:
        before = self.state()
        said = self.amend(
            passes=False,
            table="people_final",
            delete=True,
            set={"id": 1, "town": "'x'", "city": None},
            everything="yes",
        )
        for problem in (
            "`where` is missing",
            "`everything` is yes",
            "`delete` and `set` both",
        ):
            assert problem in said, problem
        said = self.amend(
            passes=False,
            table="people_final",
            where="id = 1",
            set={"id": 1, "town": "'x'", "city": None, "CITY": "'a'"},
        )
        for problem in (
            "`id` is a key column",
            "`town` is no column",
            "`city` has no expression",
            "`CITY` is there twice",
        ):
            assert problem in said, problem
        said = self.amend(
            passes=False,
            table="people_final",
            where="contry = 'XX'",
            set={"city": "upper(", "points": "date '2026-01-01'", "country": "max(country)"},
        )
        for problem in (
            "`where` is no condition on people_final, whose columns are id, city",
            "`city` (upper() is no expression",
            "`points` (date '2026-01-01') is a date, and the column is a decimal(6,2)",
            "`country` (max(country)) is no expression",
        ):
            assert problem in said, problem
        for given, message in [
            ({"points": "points / 3"}, "does not fit decimal(6,2) in 1 row"),
            ({"points": "12345.00"}, "does not fit decimal(6,2)"),
            ({"points": "'many'"}, "does not fit decimal(6,2)"),
            ({"city": "explode(array('a', 'b'))"}, "is no expression"),
        ]:
            said = self.amend(passes=False, table="people_final", where="id = 1", set=given)
            assert message in said, message
        for args, message in [
            ({"table": "nowhere", "where": "true", "delete": True}, "nowhere is no history"),
            ({"where": "true", "delete": True}, "cdc_amend needs a `table`"),
            ({"table": "people_final", "where": "id > 0"}, "nothing says what becomes"),
            ({"table": "people_final", "where": "id > 0", "delete": True}, "for all 10 rows"),
            ({"table": "log_history", "where": "id > 0", "delete": True}, "declares no keys"),
        ]:
            assert message in self.amend(passes=False, **args), message
        said = self.amend(table="people_final", where="id = 4711", delete=True)
        assert "no row is to be deleted" in said
        said = self.amend(dry_run=True, table="people_final", where="id = 1", delete=True)
        assert "1 row would be deleted" in said
        assert self.state() == before
        assert not rows(self.project, "show tables in {s} like 'cdc_amendments*'")

    def rows_are_deleted_and_updated(self) -> None:
        said = self.amend_all(where="country = 'XX'", delete=True, reason="test country")
        assert all("2 rows will be deleted" in one for one in said)
        # It waits for a build: the same again is known, and something else has to wait.
        said = self.amend_all(where="country = 'XX'", delete=True)
        assert all("recorded before" in one for one in said)
        assert rows(self.project, "select count(*) from {s}.cdc_amendments__app_people") == [(2,)]
        said = [self.amend(passes=False, table="people_final", where="id = 1", delete=True)]
        assert "has not applied the amendments" in said[0]
        run_dbt(["build"])
        everyone = {key: (f"city {key}", "CH", float(key)) for key in range(1, 8)}
        everyone[13] = ("old", "YY", 3.0)
        self.final(everyone)
        assert self.versions(12) == [
            ("old", "XX", 2.0, 10, 20),
            ("new", "XX", 2.0, 20, 20),
        ]
