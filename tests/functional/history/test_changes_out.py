"""Changes out of final tables and histories, the tables of former times, and the way back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.tests.util import run_dbt, run_dbt_and_capture
from dbt_common.exceptions import DbtBaseException

from tests.functional.history.changes import FINAL, SNAPSHOTS, SOURCES, WRITES, Changes, events_of
from tests.functional.history.tables import rows
from tests.functional.oracle import Event, histories

FEED = """
{{{{ config(materialized='incremental', incremental_strategy='merge', tags=['feed']) }}}}
{{{{ cdc.changelog(ref('{read}')) }}}}
"""
# The columns that tell rows apart, and all that a feed shows of them.
FEEDS = {
    "changes_final": "scenario, id, a, b, _cdc_created_at, _cdc_updated_at, _cdc_seq",
    "alone_final": "scenario, id, a, b, _cdc_created_at, _cdc_updated_at, _cdc_seq",
    "changes_history": "scenario, id, a, b, _seq, _seq_end, _cdc_created_at, _cdc_seq, dbt_scd_id",
}
FIRST, LAST = 5, 75

AS_OF = f"""
{{{{ config(materialized='table', tags=['as_of']) }}}}
{{% for at in range({FIRST}, {LAST}) %}}
select {{{{ at }}}} as at, scenario, id, a, b, _cdc_seq
from ({{{{ cdc.as_of(ref('changes_history'), sequence=at) }}}}) as rows_then
{{{{ 'union all' if not loop.last }}}}
{{% endfor %}}
"""

# Two systems write one table; the transaction and the place in it order the events of both.
JOINT = """
      - name: joint
        config: {meta: {cdc: {keys: [id], sequence_by: [tx, n], history: true}}}
        columns: [{name: id, data_type: int}, {name: data, data_type: int}]
"""
JOINT_HISTORY = """
  - name: joint_history
    relation: ref('stg_joint')
    config: {strategy: cdc.scd2, unique_key: [id], file_format: delta}
"""
JOINT_FINAL = """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id']) }}
{{ cdc.current(ref('joint_history')) }}
"""
JOINT_AS_OF = """
{{ config(materialized='table', tags=['as_of']) }}
select id, data from ({{ cdc.as_of(ref('joint_history'), sequence=[1, 4]) }}) as rows_then
"""

# What is refused, and words of the message.
REFUSED = {
    "on_a_view": (
        "table",
        "cdc.changelog(ref('stg_changes'))",
        "which is a view and has no change feed",
    ),
    "appends": ("append", "cdc.changelog(ref('changes_final'))", "Use `merge`"),
    "bounded": ("merge", "cdc.changelog(ref('changes_final'), to_version=3)", "Remove it"),
    "unkeyed": ("table", "cdc.changelog(ref('as_of_all'))", "no `unique_key`"),
    "no_version": ("table", "cdc.changelog(ref('changes_final'), 'x')", "not a commit version"),
    "of_current": ("table", "cdc.as_of(ref('changes_final'), sequence=1)", "is not a history"),
    "at_no_time": ("table", "cdc.as_of(ref('changes_history'))", "names no point in time"),
    "untimed": ("table", "cdc.as_of(ref('changes_history'), '2026-01-01')", "no event time"),
}


def refused(kind: str, body: str) -> str:
    """A model that is to fail."""
    if kind == "table":
        config = "materialized='table', tags=['refused']"
    else:
        config = f"materialized='incremental', incremental_strategy='{kind}', tags=['refused']"
    return f"{{{{ config({config}) }}}}{{{{ {body} }}}}"


class PowerCut(Exception):
    """Stands for the end of the process right after a write."""


@contextmanager
def dying_after_writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every node dies right after its first write."""
    execute = Cursor.execute
    writes: list[str] = []

    def dying(cursor: Cursor, sql: str, bindings: Any = None) -> None:
        execute(cursor, sql, bindings)
        if WRITES.match(sql):
            writes.append(sql)
            raise PowerCut(sql)

    with monkeypatch.context() as patch:
        patch.setattr(Cursor, "execute", dying)
        yield writes


