"""A build that dies at any point leaves tables that the next one completes."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.delta import creation
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.tests.util import run_dbt
from dbt_common.events.contextvars import get_node_info

from tests.functional.history.changes import WRITES, Changes, events_of
from tests.functional.oracle import Event


class PowerCut(Exception):
    """Stands for the end of the process right after a write."""


class TestCrash(Changes):
    @pytest.mark.usefixtures("changes")
    def test_after_each_write(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        execute = Cursor.execute
        events: list[Event] = []
        for batch in count(1):
            # The nth build dies after its nth write, in both ways to a final table: neither reads
            # what the other one writes.
            left = {"changes": batch, "alone": batch}

            def dying(
                cursor: Cursor, sql: str, bindings: Any = None, left: dict[str, int] = left
            ) -> None:
                execute(cursor, sql, bindings)
                node = str(get_node_info().get("node_name", ""))
                way = node.partition("_")[0]
                if way in left and WRITES.match(sql):
                    left[way] -= 1
                    if left[way] == 0:
                        raise PowerCut(sql)

            events += events_of(batch)
            self.put(project, batch, events_of(batch))
            with monkeypatch.context() as patch:
                patch.setattr(Cursor, "execute", dying)
                run_dbt(["build"], expect_pass=None)
            if min(left.values()) > 0:
                break
            run_dbt(["build"])
            self.check(project, events)
        self.check(project, events)
        assert batch > 3


class TestKilledBesideAnother(Changes):
    """A build dies before it can say that another program has written the same table."""

    @pytest.mark.extended
    @pytest.mark.usefixtures("changes")
    def test_the_next_build_sees_it(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        events = events_of(1)
        self.put(project, 1, events)
        run_dbt(["build"])
        execute = Cursor.execute
        for batch, table in enumerate(("changes_history", "changes_final", "alone_final"), 2):
            left = [table]

            def dying(
                cursor: Cursor, sql: str, bindings: Any = None, left: list[str] = left
            ) -> None:
                is_write = bool(left) and left[0] in sql and bool(WRITES.match(sql))
                if is_write:
                    name = f"{project.test_schema}.{left.pop()}"
                    cursor._spark.newSession().sql(f"delete from {name} where id = 1")
                execute(cursor, sql, bindings)
                if is_write:
                    raise PowerCut(sql)

            new = [Event(0, 100 * batch, 10 * batch, "I", "x", "p")]
            events = events + new
            self.put(project, batch, new)
            with monkeypatch.context() as patch:
                patch.setattr(Cursor, "execute", dying)
                run_dbt(["build"], expect_pass=False)
            assert not left
            run_dbt(["build"])
            self.check(project, events)


class TestKilledWhileATableIsCreated(Changes):
    """Delta writes files and a log before the catalog knows the table."""

    @pytest.mark.usefixtures("changes")
    def test_leftovers_are_taken_over(
        self, project: Any, spark: Any, warehouse: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(creation, "WAIT_SECONDS", 0.0)
        folder = warehouse / f"{project.test_schema}.db"

        def unknown_table(name: str, rows: int) -> str:
            frame = spark.range(rows).selectExpr("id as other")
            frame.write.format("delta").save(str(folder / name))
            return f"{project.test_schema}.{name}"

        self.put(project, 1, events_of(1))
        run_dbt(["build"])
        left = folder / "changes_history_tombstones"
        assert not left.exists()
        (left / "_delta_log").mkdir(parents=True)
        (left / "part-00000-0.snappy.parquet").write_bytes(b"PAR1")
        self.put(project, 2, events_of(2))
        run_dbt(["build"])
        self.check(project, events_of(1) + events_of(2))
        tombstones = f"select id from {project.test_schema}.changes_history_tombstones"
        assert set(project.run_sql(tombstones, fetch="all")) == {(-1,), (1001,), (1002,)}

        without_rows = unknown_table("without_rows", 0)
        creation.create_if_missing(spark.sql, spark, without_rows, "select '{}' as a")
        assert spark.table(without_rows).columns == ["a"]
        with_rows = unknown_table("with_rows", 1)
        with pytest.raises(creation.TableIsUnknown, match="its folder holds one with rows"):
            creation.create_if_missing(spark.sql, spark, with_rows, "select '{}' as a")
