"""Tables that share a raw table: only those that its new events concern look for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt_spark_cdc.landing.raw_table import RAW, create_raw
from tests.functional.history.tables import FINAL, append, histories, rows

pytestmark = pytest.mark.extended

DECLARED = """
      - name: {name}
        identifier: topic
        config: {{meta: {{cdc: {{source_table: shop.{name}, {more}}}}}}}
        columns: [{{name: id, data_type: bigint}}, {{name: a, data_type: string}}]
"""
SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config: {meta: {cdc: {format: maxwell, keys: [id], arrival: offset}}}
    tables:
"""
RESOLVED = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="_event_id")
    return resolve_keys(dbt, session, dbt.ref("stg_moving"))
"""
COLUMNS = "value string, offset bigint"
# Looks for itself each time, as it counts the batches of all.
NUMBERED = "history: false, batch_order: offset"
TABLES = ("items_history", "items_final", "lone_final", "moving_resolved", "moving_history")


class TestEventsOfOtherTables:
    offset = 0
    tables: tuple[str, ...] = TABLES

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        tables = {"items": "", "lone": "history: false", "moving": "key_changes: true"}
        tables["numbered"] = NUMBERED
        declared = [DECLARED.format(name=name, more=more) for name, more in tables.items()]
        view = "{{{{ config(materialized='view') }}}}{{{{ cdc.events(source('app', '{}')) }}}}"
        return {
            "sources.yml": SOURCES + "".join(declared),
            **{f"stg_{name}.sql": view.format(name) for name in tables},
            "items_final.sql": FINAL.format(read="items_history"),
            "lone_final.sql": FINAL.format(read="stg_lone"),
            "numbered_final.sql": FINAL.format(read="stg_numbered"),
            "moving_resolved.py": RESOLVED,
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items", moving_history="moving_resolved")

    def send(self, project: Any, spark: Any, *events: tuple[str, int, str]) -> None:
        """Commits events to the topic: table, key, value."""
        arriving = []
        for table, key, value in events:
            type(self).offset += 1
            message = {
                "database": "shop", "table": table, "type": "insert", "ts": 1_700_000_000,
                "xid": self.offset, "commit": True, "data": {"id": key, "a": value},
            }  # fmt: skip
            arriving.append((json.dumps(message), self.offset))
        append(spark, f"{project.test_schema}.topic", arriving, COLUMNS)

    def written(self, project: Any) -> dict[str, int]:
        """Builds all; returns how many commits each table got, as far as it got any."""
        before = self.versions(project)
        self.build()
        after = self.versions(project)
        return {name: after[name] - before[name] for name in after if after[name] > before[name]}

    def build(self) -> None:
        run_dbt(["build"])

    def versions(self, project: Any) -> dict[str, int]:
        newest = "describe history {{s}}.{} limit 1"
        return {name: rows(project, newest.format(name))[0][0] for name in self.tables}

    def looks(self, project: Any) -> list[str]:
        """Builds all, and nothing is written; returns the queries for what all tables have got."""
        before = self.versions(project)
        results, log = run_dbt_and_capture(["--debug", "build"])
        messages = {result.node.name: result.message for result in results}
        assert messages["items_history"] == messages["moving_history"] == "nothing new"
        assert self.versions(project) == before
        return [line for line in log.splitlines() if "max(offset) filter" in line]

    def test_only_who_is_concerned_looks(self, project: Any, spark: Any, package: None) -> None:
        self.send(project, spark, ("items", 1, "x"), ("lone", 1, "x"), ("moving", 1, "x"))
        run_dbt(["build"])
        self.send(project, spark, ("items", 2, "y"), ("lone", 2, "y"), ("moving", 2, "y"))
        assert set(self.written(project)) == set(TABLES)

        # Nobody's event: one look, for all.
        self.send(project, spark, ("others", 1, "x"))
        (look,) = self.looks(project)
        assert "contains(cast(`value` as string), 'moving')" in look

        self.send(project, spark, ("items", 3, "z"), ("others", 2, "y"))
        self.send(project, spark, ("lone", 3, "z"))
        assert set(self.written(project)) == {"items_history", "items_final", "lone_final"}
        self.send(project, spark, ("moving", 3, "z"))
        assert set(self.written(project)) == {"moving_resolved", "moving_history"}
        for table in ("items_final", "lone_final", "moving_history"):
            found = rows(project, f"select id, a from {{s}}.{table} order by id")
            assert found == [(1, "x"), (2, "y"), (3, "z")], table
        self.a_view_stays_while_events_come(project, spark)
        self.what_was_passed_by_long_enough_is_noted(project, spark)
        self.a_restored_table_looks_again(project, spark)
        self.a_wrong_declaration_is_its_own_affair(project, spark)

    def a_view_stays_while_events_come(self, project: Any, spark: Any) -> None:
        views = {"stg_items", "stg_lone"}

        def kept() -> set[str]:
            messages = {result.node.name: result.message for result in run_dbt(["build"])}
            assert messages["items_history"] != "nothing new"
            return {name for name in views if messages[name] == "nothing new"}

        # The types of the raw table are those of the views.
        project.run_sql(f"alter table {project.test_schema}.topic add columns (more string)")
        self.send(project, spark, ("items", 3, "z"), ("lone", 3, "z"))
        assert kept() == set()
        self.send(project, spark, ("items", 3, "z"), ("lone", 3, "z"))
        assert kept() == views

    def what_was_passed_by_long_enough_is_noted(self, project: Any, spark: Any) -> None:
        topic = f"{project.test_schema}.topic"
        first, many = self.offset + 1, 100_001
        type(self).offset += many
        others = spark.range(first, first + many).selectExpr("'{}' as value", "id as offset")
        others.write.format("delta").mode("append").saveAsTable(topic)
        assert set(self.written(project)) == {"items_history", "lone_final", "moving_resolved"}
        self.send(project, spark, ("others", 3, "z"))
        (look,) = self.looks(project)
        assert f"offset > {self.offset - 1}" in look
        self.send(project, spark, ("lone", 4, "w"), ("numbered", 4, "w"))
        assert set(self.written(project)) == {"lone_final"}
        assert rows(project, "select id, a from {s}.numbered_final") == [(4, "w")]

    def a_restored_table_looks_again(self, project: Any, spark: Any) -> None:
        for table in ("items_history", "lone_final", "moving_resolved"):
            project.run_sql(f"restore table {project.test_schema}.{table} to version as of 0")
        self.send(project, spark, ("others", 4, "z"))
        run_dbt(["build"])
        for table in ("items_final", "moving_history"):
            found = rows(project, f"select id, a from {{s}}.{table} where id < 4 order by id")
            assert found == [(1, "x"), (2, "y"), (3, "z")], table
        assert rows(project, "select a from {s}.lone_final where id = 4") == [("w",)]

    def a_wrong_declaration_is_its_own_affair(self, project: Any, spark: Any) -> None:
        wrong = SOURCES + "".join(
            DECLARED.format(name=name, more=more)
            for name, more in (("items", "where: no_column = 1"), ("lone", "history: false"))
        )
        wrong += DECLARED.format(name="moving", more="key_changes: true")
        wrong += DECLARED.format(name="numbered", more=NUMBERED)
        write_file(wrong, project.project_root, "models", "sources.yml")
        self.send(project, spark, ("lone", 5, "v"), ("items", 5, "v"))
        results = run_dbt(["build"], expect_pass=False)
        failed = {result.node.name for result in results if result.status == "error"}
        assert failed == {"stg_items"}
        assert rows(project, "select a from {s}.lone_final where id = 5") == [("v",)]


LANDED = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config: {meta: {cdc: {format: maxwell, keys: [id], landed: true}}}
    tables:
      - &table
        name: items
        identifier: landed
        config: {meta: {cdc: {source_table: shop.items}}}
        columns: [{name: id, data_type: bigint}, {name: a, data_type: string}]
      - <<: *table
        name: lone
        config: {meta: {cdc: {source_table: shop.lone, history: false}}}
"""


