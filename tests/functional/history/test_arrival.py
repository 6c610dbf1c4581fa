"""Raw tables that know their arrival by themselves: by the time of a file, or by its commit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc import SparkCdcAdapter
from dbt.tests.util import run_dbt, write_file
from dbt_common.exceptions import DbtRuntimeError

from tests.functional.history import changes
from tests.functional.history.changes import Changes, events_of
from tests.functional.history.tables import FINAL, histories, rows
from tests.functional.oracle import Event

pytestmark = pytest.mark.extended

HOUR = 3600
NOW = 1_790_000_000

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    config:
      meta:
        cdc:
          format: flagged
          keys: [id]
          sequence_by: seq
          operation: op
          arrival: unix_micros(_metadata.file_modification_time)
          arrival_overlap: {overlap}
    tables:
      - name: changes
        columns: &columns
          - {{name: id, data_type: int}}
          - {{name: a, data_type: string}}
      - name: alone
        identifier: changes
        config: {{meta: {{cdc: {{history: false}}}}}}
        columns: *columns
"""


class TestFolderOfFiles:
    """A history with its final table, and a final table alone, of one raw table."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES.format(overlap=HOUR * 10**6),
            "stg_changes.sql": "{{ cdc.events(source('app', 'changes')) }}",
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "changes_final.sql": FINAL.format(read="changes_history"),
            "alone_final.sql": FINAL.format(read="stg_alone"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(changes_history="stg_changes")

    def check(self, project: Any, *expected: tuple[int, str, int]) -> None:
        for table in ["changes_final", "alone_final where _cdc_deleted_at is null"]:
            found = rows(project, f"select id, a, _cdc_seq from {{s}}.{table} order by id")
            assert found == list(expected), table

    def versions(self, project: Any) -> list[int]:
        tables = ["changes_history", "changes_final", "alone_final"]
        return [rows(project, f"describe history {{s}}.{name} limit 1")[0][0] for name in tables]

    def check_no_write(self, project: Any) -> None:
        before = self.versions(project)
        run_dbt(["build"])
        assert self.versions(project) == before

    def put(self, project: Any, folder: Path, values: str, age: int) -> None:
        """Writes one file whose time is so many seconds past."""
        there = set(folder.glob("*.parquet"))
        project.run_sql(
            f"insert into {project.test_schema}.changes select /*+ coalesce(1) */ * from values"
            f" {values} as changes (id, op, a, seq)"
        )
        (new,) = set(folder.glob("*.parquet")) - there
        os.utime(new, (NOW - age, NOW - age))

    @pytest.mark.usefixtures("package")
    def test_a_file_whose_time_is_past_when_it_appears(self, project: Any, tmp_path: Path) -> None:
        project.run_sql(
            f"create table {project.test_schema}.changes (id int, op string, a string, seq int)"
            f" using parquet location '{tmp_path}'"
        )
        self.put(project, tmp_path, "(1, 'I', 'one', 1), (2, 'I', 'two', 2)", 0)
        run_dbt(["build"])
        self.check(project, (1, "one", 1), (2, "two", 2))

        self.put(project, tmp_path, "(1, 'U', 'new', 3), (2, 'D', null, 4)", HOUR // 2)
        run_dbt(["build"])
        self.check(project, (1, "new", 3))
        self.check_no_write(project)

        self.put(project, tmp_path, "(3, 'I', 'three', 5)", -HOUR)
        run_dbt(["build"])
        self.check(project, (1, "new", 3), (3, "three", 5))
        self.check_no_write(project)

        project.run_sql(f"delete from {project.test_schema}.changes_history where id = 3")
        run_dbt(["build", "--full-refresh"])
        self.check(project, (1, "new", 3), (3, "three", 5))

    @pytest.mark.usefixtures("package")
    @pytest.mark.parametrize("overlap", ["an hour", -1, 1.5])
    def test_an_overlap_that_is_no_number(self, project: Any, overlap: object) -> None:
        write_file(SOURCES.format(overlap=overlap), "models", "sources.yml")
        with pytest.raises(
            DbtRuntimeError, match=f"`arrival_overlap` is `{overlap}`. Write a whole"
        ):
            run_dbt(["compile"])


COMMITS = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config: {meta: {cdc: &cdc {
      format: flagged, keys: [id], sequence_by: seq, operation: op, history: false,
      arrival: _metadata.row_commit_version}}}
    tables:
      - name: tracked
        columns: &columns
          - {name: id, data_type: int}
          - {name: a, data_type: string}
  - name: lake
    schema: ice.raw
    config: {meta: {cdc: {<<: *cdc, arrival: "coalesce(_last_updated_sequence_number, 0)"}}}
    tables: [{name: iced, columns: *columns}]
"""


