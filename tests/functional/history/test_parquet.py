"""Final tables in plain Parquet hold the open versions, and refuse what such files cannot do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

from dbt_spark_cdc.observe.status import statuses
from dbt_spark_cdc.project import open_project
from tests.functional.history.tables import append, histories, rows

pytestmark = pytest.mark.extended

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    config:
      meta:
        cdc: {{format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch,
          partition_by: {{area: "coalesce(upper(region), 'NONE')", half: size / 2}}}}
    tables:
      - name: changes
        columns:
          - {{name: id, data_type: int}}
          - {{name: region, data_type: string}}
          - {{name: note, data_type: string}}
          - {{name: size, data_type: {size}}}
{more}
"""
MORE = "          - {name: extra, data_type: string}"

FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='{strategy}', unique_key=['id'],
    file_format='{format}'{parts}) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""
PARQUET = {"strategy": "insert_overwrite", "format": "parquet", "read": "changes_history"}
TABLES = {
    "by_region": ", partition_by=['region']",
    "by_area": ", partition_by=['area', 'size']",
    "whole": "",
}
COLUMNS = (
    "id int, seq int, op string, region string, note string, size int, extra string, batch int"
)


def checkpoint(project: Any, table: str) -> str:
    found = rows(project, f"show tblproperties {{s}}.{table} ('cdc.checkpoint')")
    return str(found[0][1])


