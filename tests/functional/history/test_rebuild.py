"""Raw tables that lose events or count from the start: what was read stays, nothing is missed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

from tests.functional.history.tables import FINAL, histories, rows

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
      - name: kept
        columns: &columns [{name: id, data_type: int}, {name: a, data_type: string}]
      - {name: protected, columns: *columns}
      - {name: renewed, columns: *columns}
      - {name: restarted, columns: *columns}
      # Two that read one raw table, whose news is looked for together.
      - {name: twin, identifier: shared, columns: *columns}
      - {name: other_twin, identifier: shared, columns: *columns}
      - name: alone
        identifier: restarted
        config: {meta: {cdc: {history: false}}}
        columns: *columns
"""
TABLES = ["kept", "protected", "renewed", "restarted", "twin", "other_twin"]
RAW = ["kept", "protected", "renewed", "restarted", "shared"]


@pytest.mark.usefixtures("package")
class TestRebuild:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            **{
                f"stg_{name}.sql": f"{{{{ cdc.events(source('app', '{name}')) }}}}"
                for name in TABLES
            },
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "alone_final.sql": FINAL.format(read="stg_alone"),
            "kept_final.sql": FINAL.format(read="kept_history"),
            "kept_changes.sql": (
                "{{ config(materialized='incremental', incremental_strategy='merge') }}"
                "{{ cdc.changelog(ref('kept_final')) }}"
            ),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        text = histories(**{f"{name}_history": f"stg_{name}" for name in TABLES})["snapshots.yml"]
        protected = "ref('stg_protected')\n    config: {"
        return {"snapshots.yml": text.replace(protected, f"{protected}full_refresh: false, ")}

    @pytest.fixture(scope="class")
    def story(self, project: Any, package: None) -> Iterator[Any]:
        for name in RAW:
            project.run_sql(
                f"create table {project.test_schema}.{name}"
                " (id int, op string, seq int, a string, batch int) using delta"
            )
            self.arrive(project, name, "(1, 'I', 1, 'a', 4)", "(1, 'U', 2, 'b', 4)")
        run_dbt(["build"])
        for name in RAW:
            self.arrive(project, name, "(1, 'U', 3, 'c', 7)", "(2, 'I', 4, 'z', 7)")
        run_dbt(["build"])
        return project

    def arrive(self, project: Any, name: str, *events: str) -> None:
        project.run_sql(f"insert into {project.test_schema}.{name} values {', '.join(events)}")

    def build(self, *arguments: str) -> dict[str, str]:
        """Builds, and returns what was said of nodes that failed."""
        results = run_dbt(["build", *arguments], expect_pass=None)
        return {
            result.node.name: str(result.message)
            for result in results
            if str(result.status) == "error"
        }

    def versions(self, project: Any, name: str) -> list[tuple[Any, ...]]:
        query = f"select id, a, _seq, _seq_end from {{s}}.{name}_history order by id, _seq"
        return rows(project, query)

    def test_a_full_refresh_removes_versions_only_when_asked_to(self, story: Any) -> None:
        for name in ("kept", "protected"):
            story.run_sql(f"delete from {story.test_schema}.{name} where batch = 4")
        whole = [(1, "a", 1, 2), (1, "b", 2, 3), (1, "c", 3, None), (2, "z", 4, None)]
        select = ["--full-refresh", "--select", "kept_history+", "protected_history"]

        failed = self.build(*select)
        assert failed.keys() == {"kept_history"}
        for part in ("would remove 2 of its 4 versions", "from 2: app.kept", "cdc_rebuild"):
            assert part in failed["kept_history"]
        failed = self.build(*select, "--vars", "{cdc_rebuild: [keept]}")
        assert "`keept` is not a history of this project" in failed["kept_history"]
        failed = self.build(*select, "--vars", "{cdc_rebuild: protected_history}")
        assert "would remove 2" in failed["kept_history"]
        for name in ("kept", "protected"):
            assert self.versions(story, name) == whole

        assert self.build(*select, "--vars", "{cdc_rebuild: [kept_history]}") == {}
        assert self.versions(story, "kept") == whole[2:]
        assert self.versions(story, "protected") == whole
        found = rows(story, "select id, a, _cdc_created_at from {s}.kept_final order by id")
        assert found == [(1, "c", 3), (2, "z", 4)]

    def test_a_raw_table_created_anew_is_read_from_the_beginning(self, story: Any) -> None:
        columns = "id int, op string, seq int, a string, batch int"
        story.run_sql(
            f"create or replace table {story.test_schema}.renewed ({columns}) using delta"
        )
        self.arrive(story, "renewed", "(2, 'U', 5, 'y', 5)", "(2, 'U', 6, 'x', 9)")
        assert self.build("--select", "stg_renewed+") == {}
        assert self.versions(story, "renewed")[-2:] == [(2, "y", 5, 6), (2, "x", 6, None)]
        assert len(self.versions(story, "renewed")) == 6

    def test_a_sequence_that_begins_again_is_refused_until_it_is_set_back(self, story: Any) -> None:
        for name in ("restarted", "shared"):
            story.run_sql(f"delete from {story.test_schema}.{name}")
        nodes = ["stg_restarted+", "stg_alone+", "stg_twin+", "stg_other_twin+"]
        # Nothing at all is no reason to stop.
        assert self.build("--select", *nodes) == {}
        for name in ("restarted", "shared"):
            # Without statistics the log does not tell which numbers were appended.
            story.run_sql(
                f"alter table {story.test_schema}.{name} set tblproperties"
                " (delta.dataSkippingNumIndexedCols = 0)"
            )
            self.arrive(story, name, "(2, 'U', 5, 'y', 1)")

        failed = self.build("--select", *nodes)
        assert failed.keys() == {
            "restarted_history",
            "twin_history",
            "other_twin_history",
            "alone_final",
        }
        for message in failed.values():
            assert "up to `batch` 7" in message and "is 1: " in message
            assert "cdc_replay" in message
        for name in ("restarted_history", "twin_history", "other_twin_history"):
            run_dbt(["run-operation", "cdc_replay", "--args", f"{{table: {name}}}"])
        run_dbt(["run-operation", "cdc_replay", "--args", "{table: alone_final, since: 1}"])
        assert self.build("--select", *nodes) == {}
        for name in ("restarted", "twin", "other_twin"):
            assert self.versions(story, name)[-1] == (2, "y", 5, None)
        found = rows(story, "select id, a from {s}.alone_final order by id")
        assert found == [(1, "c"), (2, "y")]
        assert self.build("--select", *nodes) == {}

    def test_a_full_refresh_adds_a_time_without_zone(self, story: Any) -> None:
        """Delta turns on the feature that such a column needs in new tables only."""
        for name in ("kept", "restarted"):
            story.run_sql(f"alter table {story.test_schema}.{name} add columns (at string)")
        self.arrive(story, "kept", "(3, 'I', 8, 'w', 9, '2024-03-31 02:30:00')")
        self.arrive(story, "restarted", "(3, 'I', 8, 'w', 9, '2024-03-31 02:30:00')")
        column = "{name: a, data_type: string}"
        declared = SOURCES.replace(column, f"{column}, {{name: at, data_type: timestamp_ntz}}")
        write_file(declared, story.project_root, "models", "sources.yml")
        arguments = ["--full-refresh", "--select", "stg_kept+", "stg_alone+"]
        assert self.build(*arguments, "--vars", "{cdc_rebuild: [kept_history]}") == {}
        for name in ("kept_history", "kept_final", "kept_changes", "alone_final"):
            found = rows(story, f"select cast(at as string) from {{s}}.{name} where id = 3")
            assert found == [("2024-03-31 02:30:00",)]
