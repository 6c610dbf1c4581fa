"""A build beside others: raw tables that grow, readers, a second build."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.adapters.sparkcdc.session.settings_scope import CHECKPOINT, scoped
from dbt.tests.util import run_dbt, run_dbt_and_capture

from tests.functional.history.changes import WRITES, Changes, events_of
from tests.functional.history.tables import FINAL, histories, rows
from tests.functional.oracle import Event

Execute = Callable[..., None]


def merges(sql: str, table: str) -> bool:
    """Whether a statement is the merge into a table."""
    return bool(re.search(rf"merge into \S*\b{table} as", sql))


def writes(sql: str, table: str) -> bool:
    """Whether a statement is the write of a table, of any kind."""
    return bool(re.search(rf"(merge|insert) into \S*\b{table}\b", sql.replace("`", "")))


@pytest.mark.soak
class TestBesideOthers(Changes):
    def patched(
        self, patch: pytest.MonkeyPatch, act: Callable[[Execute, Cursor, str], None]
    ) -> None:
        """Lets `act` run before every statement of a build."""
        execute = Cursor.execute

        def acting(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            act(execute, cursor, sql)
            execute(cursor, sql, bindings)

        patch.setattr(Cursor, "execute", acting)

    @pytest.mark.usefixtures("changes")
    def test_one_after_the_other(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[Event] = []
        self.arrive(project, 1)
        run_dbt(["build"])
        self.raw_table_grows(project, monkeypatch)
        self.readers_see_whole_commits(project, monkeypatch)
        self.second_build_writes_the_history(project, monkeypatch)
        self.somebody_writes_the_final_table(project, monkeypatch)

    def arrive(self, project: Any, batch: int) -> None:
        self.events += events_of(batch)
        self.put(project, batch, events_of(batch))

    def raw_table_grows(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrive(project, 2)
        arrivals = iter(range(3, 6))

        def growing(execute: Execute, cursor: Cursor, sql: str) -> None:
            batch = next(arrivals, None) if WRITES.match(sql) else None
            if batch:
                values = ", ".join(
                    "(" + ", ".join("null" if v is None else repr(v) for v in event) + f", {batch})"
                    for event in events_of(batch)
                )
                execute(cursor, f"insert into {project.test_schema}.changes values {values}")
                self.events += events_of(batch)

        with monkeypatch.context() as patch:
            self.patched(patch, growing)
            run_dbt(["build"])
        assert next(arrivals, None) is None
        run_dbt(["build"])
        self.check(project, self.events)

    def readers_see_whole_commits(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Between any two statements of a build no key has two open versions or two rows."""
        self.arrive(project, 6)
        looks = []

        tables = ["changes_history where _seq_end is null", "changes_final"]
        counts = [
            f"select count(*) - count(distinct scenario, id) from {project.test_schema}.{table}"
            for table in tables
        ]

        def reading(execute: Execute, cursor: Cursor, sql: str) -> None:
            for count in counts:
                execute(cursor, count)
                looks.append(cursor.fetchall()[0][0])

        with monkeypatch.context() as patch:
            self.patched(patch, reading)
            run_dbt(["build", "--threads", "1"])
        assert len(looks) > 20 and set(looks) == {0}
        self.check(project, self.events)

    def second_build_writes_the_history(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another build, which had read fewer events, commits right before ours."""
        self.arrive(project, 7)
        seen = []

        def merging(execute: Execute, cursor: Cursor, sql: str) -> None:
            if merges(sql, "changes_history"):
                if not seen:
                    # Its commit has the same number as ours, and a checkpoint of its own.
                    spark = cursor._spark
                    ours = json.loads(spark.conf.get(CHECKPOINT))
                    other = ours | {"run": ours["run"] | {"id": "other"}}
                    half = re.sub(
                        r"using (\w+) as", r"using (select * from \1 where id % 2 = 0) as", sql
                    )
                    assert half != sql
                    with scoped(spark, {CHECKPOINT: json.dumps(other)}):
                        execute(cursor, half)
                seen.append(sql)

        with monkeypatch.context() as patch:
            self.patched(patch, merging)
            run_dbt(["build", "--threads", "1"])
        assert len(seen) == 2
        self.check(project, self.events)

    def somebody_writes_the_final_table(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The build says so, and the next one is right again."""
        self.arrive(project, 8)
        run_dbt(["build"])
        self.is_reported(project, monkeypatch, 9, "changes_final")
        self.is_reported(project, monkeypatch, 10, "alone_final")

    def is_reported(
        self, project: Any, monkeypatch: pytest.MonkeyPatch, batch: int, table: str
    ) -> None:
        self.arrive(project, batch)
        came = []

        def coming(execute: Execute, cursor: Cursor, sql: str) -> None:
            if not came and writes(sql, table):
                came.append(sql)
                deletion = f"delete from {project.test_schema}.{table} where id >= 0"
                cursor._spark.newSession().sql(deletion)

        with monkeypatch.context() as patch:
            self.patched(patch, coming)
            results = run_dbt(["build"], expect_pass=False)
        assert len(came) == 1
        messages = [result.message for result in results if result.status == "error"]
        assert len(messages) == 1 and "another program wrote" in messages[0]
        run_dbt(["build"])
        self.check(project, self.events)


SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config: {meta: {cdc: {keys: [id], arrival: seq}}}
    tables:
      - name: items
        config: {meta: {cdc: {format: flagged, sequence_by: seq, operation: op, where: seq > 0}}}
        columns: &columns [{name: id, data_type: int}, {name: a, data_type: string}]
      - name: moving
        config: {meta: {cdc: {format: wal2json_v2, key_changes: true}}}
        columns: *columns
"""
KEYS = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="_event_id")
    return resolve_keys(dbt, session, dbt.ref("stg_moving"))
"""
# The events say `id` and `a` in this order.
NEWEST = """
    select id, max_by(a, seq)
    from (
        select
            cast(get_json_object(value, '$.columns[0].value') as int) as id,
            get_json_object(value, '$.columns[1].value') as a,
            seq
        from {s}.moving
    ) as events
    group by id
    order by id
"""
RESOLVED = "select id, a from {s}.moving_final order by id"


class Resolved:
    """Two raw tables, one of them with a resolver."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES,
            "stg_items.sql": "{{ cdc.events(source('app', 'items')) }}",
            "stg_moving.sql": "{{ cdc.events(source('app', 'moving')) }}",
            "moving_keys.py": KEYS,
            "moving_final.sql": FINAL.format(read="moving_history"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items", moving_history="moving_keys")

    def event(self, seq: int) -> str:
        """The insert of a row, as the payload of its raw row."""
        columns = [{"name": "id", "value": seq % 7}, {"name": "a", "value": str(seq)}]
        event = {"action": "I", "lsn": f"0/{seq:x}", "schema": "public", "table": "moving"}
        return json.dumps(event | {"timestamp": "2026-01-01 00:00:00+00", "columns": columns})


@pytest.mark.soak
@pytest.mark.usefixtures("package")
class TestBusyTables(Resolved):
    """Others commit to the raw tables all the time, and to the table of a resolver."""

    def test_builds_end_and_are_right(
        self, project: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        schema = project.test_schema
        project.run_sql(
            f"create table {schema}.items (id int, a string, op string, seq bigint) using delta"
        )
        project.run_sql(f"create table {schema}.moving (value string, seq bigint) using delta")
        numbers = iter(range(1, 1000))

        def arrive(table: str) -> None:
            seq = next(numbers)
            row = f"{seq % 7}, '{seq}', 'U'" if table == "items" else f"'{self.event(seq)}'"
            spark.sql(f"insert into {schema}.{table} values ({row}, {seq})")

        for table in ("items", "moving"):
            arrive(table)
        run_dbt(["build"])
        looks = []
        execute = Cursor.execute

        def busy(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            execute(cursor, sql, bindings)
            found = re.search(
                r"select max\(seq\).* from \S+\.(items|moving)\b", sql.replace("`", "")
            )
            if found:
                looks.append(found[1])
                arrive(found[1])

        arrive("items")
        arrive("moving")
        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", busy)
            run_dbt(["build"])
        assert 2 <= looks.count("items") <= 6 and 2 <= looks.count("moving") <= 6, looks
        run_dbt(["build"])
        newest = "select id, max_by(a, seq) from {s}.items group by id order by id"
        current = "select id, a from {s}.items_history where _seq_end is null order by id"
        assert rows(project, current) == rows(project, newest)
        assert rows(project, RESOLVED) == rows(project, NEWEST)
        self.another_build_resolves(project, spark, monkeypatch, arrive)

    def another_build_resolves(
        self,
        project: Any,
        spark: Any,
        monkeypatch: pytest.MonkeyPatch,
        arrive: Callable[[str], None],
    ) -> None:
        """What was resolved with an older version of the table is not merged."""
        schema = project.test_schema
        keys = f"{schema}.moving_keys"
        execute, came = Cursor.execute, []
        last = rows(project, f"describe history {keys} limit 1")[0]
        checkpoint = next(str(value) for value in last if str(value).startswith('{"'))
        # It may be that of a commit without rows, which no other commit can carry.
        checkpoint = json.dumps(json.loads(checkpoint) | {"operation": ""})

        def beside(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            if not came and merges(sql, "moving_keys"):
                came.append(sql)
                with scoped(spark, {CHECKPOINT: checkpoint}):
                    spark.sql(f"update {keys} set a = a")
            execute(cursor, sql, bindings)

        arrive("moving")
        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", beside)
            results = run_dbt(["build", "--select", "+moving_final"], expect_pass=False)
        assert len(came) == 1
        messages = [result.message for result in results if result.status == "error"]
        assert len(messages) == 1 and "another build wrote" in messages[0]
        arrive("moving")
        run_dbt(["build", "--select", "+moving_final"])
        assert rows(project, RESOLVED) == rows(project, NEWEST)
        assert rows(project, f"show tables in {schema} like 'moving_keys__*'") == []
        # Maintenance reaches the resolver's table by its name.
        command = ["run-operation", "cdc_optimize", "--args", "{table: moving_keys}"]
        assert re.findall(r"cdc: (\w+): ", run_dbt_and_capture(command)[1]) == ["moving_keys"]


@pytest.mark.extended
@pytest.mark.usefixtures("package")
class TestResolverWithoutRows(Resolved):
    def test_somebody_writes_its_table(
        self, project: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a run without new events does not see is seen by the next one."""
        schema = project.test_schema
        project.run_sql(f"create table {schema}.moving (value string, seq bigint) using delta")
        first, second = self.event(1), self.event(2)
        spark.sql(f"insert into {schema}.moving values ('{first}', 1), ('{second}', 2)")
        build = ["build", "--select", "+moving_keys"]
        run_dbt(build)
        resolved = rows(project, "select _event_id from {s}.moving_keys order by all")
        # It was delivered before.
        spark.sql(f"insert into {schema}.moving values ('{second}', 3)")
        execute, came = Cursor.execute, []

        def beside(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            if not came and "select 1 from" in sql and "moving_keys" in sql:
                came.append(sql)
                spark.sql(f"delete from {schema}.moving_keys where id = 1")
            execute(cursor, sql, bindings)

        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", beside)
            run_dbt(build)
        assert came
        run_dbt(build)
        assert rows(project, "select _event_id from {s}.moving_keys order by all") == resolved