class TestPlainParquet:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        finals = {
            f"{name}.sql": FINAL.format(parts=parts, **PARQUET) for name, parts in TABLES.items()
        }
        return {
            "sources.yml": SOURCES.format(size="int", more=""),
            "stg_changes.sql": "{{ cdc.events(source('app', 'changes')) }}",
            **finals,
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(changes_history="stg_changes")

    def build(
        self, project: Any, spark: Any, batch: int, *events: tuple[Any, ...]
    ) -> dict[str, str]:
        """Events are id, seq, op, region, note, size."""
        arriving = [(*event, "more", batch) for event in events]
        if arriving:
            append(spark, f"{project.test_schema}.changes", arriving, COLUMNS)
        results = run_dbt(["build"])
        return {result.node.name: str(result.message) for result in results}

    def check(self, project: Any, more: str = "") -> None:
        columns = f"id, region, note, size{more}, {{area}} as area, _cdc_created_at, _cdc_seq"
        open_versions = columns.format(area="coalesce(upper(region), 'NONE')")
        expected = rows(
            project,
            f"select {open_versions} from {{s}}.changes_history where _seq_end is null order by id",
        )
        assert expected
        for table in TABLES:
            found = rows(
                project, f"select {columns.format(area='area')} from {{s}}.{table} order by id"
            )
            assert found == expected, table

    def folder(self, project: Any, table: str) -> Path:
        detail = rows(project, f"describe table extended {{s}}.{table}")
        return Path(
            next(str(row[1]) for row in detail if row[0] == "Location").removeprefix("file:")
        )

    def test_batches(self, project: Any, spark: Any, package: None) -> None:
        self.build(
            project,
            spark,
            1,
            (1, 1, "I", "a", "x", 1),
            (2, 1, "I", "it's \\ ${a}", "x", 1),
            (3, 1, "I", None, "x", None),
            (4, 1, "I", "quiet", "x", 2),
        )
        self.check(project)
        before = {table: checkpoint(project, table) for table in TABLES}
        quiet = sorted(self.folder(project, "by_region").glob("region=quiet/*.parquet"))
        assert quiet

        # Rows leave their partitions, one by a move, one by a delete; nothing new is no write.
        self.build(
            project,
            spark,
            2,
            (2, 2, "U", "a", "y", 1),
            (3, 2, "D", None, None, None),
            (1, 2, "U", None, "z", None),
        )
        self.check(project)
        assert sorted(self.folder(project, "by_region").glob("region=quiet/*.parquet")) == quiet
        names = {p.name for p in self.folder(project, "by_region").iterdir() if p.is_dir()}
        assert names == {"region=a", "region=quiet", "region=__HIVE_DEFAULT_PARTITION__"}
        outcomes = self.build(project, spark, 2)
        assert {outcomes[table] for table in TABLES} == {"nothing new"}
        # A late event that changes a closed version only moves the checkpoint.
        files = sorted(self.folder(project, "by_region").rglob("*.parquet"))
        self.build(project, spark, 3, (1, 1, "I", "a", "x", 1), (2, 0, "I", "b", "w", 1))
        self.check(project)

        # A killed run left the former checkpoint, and partitions half written.
        for table in TABLES:
            spark.sql(
                f"alter table {project.test_schema}.{table}"
                f" set tblproperties ('cdc.checkpoint' = '{before[table]}')"
            )
            for part in self.folder(project, table).rglob("*.parquet"):
                if "quiet" not in str(part) and "size=2" not in str(part):
                    part.unlink()
        spark.catalog.clearCache()
        self.build(project, spark, 4, (9, 1, "I", "new", "x", 3))
        self.check(project)
        # Deleted rows of all partitions.
        gone = [(key, 9, "D", None, None, None) for key in (1, 2, 4)]
        self.build(project, spark, 5, *gone, (5, 1, "I", "a", "x", 1), (6, 1, "I", "b", "x", 1))
        self.check(project)
        assert files

    @pytest.mark.soak
    def test_amendments(self, project: Any, spark: Any, package: None) -> None:
        """They are events of the history, which the files follow."""
        regions = {5: "a", 6: "b", 7: "c"}
        events = [(key, 1, "I", region, "x", 1) for key, region in regions.items()]
        self.build(project, spark, 6, *events)
        for table, build, args in (
            ("by_region", [], {"where": "region = 'a'", "set": {"region": "'moved'"}}),
            ("whole", ["--full-refresh"], {"where": "region = 'b'", "delete": True}),
        ):
            given = json.dumps(args | {"table": table, "dry_run": False})
            run_dbt(["run-operation", "cdc_amend", "--args", given])
            run_dbt(["build", *build])
            self.check(project)
        found = rows(project, "select id, region from {s}.whole where id in (5, 6)")
        assert found == [(5, "moved")]

    def test_columns(self, project: Any, spark: Any, package: None) -> None:
        write_file(
            SOURCES.format(size="int", more=MORE), project.project_root, "models", "sources.yml"
        )
        self.build(project, spark, 7, (1, 20, "I", "a", "again", 1))
        self.check(project, ", extra")
        write_file(
            SOURCES.format(size="bigint", more=MORE), project.project_root, "models", "sources.yml"
        )
        results = run_dbt(["build"], expect_pass=False)
        messages = {result.node.name: str(result.message) for result in results}
        for table in TABLES:
            assert "`size` as int, which is bigint in its history" in messages[table]
            assert f"dbt build --full-refresh --select {table}" in messages[table]
        run_dbt(["build", "--full-refresh", "--select", *TABLES])
        self.check(project, ", extra")
        self.build(project, spark, 8, (1, 21, "U", "b", "big", 2))
        self.check(project, ", extra")

    def test_a_history_that_went_back(self, project: Any, spark: Any, package: None) -> None:
        commits = spark.sql(f"describe history {project.test_schema}.changes_history")
        run = json.loads(commits.first().userMetadata)["run"]["id"]
        arguments = f"{{table: changes_history, run: '{run}', dry_run: false}}"
        run_dbt(["run-operation", "cdc_rewind", "--args", arguments])
        run_dbt(["build", "--select", *TABLES])
        self.check(project, ", extra")
        run_dbt(["run-operation", "cdc_optimize"])
        run_dbt(["run-operation", "cdc_vacuum"])
        self.build(project, spark, 9)
        self.check(project, ", extra")

    def test_status(self, project: Any, package: None) -> None:
        root = Path(str(project.project_root))
        found = statuses(open_project(root, Path(str(project.profiles_dir)), None))
        assert {one.state for one in found} == {"up to date"}

    def test_what_is_refused(self, project: Any, spark: Any, package: None) -> None:
        finals = {
            "by_region": ({"strategy": "merge"}, "nothing can be merged into plain Parquet files"),
            "by_area": (
                {"format": "delta"},
                "is not a Delta table, and its model has `file_format: delta`",
            ),
            "whole": (
                {"read": "stg_changes"},
                "it has `file_format: parquet`, and without a history",
            ),
        }
        for name, (wrong, _) in finals.items():
            text = FINAL.format(parts=TABLES[name], **(PARQUET | wrong))
            write_file(text, project.project_root, "models", f"{name}.sql")
        write_file(
            FINAL.format(parts=", partition_by=['half']", **PARQUET),
            project.project_root,
            "models",
            "by_half.sql",
        )
        write_file(
            "{{ cdc.changelog(ref('by_region')) }}",
            project.project_root,
            "models",
            "changes_of.sql",
        )
        results = run_dbt(["run", "--exclude", "stg_changes"], expect_pass=False)
        messages = {result.node.name: str(result.message) for result in results}
        for name, (_, said) in finals.items():
            assert said in messages[name], messages[name]
        assert "partitioned by `half` (double)" in messages["by_half"], messages["by_half"]
        results = run_dbt(["run", "--select", "changes_of"], expect_pass=False)
        said = {result.node.name: str(result.message) for result in results}["changes_of"]
        assert "which has `file_format: parquet` and no change feed" in said
        shutil.rmtree(Path(str(project.project_root)) / "target", ignore_errors=True)