class TestLanded(TestEventsOfOtherTables):
    """Landed tables are partitions of their raw table, and its log tells what is new in each."""

    tables = ("items_history", "items_final", "lone_final")

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        view = "{{{{ config(materialized='view') }}}}{{{{ cdc.events(source('app', '{}')) }}}}"
        return {
            "sources.yml": LANDED,
            **{f"stg_{name}.sql": view.format(name) for name in ("items", "lone")},
            "items_final.sql": FINAL.format(read="items_history"),
            "lone_final.sql": FINAL.format(read="stg_lone"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items")

    def send(self, project: Any, spark: Any, *events: tuple[str, int, str]) -> None:
        """Lands a batch of events: table, key, value."""
        raw = f"{project.test_schema}.landed"
        create_raw(spark, raw, RAW)
        type(self).offset += 1
        lines = []
        for number, (table, key, value) in enumerate(events):
            message = {
                "database": "shop", "table": table, "type": "insert", "ts": 1_700_000_000,
                "xid": self.offset, "xoffset": number, "commit": True,
                "data": {"id": key, "a": value},
            }  # fmt: skip
            lines.append((json.dumps(message), f"{table}/{self.offset}", number, table))
        columns = "value string, _file string, _row bigint, _table string"
        landed = spark.createDataFrame(lines, columns).selectExpr(
            "*", "now() as _landed_at", f"{self.offset}L as _batch"
        )
        landed.write.format("delta").mode("append").saveAsTable(raw)

    def build(self) -> None:
        _, log = run_dbt_and_capture(["--debug", "build"])
        assert not [line for line in log.splitlines() if "max(_batch)" in line]

    def test_only_who_is_concerned_looks(self, project: Any, spark: Any, package: None) -> None:
        self.send(project, spark, ("items", 1, "x"), ("lone", 1, "x"))
        run_dbt(["build"])
        self.send(project, spark, ("items", 2, "y"), ("lone", 2, "y"), ("lone", 1, "y"))
        assert set(self.written(project)) == set(self.tables)
        self.send(project, spark, ("others", 1, "x"))
        self.send(project, spark, ("lone", 3, "z"))
        self.send(project, spark, ("others", 2, "x"))
        assert self.written(project) == {"lone_final": 1}
        self.commits_for_others(project, spark, 51)
        # From here on, so that nobody reads these commits again.
        assert set(self.written(project)) == {"items_history", "lone_final"}
        self.send(project, spark, ("items", 3, "z"))
        assert self.written(project) == {"items_history": 1, "items_final": 1}
        expected = {"items_final": [(1, "x"), (2, "y"), (3, "z")],
                    "lone_final": [(1, "y"), (2, "y"), (3, "z")]}  # fmt: skip
        for table, found in expected.items():
            assert rows(project, f"select id, a from {{s}}.{table} order by id") == found, table
        self.another_table_has_the_name(project, spark)

    def commits_for_others(self, project: Any, spark: Any, many: int) -> None:
        """Lands a batch, and copies its commit, as the same file may be added again."""
        self.send(project, spark, ("others", 3, "x"))
        where = spark.sql(f"describe detail {project.test_schema}.landed").first()["location"]
        log = Path(where.removeprefix("file:")) / "_delta_log"
        newest = max(log.glob("*.json"))
        for version in range(int(newest.stem) + 1, int(newest.stem) + many):
            (log / f"{version:020}.json").write_text(newest.read_text())

    def another_table_has_the_name(self, project: Any, spark: Any) -> None:
        version = rows(project, "describe history {s}.landed limit 1")[0][0]
        project.run_sql(f"drop table {project.test_schema}.landed")
        self.send(project, spark, ("items", 4, "w"))
        self.commits_for_others(project, spark, version)
        run_dbt(["build"])
        assert rows(project, "select a from {s}.items_final where id = 4") == [("w",)]