@pytest.mark.soak
class TestChangesOut(Changes):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES + JOINT,
            "stg_changes.sql": "{{ cdc.events(source('app', 'changes')) }}",
            "stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
            "stg_joint.sql": "{{ cdc.events(source('app', 'joint')) }}",
            "changes_final.sql": FINAL.format(read="changes_history"),
            "alone_final.sql": FINAL.format(read="stg_alone"),
            "joint_final.sql": JOINT_FINAL,
            **{f"{name}_feed.sql": FEED.format(read=name) for name in FEEDS},
            "as_of_all.sql": AS_OF,
            "as_of_joint.sql": JOINT_AS_OF,
            **{f"{name}.sql": refused(kind, body) for name, (kind, body, _) in REFUSED.items()},
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": SNAPSHOTS + JOINT_HISTORY}

    @pytest.mark.usefixtures("changes")
    def test_one_after_the_other(
        self, project: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.project = project
        self.batches: dict[int, list[Event]] = {}
        self.raw_tables_of_two_systems()
        self.arrive(1)
        self.arrive(2)
        self.build()
        self.article_004()
        with dying_after_writes(monkeypatch) as writes:
            run_dbt(["run", "--select", "tag:feed"], expect_pass=False)
        assert len(writes) == len(FEEDS)
        self.feeds_add_up()
        self.each_change_once_across_killed_consumers(monkeypatch)
        self.nothing_for_nothing()
        self.table_of_former_times()
        self.back_and_on()
        self.vacuumed(spark)
        self.what_is_refused()

    def arrive(self, batch: int, *more: Event) -> None:
        self.batches[batch] = [*events_of(batch), *more]
        self.put(self.project, batch, self.batches[batch])

    def build(self) -> None:
        run_dbt(["build", "--exclude", "tag:feed", "tag:as_of", "tag:refused"])
        self.check(self.project, self.events())

    def events(self) -> list[Event]:
        return [event for events in self.batches.values() for event in events]

    def feed(self) -> None:
        run_dbt(["run", "--select", "tag:feed"])
        self.feeds_add_up()

    def feeds_add_up(self) -> None:
        """The changes give the table, each is there once, and none is for nothing."""
        for table, columns in FEEDS.items():
            living = "where _cdc_deleted_at is null" if table == "alone_final" else ""
            added = (
                f"select {columns} from {{s}}.{table}_feed group by all"
                " having sum(if(_row_kind in ('+I', '+U'), 1, -1)) <> 0"
            )
            present = f"select {columns} from {{s}}.{table} {living}"
            for left, right in ((added, present), (present, added)):
                assert rows(self.project, f"({left}) except all ({right})") == [], table
            doubled = (
                f"select _commit_version, {columns} from {{s}}.{table}_feed group by all"
                " having count(*) > 1"
            )
            assert rows(self.project, doubled) == [], table
            key = "dbt_scd_id" if table == "changes_history" else "scenario, id"
            unpaired = (
                f"select _commit_version, {key} from {{s}}.{table}_feed group by all"
                " having array_join(array_sort(collect_list(_row_kind)), '')"
                " not in ('+I', '-D', '+U-U')"
            )
            assert rows(self.project, unpaired) == [], table

    def counts(self) -> list[Any]:
        return [
            rows(self.project, f"select count(*), max(_commit_version) from {{s}}.{table}_feed")
            for table in FEEDS
        ]

    def commits(self, table: str) -> list[Any]:
        query = f"describe history {{s}}.{table}"
        return [(row[0], row[4]) for row in rows(self.project, query)]

    def raw_tables_of_two_systems(self) -> None:
        """What article 004 does in transactions, told by two systems, and a view of both."""
        told = {
            # An insert, its update as delete and insert, a delete: another row takes its place.
            "web": "(1, 2, 1, 1, 'I', 1), (1, null, 1, 2, 'D', 1), (1, 3, 1, 3, 'I', 1),"
            " (1, null, 1, 5, 'D', 1), (2, 5, 1, 6, 'I', 1),"
            # The same row inserted, deleted and inserted by one transaction: once, not none.
            " (7, 2, 2, 1, 'I', 1), (7, null, 2, 2, 'D', 1), (7, 2, 2, 3, 'I', 1)",
            # Rows of an earlier transaction and of the same one, deleted by key.
            "shop": "(3, 5, 1, 4, 'I', 1), (14, 4, 3, 1, 'I', 1), (12, 2, 3, 2, 'I', 1),"
            " (15, 5, 4, 1, 'I', 1), (15, null, 4, 2, 'D', 1), (14, null, 4, 3, 'D', 1)",
        }
        schema = self.project.test_schema
        for name, values in told.items():
            self.project.run_sql(
                f"create table {schema}.{name} (id int, data int, tx int, n int, op string,"
                " batch int) using delta"
            )
            self.project.run_sql(f"insert into {schema}.{name} values {values}")
        self.project.run_sql(
            f"create view {schema}.joint as select * from {schema}.web"
            f" union all select * from {schema}.shop"
        )

    def article_004(self) -> None:
        query = "select id, data from {s}.joint_final order by id"
        assert rows(self.project, query) == [(2, 5), (3, 5), (7, 2), (12, 2)]
        query = "select data, _seq.part_2, _seq_end.part_2 from {s}.joint_history where id = 7"
        query += " order by _seq"
        assert rows(self.project, query) == [(2, 1, 2), (2, 3, None)]

    def each_change_once_across_killed_consumers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for batch in (3, 4):
            self.arrive(batch)
            self.build()
            with dying_after_writes(monkeypatch) as writes:
                run_dbt(["run", "--select", "tag:feed"], expect_pass=False)
            assert len(writes) == len(FEEDS), writes
            before = self.counts()
            self.feed()
            assert self.counts() == before
        both = "(select _row_kind from {s}.changes_final_feed union all"
        both += " select _row_kind from {s}.changes_history_feed)"
        kinds = f"select distinct _row_kind from {both} order by 1"
        assert [kind for (kind,) in rows(self.project, kinds)] == ["+I", "+U", "-D", "-U"]

    def nothing_for_nothing(self) -> None:
        """A batch that is known, compaction, a rewrite: no change goes out."""
        before, commits = self.counts(), self.commits("changes_final_feed")
        run_dbt(["run", "--select", "tag:feed"])
        assert self.commits("changes_final_feed") == commits
        self.put(self.project, 5, self.batches[4])
        for table in FEEDS:
            self.project.run_sql(f"optimize {self.project.test_schema}.{table}")
        table = f"{self.project.test_schema}.changes_final"
        self.project.run_sql(f"insert overwrite {table} select * from {table}")
        self.build()
        self.feed()
        assert self.counts() == before

    def table_of_former_times(self) -> None:
        self.arrive(6)
        self.build()
        run_dbt(["run", "--select", "tag:as_of"])
        expected = {
            (at, v.scenario, v.id, v.a, v.b, v.changed)
            for at in range(FIRST, LAST)
            for v in histories([event for event in self.events() if event.position <= at])
            if v.seq_end is None
        }
        found = rows(self.project, "select * from {s}.as_of_all")
        assert len(found) == len(set(found))
        assert set(found) == expected
        assert rows(self.project, "select * from {s}.as_of_joint order by id") == [(1, 3), (3, 5)]

    def run_of(self, table: str) -> str:
        """The run that wrote a table last."""
        metadata = rows(self.project, f"describe history {{s}}.{table}")
        found = [json.loads(row[-2]) for row in metadata if row[-2]]
        return str(next(checkpoint["run"]["id"] for checkpoint in found if "run" in checkpoint))

    def rewind(self, table: str, run: str, **more: Any) -> None:
        args = {"table": table, "run": run, "dry_run": False} | more
        run_dbt(["run-operation", "cdc_rewind", "--args", json.dumps(args)])

    def back_and_on(self) -> None:
        """A run is undone, with its tombstones; the next build starts before it."""
        self.feed()
        self.arrive(7)
        self.build()
        undone = self.run_of("changes_history")
        assert undone == self.run_of("alone_final")
        self.feed()
        commits = self.commits("changes_history")
        self.rewind("changes_history", undone, dry_run=True)
        assert self.commits("changes_history") == commits
        self.rewind("changes_history", undone)
        self.rewind("alone_final", undone)
        seventh = self.batches.pop(7)
        self.check(self.project, self.events())
        self.feed()

        # The raw rows are still there: the next build reads them again.
        self.batches[7] = seventh
        self.build()
        self.feed()

        # Those of a bad batch are taken away, and nothing of it is left, its deletes neither.
        undone = self.run_of("changes_history")
        self.rewind("changes_history", undone)
        self.rewind("alone_final", undone)
        del self.batches[7]
        self.project.run_sql(f"delete from {self.project.test_schema}.changes where batch = 7")
        self.arrive(8, Event(0, 1007, 71, "I", "x", "p"))
        self.build()
        self.feed()
        refused = {
            "changes_history": "has no commit of a run",
            "changes_final": "is built from its history",
            "raw": "is not a table that this package manages",
        }
        for name, words in refused.items():
            assert words in self.refusal("cdc_rewind", table=name, run=undone)
        said = self.refusal("cdc_replay", table="changes_final")
        assert "Name the history, changes_history." in said

    def refusal(self, operation: str, **args: Any) -> str:
        """What an operation that fails has to say."""
        try:
            return run_dbt_and_capture(
                ["run-operation", operation, "--args", json.dumps(args)], expect_pass=False
            )[1]
        except DbtBaseException as exc:
            return str(exc)

    def vacuumed(self, spark: Any) -> None:
        """A final table that did not read in time compares itself; a consumer is told."""
        schema = self.project.test_schema
        for batch in (9, 10):
            self.arrive(batch)
            run_dbt(["snapshot"])
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        spark.sql(f"optimize {schema}.changes_history")
        spark.sql(f"vacuum {schema}.changes_history retain 0 hours")
        self.build()
        results = run_dbt(["run", "--select", "changes_history_feed"], expect_pass=False)
        message = "\n".join(str(result.message) for result in results)
        assert "The first version that is left is" in message
        left = int(message.split("version that is left is ")[1].split(",")[0])
        history = f"table_changes('{schema}.changes_history', {{}})"
        spark.sql(f"select * from {history.format(left)}").collect()
        with pytest.raises(Exception, match="FILE_NOT_EXIST"):
            spark.sql(f"select * from {history.format(left - 1)}").collect()

    def what_is_refused(self) -> None:
        results = run_dbt(["run", "--select", "tag:refused"], expect_pass=False)
        messages = {result.node.name: result.message for result in results}
        for name, (_, _, words) in REFUSED.items():
            assert words in messages[name], messages[name]
