"""A raw table that is a folder of Parquet files, which knows no arrival but the time of a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file
from dbt_common.exceptions import DbtRuntimeError

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

SNAPSHOTS = """
version: 2
snapshots:
  - name: changes_history
    relation: ref('stg_changes')
    config: {strategy: cdc.scd2, unique_key: [id], file_format: delta}
"""

FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id']) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""


class TestFolderOfFiles:
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
        return {"histories.yml": SNAPSHOTS}

    def put(self, project: Any, folder: Path, rows: str, age: int) -> None:
        """Writes one file whose time is so many seconds past."""
        there = set(folder.glob("*.parquet"))
        project.run_sql(
            f"insert into {project.test_schema}.changes select /*+ coalesce(1) */ * from values"
            f" {rows} as changes (id, op, a, seq)"
        )
        (new,) = set(folder.glob("*.parquet")) - there
        os.utime(new, (NOW - age, NOW - age))

    def check(self, project: Any, expected: list[tuple[int, str, int]]) -> None:
        for table in ["changes_final", "alone_final where _cdc_deleted_at is null"]:
            query = f"select id, a, _cdc_seq from {project.test_schema}.{table} order by id"
            assert [tuple(row) for row in project.run_sql(query, fetch="all")] == expected, table

    def versions(self, project: Any) -> list[int]:
        tables = ["changes_history", "changes_final", "alone_final"]
        asked = [f"describe history {project.test_schema}.{table} limit 1" for table in tables]
        return [project.run_sql(sql, fetch="one")[0] for sql in asked]

    def check_no_write(self, project: Any) -> None:
        before = self.versions(project)
        run_dbt(["build"])
        assert self.versions(project) == before

    @pytest.mark.usefixtures("package")
    def test_a_file_whose_time_is_past_when_it_appears(self, project: Any, tmp_path: Path) -> None:
        project.run_sql(
            f"create table {project.test_schema}.changes (id int, op string, a string, seq int)"
            f" using parquet location '{tmp_path}'"
        )
        self.put(project, tmp_path, "(1, 'I', 'one', 1), (2, 'I', 'two', 2)", 0)
        run_dbt(["build"])
        self.check(project, [(1, "one", 1), (2, "two", 2)])

        self.put(project, tmp_path, "(1, 'U', 'new', 3), (2, 'D', null, 4)", HOUR // 2)
        run_dbt(["build"])
        self.check(project, [(1, "new", 3)])
        self.check_no_write(project)

        self.put(project, tmp_path, "(3, 'I', 'three', 5)", -HOUR)
        run_dbt(["build"])
        self.check(project, [(1, "new", 3), (3, "three", 5)])
        self.check_no_write(project)

        project.run_sql(f"delete from {project.test_schema}.changes_history where id = 3")
        run_dbt(["build", "--full-refresh"])
        self.check(project, [(1, "new", 3), (3, "three", 5)])

    @pytest.mark.usefixtures("package")
    @pytest.mark.parametrize("overlap", ["an hour", -1, 1.5])
    def test_an_overlap_that_is_no_number(self, project: Any, overlap: object) -> None:
        write_file(SOURCES.format(overlap=overlap), "models", "sources.yml")
        with pytest.raises(
            DbtRuntimeError, match=f"`arrival_overlap` is `{overlap}`. It is a whole"
        ):
            run_dbt(["compile"])
