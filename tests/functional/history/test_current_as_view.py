"""A final table as a view on the open versions of its history, beside the same as a table."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.history.tables import FINAL, histories, rows

pytestmark = pytest.mark.extended

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
      - name: items
        identifier: raw_items
        config:
          meta:
            cdc:
              format: flagged
              keys: [id]
              sequence_by: seq
              operation: op
              arrival: batch
              partition_by: {letter: "left(a, 1)"}
        columns: &columns [{name: id, data_type: bigint}, {name: a, data_type: string}]
      - name: alone
        identifier: raw_items
        config:
          meta:
            cdc: {format: flagged, keys: [id], sequence_by: seq, operation: op, history: false}
        columns: *columns
"""
TESTS = """
version: 2
models:
  - name: items_now
    data_tests:
      - cdc.one_current_row: {arguments: {unique_key: [id]}}
      - cdc.matches_source: {arguments: {compare_to: ref('items'), unique_key: [id]}}
  - name: items_audit
    data_tests: [cdc.nothing_lost]
"""
# The same model as a view or, with a variable, as a table.
NOW = FINAL.format(read="items_history").replace("'incremental'", "var('now', 'view')", 1)
AS_TABLE = ["--vars", "now: incremental"]
CHANGELOG = (
    "{{ config(materialized='table', tags='changelog') }}{{ cdc.changelog(ref('items_now')) }}"
)


class TestCurrentAsView:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "tests.yml": TESTS,
            "stg_items.sql": "{{ cdc.events(source('app', 'items')) }}",
            "items.sql": FINAL.format(read="items_history"),
            "items_now.sql": NOW,
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "alone.sql": FINAL.format(read="stg_alone"),
            "alone_now.sql": "{{ config(materialized='view') }}{{ cdc.current(ref('stg_alone')) }}",
            "items_changes.sql": CHANGELOG,
            "items_audit.sql": "{{ cdc.audit(ref('items_history'), ref('items_now')) }}",
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items")

    @pytest.mark.usefixtures("package")
    def test_it_is_as_good_as_a_table(self, project: Any) -> None:
        raw = f"{project.test_schema}.raw_items"
        project.run_sql(
            f"create table {raw} (id bigint, a string, seq int, op string, batch int) using delta"
        )

        def build(*options: str) -> None:
            run_dbt(["build", "--exclude", "tag:changelog", *options])
            # Columns, types and rows are those of the table, hidden columns included.
            for name in ("items", "alone"):
                table, view = (
                    [row[:2] for row in rows(project, f"describe {{s}}.{relation}")]
                    for relation in (name, f"{name}_now")
                )
                assert view == table
                surplus = "select * from {{s}}.{} except all select * from {{s}}.{}"
                assert not rows(project, surplus.format(name, f"{name}_now"))
                assert not rows(project, surplus.format(f"{name}_now", name))

        def kind() -> str:
            found = rows(project, "describe extended {s}.items_now")
            return next(str(row[1]) for row in found if row[0] == "Type")

        def now() -> list[tuple[Any, ...]]:
            return rows(project, "select id, a, letter from {s}.items_now order by id")

        def arrives(*events: str) -> None:
            project.run_sql(f"insert into {raw} values {', '.join(events)}")

        # There is nothing to compare with before the first build.
        _, output = run_dbt_and_capture(["test", "-s", "items_now"], expect_pass=False)
        assert ".items, which it is compared with, does not exist. Build it first" in output

        arrives("(1, 'a', 1, 'I', 1), (2, 'b', 2, 'I', 1), (3, 'c', 3, 'I', 1)")
        build()
        assert kind() == "VIEW"
        assert now() == [(1, "a", "a"), (2, "b", "b"), (3, "c", "c")]

        # A change, a new key, a delete and a late event: the view shows what the history has.
        arrives("(1, 'x', 11, 'U', 2), (4, 'd', 12, 'I', 2), (2, null, 13, 'D', 2)")
        arrives("(3, 'z', 2, 'U', 2), (4, 'late', 5, 'I', 2)")
        build()
        assert now() == [(1, "x", "x"), (3, "c", "c"), (4, "d", "d")]

        # A view has no change feed.
        _, output = run_dbt_and_capture(["run", "-s", "items_changes"], expect_pass=False)
        assert "items_changes asks for the changes of items_now, which is a view" in output

        # From a view to a table, which then takes its batches, and back.
        run_dbt(["run", "-s", "items_now", *AS_TABLE])
        assert kind() == "MANAGED"
        arrives("(3, null, 21, 'D', 3), (5, 'e', 22, 'I', 3)")
        build(*AS_TABLE)
        assert now() == [(1, "x", "x"), (4, "d", "d"), (5, "e", "e")]
        assert len(rows(project, "describe history {s}.items_now")) > 1
        run_dbt(["run", "-s", "items_changes", *AS_TABLE])
        arrives("(5, 'f', 31, 'U', 4)")
        build()
        assert kind() == "VIEW"
        assert now() == [(1, "x", "x"), (4, "d", "d"), (5, "f", "f")]

        # A column that is computed in another way is so in rows that do not change, too.
        other = SOURCES.replace('"left(a, 1)"', '"upper(left(a, 1))"')
        write_file(other, project.project_root, "models", "sources.yml")
        build()
        assert now() == [(1, "x", "X"), (4, "d", "D"), (5, "f", "F")]