class TestCommits:
    """Each commit is an arrival, which rows keep when their file is rewritten."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": COMMITS,
            "stg_tracked.sql": "{{ cdc.events(source('app', 'tracked')) }}",
            "stg_iced.sql": "{{ cdc.events(source('lake', 'iced')) }}",
            "tracked_final.sql": FINAL.format(read="stg_tracked"),
            "iced_final.sql": FINAL.format(read="stg_iced"),
        }

    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return {**project_config_update, "on-run-end": ["{{ cdc.record_run(results) }}"]}

    def put(self, project: Any, *commits: str) -> None:
        for values in commits:
            for table in (f"{project.test_schema}.tracked", "ice.raw.iced"):
                project.run_sql(f"insert into {table} values {values}")
        run_dbt(["build"])

    def check(self, project: Any, *expected: tuple[int, str, int]) -> None:
        for table in ("tracked_final", "iced_final"):
            query = f"select id, a, _cdc_seq from {{s}}.{table} where _cdc_deleted_at is null"
            assert rows(project, f"{query} order by id") == list(expected), table

    @pytest.mark.usefixtures("package")
    def test_only_new_commits_are_read(self, project: Any) -> None:
        columns = "(id int, op string, a string, seq int)"
        project.run_sql(
            f"create table {project.test_schema}.tracked {columns} using delta"
            " tblproperties ('delta.enableRowTracking' = 'true')"
        )
        project.run_sql(
            f"create table ice.raw.iced {columns} using iceberg"
            " tblproperties ('format-version' = '3')"
        )
        self.put(project, "(1, 'I', 'one', 1), (2, 'I', 'two', 2)")
        self.check(project, (1, "one", 1), (2, "two", 2))
        self.put(project, "(1, 'U', 'new', 4)", "(2, 'D', null, 3)")
        self.check(project, (1, "new", 4))

        project.run_sql(f"optimize {project.test_schema}.tracked")
        project.run_sql(
            "call ice.system.rewrite_data_files("
            "table => 'raw.iced', options => map('rewrite-all', 'true'))"
        )
        self.put(project, "(3, 'I', 'three', 5)")
        self.check(project, (1, "new", 4), (3, "three", 5))
        for node in ("tracked_final", "iced_final"):
            runs = rows(
                project,
                "select events_read, events_duplicate, watermark_before, watermark_after"
                f" from {{s}}.cdc_runs where node = '{node}' order by run_started_at",
            )
            assert [run[:2] for run in runs] == [(2, None), (2, 0), (1, 0)], node
            assert [run[2] for run in runs[1:]] == [run[3] for run in runs[:-1]], node


class TestExpression(Changes):
    @pytest.mark.usefixtures("changes")
    def test_it_may_have_a_semicolon(self, project: Any) -> None:
        """Checkpoints hold it, which Spark takes from a statement."""
        arrival = "arrival: cast(split(concat(batch, ';'), ';')[0] as int)"
        declared = changes.SOURCES.replace("arrival: batch", arrival)
        write_file(declared, project.project_root, "models", "sources.yml")
        for batch in (1, 2):
            self.put(project, batch, events_of(batch))
            run_dbt(["build"])
        self.check(project, events_of(1) + events_of(2))


class TestBetweenTwoLooks(Changes):
    @pytest.mark.usefixtures("changes")
    def test_a_row_behind_is_read(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is committed after the log was read, and before the version is noted."""
        self.put(project, 1, events_of(1))
        self.put(project, 2, events_of(2))
        run_dbt(["build"])
        self.put(project, 3, events_of(3))
        # Without an arrival, so that a query has to tell what is new.
        values = "(0, 9, 9, 'I', 'x', 'y', null)"
        project.run_sql(f"insert into {project.test_schema}.changes values {values}")
        late = Event(0, 50, 15, "I", "late", "p")
        version, left = SparkCdcAdapter.logged_version, [(*late, 1)]

        def looking(adapter: SparkCdcAdapter, table: str) -> int | None:
            if left and table.replace("`", "").endswith(".changes"):
                insert = f"insert into {project.test_schema}.changes values {left.pop()}"
                adapter._spark.newSession().sql(insert)
            return version(adapter, table)

        with monkeypatch.context() as patch:
            patch.setattr(SparkCdcAdapter, "logged_version", looking)
            run_dbt(["build"])
        assert not left
        run_dbt(["build"])
        self.check(project, [*events_of(1), *events_of(2), *events_of(3), late])
