"""Final tables whose touched partitions are rewritten hold the open versions."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.adapters.sparkcdc.session.settings_scope import CHECKPOINT, scoped
from dbt.tests.util import run_dbt, write_file

from tests.functional.history.tables import append, histories, rows
from tests.functional.history.test_beside_others import writes

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config:
      meta:
        cdc: {format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch}
    tables:
      - name: rows
        identifier: changes
        columns: &columns
          - {name: id, data_type: int}
          - {name: region, data_type: string}
          - {name: note, data_type: string}
      - name: alone
        identifier: changes
        config: {meta: {cdc: {history: false, partition_by: {area: upper(region)}}}}
        columns: *columns
"""

SIZED = "        config: {meta: {cdc: {partition_by: {size: length(note)}}}}\n        columns"

FINAL = """
{{{{ config(materialized='incremental', incremental_strategy={strategy}, unique_key=['id'],
    partition_by={parts}) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""

BATCHES = 3


class Overwritten:
    """A final table with a history, and one without, in partitions."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        overwrite = {"strategy": "'insert_overwrite'"}
        return {
            "sources.yml": SOURCES,
            "stg_rows.sql": "{{ cdc.events(source('app', 'rows')) }}",
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "written.sql": FINAL.format(parts="['region']", read="rows_history", **overwrite),
            "alone.sql": FINAL.format(parts="['area']", read="stg_alone", **overwrite),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(rows_history="stg_rows")

    def put(self, project: Any, spark: Any, batch: int, events: list[tuple[Any, ...]]) -> None:
        columns = "id int, seq int, op string, region string, note string, batch int"
        arriving = [(*event, batch) for event in events]
        append(spark, f"{project.test_schema}.changes", arriving, columns)


class TestInsertOverwrite(Overwritten):
    def check(self, project: Any) -> None:
        columns = "id, region, note, _cdc_created_at, _cdc_updated_at, _cdc_seq"
        expected = rows(
            project,
            f"select {columns.replace('_cdc_updated_at', 'dbt_updated_at')} from {{s}}.rows_history"
            " where _seq_end is null order by id",
        )
        assert rows(project, f"select {columns} from {{s}}.written order by id") == expected
        living = f"select {columns} from {{s}}.alone where _cdc_deleted_at is null order by id"
        assert rows(project, living) == expected

    def files(self, project: Any, table: str, region: str) -> list[tuple[Any, ...]]:
        return rows(
            project,
            f"select distinct _metadata.file_name from {{s}}.{table} where region = '{region}'",
        )

    @pytest.mark.soak
    def test_any_batching(self, project: Any, spark: Any, package: None) -> None:
        draw = random.Random(20261122)
        events: list[list[tuple[Any, ...]]] = [[] for _ in range(BATCHES)]
        for seq in range(1, 200):
            key, region = draw.randrange(20), draw.choice(["a", "b", None])
            event = (key, seq, draw.choice("IUUD"), region, draw.choice("xyz"))
            for _ in range(draw.choice([1, 1, 2])):
                events[draw.randrange(BATCHES)].append(event)
        # `quiet` is only ever touched by the first batch, `lonely` loses its only row.
        events[0] += [(100, 1, "I", "quiet", "x"), (101, 1, "I", "lonely", "x")]
        events[1] += [(101, 2, "D", None, None), (100, 1, "I", "quiet", "x")]
        for batch, arriving in enumerate(events):
            self.put(project, spark, batch, arriving)
            run_dbt(["build"])
            self.check(project)
            if batch == 0:
                quiet = self.files(project, "written", "quiet")
                assert self.files(project, "written", "lonely")
        assert self.files(project, "written", "quiet") == quiet
        assert not self.files(project, "written", "lonely")

        # What changes nothing writes no file; a lost stamp has all rows compared.
        names = "select distinct _metadata.file_name from {s}.written order by all"
        before = rows(project, names)
        self.put(project, spark, BATCHES, events[0])
        run_dbt(["build"])
        assert rows(project, names) == before
        run_dbt(["build", "--full-refresh", "--select", "rows_history", "alone"])
        run_dbt(["build", "--select", "written"])
        self.check(project)

    def test_wrong_strategies_are_refused(self, project: Any, package: None) -> None:
        """`append`, which is dbt's default on Spark, would add a row for every change."""
        for old, new, said in (
            ("'insert_overwrite'", "none", "incremental_strategy: append"),
            ("['region']", "none", "no `partition_by`"),
        ):
            text = FINAL.format(
                strategy="'insert_overwrite'", parts="['region']", read="rows_history"
            )
            write_file(text.replace(old, new), project.project_root, "models", "written.sql")
            results = run_dbt(["run", "--select", "written"], expect_pass=False)
            assert any(said in str(result.message) for result in results)


@pytest.mark.extended
class TestOtherExpressions(Overwritten):
    def test_another_expression_is_refused(self, project: Any, spark: Any, package: None) -> None:
        """Of rows that do not change, the column would keep what the former one made of them."""
        self.put(project, spark, 0, [(1, 1, "I", "a", "x")])
        run_dbt(["build", "--select", "+alone", "+written"])
        other = SOURCES.replace("upper(region)", "lower(region)")
        write_file(other, project.project_root, "models", "sources.yml")
        self.put(project, spark, 1, [(2, 2, "I", "b", "x")])
        results = run_dbt(["build", "--select", "+alone"], expect_pass=False)
        said = {result.node.name: str(result.message) for result in results}["alone"]
        assert 'was built with cdc.partition_by `{"area": "upper(region)"}`' in said
        assert rows(project, "select id, area from {s}.alone") == [(1, "A")]
        # Who knows that the column stays what it is says so.
        way = re.search(r"every row keeps its values of these columns: (alter table .*\))", said)
        assert way
        spark.sql(way[1])
        run_dbt(["build", "--select", "+alone"])
        assert rows(project, "select id, area from {s}.alone order by id") == [(1, "A"), (2, "b")]
        # A further column would be missing, and nobody would notice.
        more = other.replace("lower(region)", "lower(region), size: length(note)")
        more = more.replace("identifier: changes\n        columns", f"identifier: changes\n{SIZED}")
        write_file(more, project.project_root, "models", "sources.yml")
        spark.sql(
            f"alter table {project.test_schema}.alone set tblproperties ('cdc.partition_by' ="
            """ '{"area": "lower(region)", "size": "length(note)"}')"""
        )
        run_dbt(["run", "--select", "stg_rows", "stg_alone"])
        self.put(project, spark, 2, [(3, 3, "I", "c", "x")])
        results = run_dbt(["build", "--select", "+alone", "+written"], expect_pass=False)
        failed = {str(r.node.name): str(r.message) for r in results if str(r.status) == "error"}
        assert failed.keys() == {"alone", "written"}
        for name, message in failed.items():
            assert f"{name} has no column `size`" in message
            assert f"--full-refresh --select {name}" in message
        run_dbt(["build", "--full-refresh", "--select", "alone", "written"])
        for name in failed:
            assert rows(project, f"select size from {{s}}.{name} where id = 3") == [(1,)]
        write_file(SOURCES, project.project_root, "models", "sources.yml")
        run_dbt(["build", "--full-refresh", "--select", "stg_alone+", "stg_rows+"])

    def test_a_replay_is_not_undone(
        self, project: Any, spark: Any, package: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What `cdc_replay` commits right before the write of a build that read further."""
        self.put(project, spark, 10, [(10, 10, "I", "a", "x")])
        run_dbt(["build", "--select", "+alone"])
        self.put(project, spark, 11, [(11, 11, "I", "a", "x")])
        name = f"{project.test_schema}.alone"
        back = {"cdc": name, "operation": "SET TBLPROPERTIES", "arrival": "batch", "read_to": -1}
        back |= {"raw_version": None, "fingerprint": None, "set_back": True}
        left, execute = [back], Cursor.execute

        def replaying(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            if left and writes(sql, "alone"):
                with scoped(cursor._spark, {CHECKPOINT: json.dumps(left.pop())}):
                    execute(cursor, f"alter table {name} set tblproperties ('x' = 'y')")
            execute(cursor, sql, bindings)

        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", replaying)
            run_dbt(["build", "--select", "+alone"], expect_pass=False)
        assert not left
        run_dbt(["build", "--select", "+alone"])
        notes = [row[13] for row in rows(project, f"describe history {name}") if row[13]]
        [(arrived,)] = rows(project, "select count(*) from {s}.changes")
        assert json.loads(notes[0])["run"]["counters"]["read"] == arrived
