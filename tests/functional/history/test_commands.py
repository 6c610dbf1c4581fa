"""The commands `status`, `explain`, `report` and `doctor` on tables that Spark has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.observe.delta_table import read_table
from tests.functional.history.tables import FINAL, append, histories, rows

pytestmark = pytest.mark.extended

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config:
      meta:
        cdc: {format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch}
    tables:
      - name: items
        identifier: changes
        columns: &columns
          - {name: id, data_type: int}
          - {name: a, data_type: string}
      - name: alone
        identifier: changes
        config: {meta: {cdc: {history: false}}}
        columns: *columns
"""

COLUMNS = "id int, op string, seq int, a string, batch int"
FIRST = [(1, "I", 1, "x", 1), (2, "I", 2, "p", 1), (1, "U", 6, "z", 1)]
SECOND = [
    (1, "U", 4, "{{ y }}", 2),  # late
    (1, "I", 1, "x", 2),  # again
    (1, "U", 7, "z", 2),  # changes nothing
    (2, "D", 8, None, 2),
    (3, "Q", 9, "bad", 2),
]


def commanded(project: Any, *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    folders = ["--project-dir", project.project_root, "--profiles-dir", str(project.profiles_dir)]
    ran = CliRunner().invoke(main, [*arguments, *folders])
    assert ran.exit_code == code, (ran.output, ran.exception)
    return ran.output


def shown(project: Any, *arguments: str) -> Any:
    """What a command prints as JSON."""
    return json.loads(commanded(project, *arguments, "--json"))


class TestCommands:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return {
            **project_config_update,
            "on-run-start": "{{ cdc.validate() }}",
            "on-run-end": "{{ cdc.record_run(results) }}",
        }

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_items.sql": "{{ cdc.events(source('app', 'items')) }}",
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "items_final.sql": FINAL.format(read="items_history"),
            "alone_final.sql": FINAL.format(read="stg_alone"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items")

    def test_what_they_say_is_what_spark_says(
        self, project: Any, spark: Any, package: None
    ) -> None:
        raw = f"{project.test_schema}.changes"
        append(spark, raw, FIRST, COLUMNS)
        project.run_sql(f"alter table {raw} set tblproperties ('delta.checkpointInterval' = '2')")
        found = shown(project, "status", "items")
        assert (found["state"], found["unread_rows"]) == ("not built", 3)

        run_dbt(["build"])
        for table in ("items", "alone"):
            found = shown(project, "status", table)
            assert (found["state"], found["high_water_mark"]) == ("up to date", 1), table
            assert found["last_result"]["status"] == "success"

        append(spark, raw, SECOND, COLUMNS)
        found = shown(project, "status", "items")
        assert (found["state"], found["unread_rows"], found["unread_rows_exact"]) == (
            "behind",
            5,
            True,
        )
        assert found["lag_seconds"] < 600
        steps = {step["relation"]: step for step in shown(project, "explain", "items")["next"]}
        assert steps[raw]["text"].startswith("5 rows after 1 in 1 file")
        assert steps[f"{project.test_schema}.items_final"]["does"] == "write"
        row = shown(project, "explain", "items", "--key", "1")["row"]
        assert [event["effect"] for event in row["events"]].count("not read yet") == 3
        assert row["current"]["a"] == "z"

        run_dbt(["build"])
        self.rows_are_explained(project)
        self.numbers_are_those_of_spark(project)
        self.keys_are_checked(project)
        self.logs_with_checkpoints_are_read(project, raw)
        self.the_report_is_written(project)
        self.the_doctor_finds_nothing(project)

    def rows_are_explained(self, project: Any) -> None:
        for table in ("alone", "items"):
            row = shown(project, "explain", table, "--key", "id=1")["row"]
            told = [
                (event["position"], event["operation"], event["arrived"], event["effect"])
                for event in row["events"]
            ]
            late = "changed a: x -> {{ y }}; late-arriving, after events of arrival 1"
            assert told == [
                ("1", "insert", 1, "began the row"),
                ("1", "insert", 2, "a duplicate"),
                ("4", "update", 2, late),
                ("6", "update", 1, "changed a: {{ y }} -> z"),
                ("7", "update", 2, "changed nothing"),
            ], table
            assert row["current"]["a"] == "z"
        assert [version["a"] for version in row["versions"]] == ["x", "{{ y }}", "z"]
        assert [event["version"] for event in row["events"]] == [1, 1, 2, 3, 3]

        said = commanded(project, "explain", "items", "--key", "2")
        assert "ended the row" in said
        assert "There is none" in said
        # What it asked is no result of a build.
        assert shown(project, "status", "items")["last_result"]["status"] == "success"

    def numbers_are_those_of_spark(self, project: Any) -> None:
        found = shown(project, "status", "items")
        assert (found["state"], found["unread_rows"]) == ("up to date", 0)
        counters = found["last_run"]["counters"]
        columns = ", ".join(f"events_{name}" for name in counters)
        query = f"select {columns} from {{s}}.cdc_runs where node = 'items_history' "
        ledger = rows(project, query + "order by run_started_at desc limit 1")
        assert list(counters.values()) == list(ledger[0])
        assert (counters["late"], counters["duplicate"], counters["quarantined"]) == (1, 1, 1)
        assert (found["quarantined"], found["quarantined_exact"]) == (1, False)
        for node in found["nodes"]:
            assert node["rows"] == rows(project, f"select count(*) from {{s}}.{node['node']}")[0][0]
            detail = rows(project, f"describe detail {{s}}.{node['node']}")[0]
            assert (node["files"], node["bytes"]) == detail[9:11]

    def logs_with_checkpoints_are_read(self, project: Any, raw: str) -> None:
        location = rows(project, f"describe detail {raw}")[0][4]
        log = Path(location.removeprefix("file:")) / "_delta_log"
        (written,) = log.glob("*.checkpoint*.parquet")
        for commit in log.glob("*.json"):
            if commit.name <= written.name[:20]:
                commit.unlink()
        table = read_table(log.parent)
        assert table is not None
        assert table.rows == len(FIRST + SECOND)
        assert table.read(["seq"])["seq"].to_pylist().count(1) == 2

    def keys_are_checked(self, project: Any) -> None:
        said = commanded(project, "explain", "items", "--key", "1' or '{{ 1 }}' = '1", code=2)
        assert "cannot be cast" in said
        assert "--key id=VALUE" in commanded(project, "explain", "items", "--key", "A=1", code=2)

    def the_report_is_written(self, project: Any) -> None:
        html = Path(commanded(project, "report").strip()).read_text(encoding="utf-8")
        for text in ("late: 1", "duplicate: 1", "quarantined: 1", "items_history", "alone_final"):
            assert text in html

    def the_doctor_finds_nothing(self, project: Any) -> None:
        found = {check["name"]: check for check in shown(project, "doctor")}
        assert not [check for check in found.values() if check["status"] == "problem"]
        assert found["declarations"]["finding"] == "no problems in 2 source tables"
        assert "in use" in found["metastore"]["finding"]
