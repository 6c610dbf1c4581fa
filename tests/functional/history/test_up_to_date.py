"""Runs that find nothing new: they end without a statement, and only they do."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

from tests.functional.history.tables import FINAL, append, histories, rows

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    config:
      meta:
        cdc: {{format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch}}
    tables:
      - name: items
        identifier: changes
        columns: &columns
          - {{name: id, data_type: int}}
          - {{name: a, data_type: string}}
          {more}
      - name: alone
        identifier: changes
        config: {{meta: {{cdc: {{history: false}}}}}}
        columns: *columns
"""


COLUMNS = "id int, op string, seq int, a string, b string, batch int"
TABLES = ("items_history", "items_final", "alone_final")


class TestUpToDate:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES.format(more=""),
            "stg_items.sql": "-- What came.\n{{ cdc.events(source('app', 'items')) }}\n",
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "items_final.sql": FINAL.format(read="items_history"),
            "alone_final.sql": FINAL.format(read="stg_alone"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items")

    def build(self) -> set[str]:
        """Builds all; returns the views and histories that had something to do."""
        done = {result.node.name for result in run_dbt(["build"]) if result.message == "OK"}
        return done & {"stg_items", "stg_alone", "items_history"}

    def versions(self, project: Any) -> list[int]:
        return [rows(project, f"describe history {{s}}.{name} limit 1")[0][0] for name in TABLES]

    def check(self, project: Any, *expected: tuple[Any, ...]) -> None:
        living = "where _cdc_deleted_at is null"
        for table in (f"alone_final {living}", "items_final", "items_history"):
            found = rows(project, f"select id, a from {{s}}.{table} order by id")
            assert found == list(expected), table

    def test_only_what_is_new_is_done(self, project: Any, spark: Any, package: None) -> None:
        raw = f"{project.test_schema}.changes"
        append(spark, raw, [(1, "I", 1, "x", None, 1)], COLUMNS)
        append(spark, raw, [(2, "I", 1, "y", None, 1)], COLUMNS)
        assert len(self.build()) == 3
        before = self.versions(project)
        assert self.build() == set()
        assert self.versions(project) == before

        # Upkeep brings nothing.
        project.run_sql(f"optimize {raw}")
        assert self.build() == set()
        # Commits without anything new are looked at, once for both tables.
        project.run_sql(f"delete from {raw} where id = 2")
        assert self.build() == set()
        assert self.versions(project) == before
        # Rows that arrive behind what was read are something new, though others read the same log.
        append(spark, raw, [(4, "I", 3, "w", None, 1)], COLUMNS)
        assert self.build() == {"items_history"}
        self.check(project, (1, "x"), (2, "y"), (4, "w"))
        assert self.build() == set()

        append(spark, raw, [(3, "I", 2, "z", None, 2)], COLUMNS)
        # The views are as they were: so are the types of the raw table, which both read.
        assert self.build() == {"items_history"}
        self.check(project, (1, "x"), (2, "y"), (3, "z"), (4, "w"))
        for table in TABLES:
            operations = rows(project, f"describe history {{s}}.{table} limit 1")
            assert operations[0][4] == "WRITE", table
        assert self.build() == set()

        self.another_time_zone_is_another_view(project)
        self.another_declaration_is_something_new(project)
        self.restored_tables_are_mended(project)
        self.hooks_run(project)
        self.another_type_of_the_sequence_is_refused(project)

    def another_time_zone_is_another_view(self, project: Any) -> None:
        view = f"{project.test_schema}.stg_items"
        with project.adapter.connection_named("another"):
            assert project.adapter.view_text(view)
            project.adapter.execute("set spark.sql.session.timeZone = Asia/Tokyo")
            assert project.adapter.view_text(view) is None
            assert project.adapter.view_text(f"{view}_that_is_not_there") is None

    def another_declaration_is_something_new(self, project: Any) -> None:
        text = SOURCES.format(more="- {name: b, data_type: string}")
        write_file(text, project.project_root, "models", "sources.yml")
        assert self.build() == {"stg_items", "stg_alone", "items_history"}
        # It is noted, although no event came with it.
        assert self.build() == set()
        for table in TABLES:
            assert rows(project, f"select b from {{s}}.{table} where b is not null") == []

    def restored_tables_are_mended(self, project: Any) -> None:
        for table in TABLES:
            project.run_sql(f"restore table {project.test_schema}.{table} to version as of 0")
            self.build()
            self.check(project, (1, "x"), (2, "y"), (3, "z"), (4, "w"))

    def hooks_run(self, project: Any) -> None:
        self.build()
        assert self.build() == set()
        hook = "create table if not exists {{ this.schema }}.hooked using delta as select 1 as a"
        text = "{{ config(post_hook='HOOK') }} {{ cdc.events(source('app', 'items')) }}"
        write_file(text.replace("HOOK", hook), project.project_root, "models", "stg_items.sql")
        assert self.build() == {"stg_items"}
        assert rows(project, "select a from {s}.hooked") == [(1,)]

    def another_type_of_the_sequence_is_refused(self, project: Any) -> None:
        """The view's own type is no longer that of the raw table."""
        raw = f"{project.test_schema}.changes"
        text = "{{ cdc.events(source('app', 'items')) }}"
        write_file(text, project.project_root, "models", "stg_items.sql")
        self.build()
        project.run_sql(
            f"create or replace table {raw} using delta as"
            f" select * except (seq), cast(seq as bigint) as seq from {raw}"
        )
        # A history that is built alone reads the view as it is, and notes the raw table's types.
        run_dbt(["build", "--select", "items_history"])
        project.run_sql(f"insert into {raw} (id, op, seq, a, batch) values (5, 'I', 9, 'v', 9)")
        results = run_dbt(["build"], expect_pass=False)
        (message,) = [r.message for r in results if r.node.name == "items_history"]
        assert "cdc.sequence `int`, it is now declared as `bigint`" in message
