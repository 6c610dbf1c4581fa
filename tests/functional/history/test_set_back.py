"""Tables that `cdc_replay` and `cdc_rewind` set back, one after the other and beside builds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.adapters.sparkcdc.session.settings_scope import CHECKPOINT, scoped
from dbt.tests.util import run_dbt

from tests.functional.history.changes import Changes, events_of
from tests.functional.oracle import Event

pytestmark = pytest.mark.extended

TABLES = ("changes_history", "alone_final")


class TestSetBack(Changes):
    @pytest.mark.usefixtures("changes")
    def test_one_after_the_other(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[Event] = []
        self.a_rewind_to_before_a_replay(project)
        self.a_rewind_to_rows_that_somebody_deleted(project)
        self.a_rewind_beside_a_build(project, monkeypatch)

    def arrive(self, project: Any, batch: int) -> str:
        """Lets a batch arrive, and returns the run that read it."""
        self.events += events_of(batch)
        self.put(project, batch, events_of(batch))
        run_dbt(["build"])
        self.check(project, self.events)
        return str(self.commits(project, TABLES[0])[0][1]["run"]["id"])

    def commits(self, project: Any, table: str) -> list[tuple[str, dict[str, Any]]]:
        """Operations and checkpoints of the commits that have one, the newest one first."""
        found = project.run_sql(f"describe history {project.test_schema}.{table}", fetch="all")
        return [(row[4], json.loads(row[13])) for row in found if row[13]]

    def operate(self, operation: str, **args: Any) -> None:
        for table in TABLES:
            run_dbt(["run-operation", operation, "--args", json.dumps({"table": table, **args})])

    def a_rewind_to_before_a_replay(self, project: Any) -> None:
        """What was replayed later than the place it goes back to does not matter any more."""
        runs = [self.arrive(project, batch) for batch in range(1, 5)]
        self.operate("cdc_replay", since=4)
        run_dbt(["build"])
        self.operate("cdc_rewind", run=runs[2], dry_run=False)
        run_dbt(["build"])
        self.check(project, self.events)

    def a_rewind_to_rows_that_somebody_deleted(self, project: Any) -> None:
        for table in TABLES:
            project.run_sql(f"delete from {project.test_schema}.{table} where id = 1")
        self.operate("cdc_rewind", run=self.arrive(project, 5), dry_run=False)
        run_dbt(["build"])
        self.check(project, self.events)

    def a_rewind_beside_a_build(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """It comes right before the checkpoint of a build that changes no row."""
        rewinds = {
            table: next(
                checkpoint
                for operation, checkpoint in self.commits(project, table)
                if operation == "RESTORE"
            )
            for table in TABLES
        }
        left = set(TABLES)
        execute = Cursor.execute

        def acting(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            for table in [name for name in left if name in sql and "cdc.checkpoint" in sql]:
                left.remove(table)
                rewind = rewinds[table]
                with scoped(cursor._spark, {CHECKPOINT: json.dumps(rewind)}):
                    execute(
                        cursor,
                        f"restore table {project.test_schema}.{table}"
                        f" to version as of {rewind['rewound_to']}",
                    )
            execute(cursor, sql, bindings)

        self.put(project, 6, events_of(5))
        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", acting)
            run_dbt(["build"])
        assert not left
        run_dbt(["build"])
        self.check(project, self.events)
