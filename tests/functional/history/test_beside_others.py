"""A build beside others: raw tables that grow, readers, a second build."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.sparkcdc.cursor import Cursor
from dbt.adapters.sparkcdc.impl import CHECKPOINT
from dbt.adapters.sparkcdc.settings_scope import scoped
from dbt.tests.util import run_dbt

from tests.functional.history.changes import WRITES, Changes, events_of
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
