"""Builds beside commits that change no rows: notes of other builds, and `cdc_replay`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.adapters.sparkcdc.session.settings_scope import CHECKPOINT, scoped
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from tests.functional.history.changes import SOURCES, Changes, events_of
from tests.functional.history.test_beside_others import writes

TABLES = ("changes_history", "alone_final")


@pytest.mark.extended
class TestBesideNotes(Changes):
    @pytest.mark.usefixtures("changes")
    def test_one_after_the_other(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events = events_of(1)
        self.put(project, 1, self.events)
        run_dbt(["build"])
        self.two_builds_note_that_nothing_is_new(project, monkeypatch)
        self.one_notes_and_one_writes(project, monkeypatch)
        self.a_replay_is_not_undone(project, monkeypatch)
        self.an_erasure_does_not_undo_a_replay(project, monkeypatch)

    def build(
        self, monkeypatch: pytest.MonkeyPatch, begins: Callable[..., Any], *, passes: bool = True
    ) -> None:
        """Builds, with something beside the statements of the build."""
        execute = Cursor.execute

        def acting(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            end = begins(execute, cursor, sql)
            try:
                execute(cursor, sql, bindings)
            finally:
                if end:
                    end()

        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", acting)
            run_dbt(["build"], expect_pass=passes)

    def notes_beside(self, project: Any, table: str, cursor: Cursor) -> Callable[[], None]:
        """Begins to commit what another build notes, again and again; returns what ends it."""
        session = cursor._spark.newSession()
        began, stop = threading.Event(), threading.Event()

        def note() -> None:
            while not stop.is_set():
                try:
                    session.sql(
                        f"alter table {project.test_schema}.{table}"
                        " set tblproperties ('cdc.checkpoint' = 'other')"
                    )
                except Exception:  # the build was faster
                    continue
                finally:
                    began.set()

        thread = threading.Thread(target=note)
        thread.start()
        began.wait(60)

        def end() -> None:
            stop.set()
            thread.join()

        return end

    def two_builds_note_that_nothing_is_new(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = SOURCES.replace("arrival: batch", "arrival: batch\n          origin: \"'x'\"")
        assert other != SOURCES
        write_file(other, project.project_root, "models", "sources.yml")
        self.build_beside_notes(
            project, monkeypatch, lambda sql, table: "cdc.checkpoint" in sql and table in sql
        )

    def one_notes_and_one_writes(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events = self.events + events_of(2)
        self.put(project, 2, events_of(2))
        self.build_beside_notes(project, monkeypatch, writes)

    def build_beside_notes(
        self,
        project: Any,
        monkeypatch: pytest.MonkeyPatch,
        is_one: Callable[[str, str], bool],
    ) -> None:
        """Builds, with notes beside the first statement of each table that is one."""
        left = set(TABLES)

        def begins(_: Any, cursor: Cursor, sql: str) -> Any:
            for table in list(left):
                if is_one(sql, table):
                    left.remove(table)
                    return self.notes_beside(project, table, cursor)
            return None

        self.build(monkeypatch, begins)
        assert not left
        self.check(project, self.events)

    def a_replay_is_not_undone(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """What `cdc_replay` commits right before the write of a build that read further."""
        for batch, table in enumerate(TABLES, 3):
            self.events = self.events + events_of(batch)
            self.put(project, batch, events_of(batch))
            relation = f"{project.test_schema}.{table}"
            left = {table}

            def begins(
                execute: Any,
                cursor: Cursor,
                sql: str,
                table: str = table,
                relation: str = relation,
                left: set[str] = left,
            ) -> None:
                if left and writes(sql, table):
                    left.clear()
                    self.replay(execute, cursor, relation)

            # A history is computed again at once, a final table without one by the next build.
            self.build(monkeypatch, begins, passes=table == TABLES[0])
            assert not left
            if table == TABLES[1]:
                run_dbt(["build"])
            assert self.events_read(project, relation) == len(self.events)
            self.check(project, self.events)

    def replay(self, execute: Any, cursor: Cursor, relation: str) -> None:
        """What `cdc_replay` commits."""
        back = {"cdc": relation, "operation": "SET TBLPROPERTIES", "arrival": "batch"}
        back |= {"read_to": 0, "raw_version": None, "fingerprint": None}
        with scoped(cursor._spark, {CHECKPOINT: json.dumps(back | {"set_back": True})}):
            execute(cursor, f"alter table {relation} set tblproperties ('x' = 'y')")

    def an_erasure_does_not_undo_a_replay(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What comes right before the deletion, and right before the log is forgotten."""
        relation = f"{project.test_schema}.{TABLES[0]}"
        execute = Cursor.execute
        for key, statement in ((2, "merge into"), (3, "'cdc.erasure'")):
            came: list[str] = []

            def acting(
                cursor: Cursor,
                sql: str,
                bindings: Any = None,
                statement: str = statement,
                came: list[str] = came,
            ) -> None:
                text = sql.replace("`", "")
                if not came and statement in text and f"{TABLES[0]} " in text:
                    came.append(sql)
                    self.replay(execute, cursor, relation)
                execute(cursor, sql, bindings)

            args = {"table": TABLES[0], "keys": [{"scenario": 0, "id": key}], "dry_run": False}
            command = ["run-operation", "cdc_erase", "--args", json.dumps(args)]
            with monkeypatch.context() as patch:
                patch.setattr(Cursor, "execute", acting)
                said = run_dbt_and_capture(command, expect_pass=None)[1]  # type: ignore[arg-type]
            assert came
            if key == 3:
                # It is finished by running it again.
                assert f"wrote {relation}" in said.replace("`", "")
                assert "Run cdc_erase again" in said
                run_dbt(command)
            run_dbt(["build"])
            [(left,)] = project.run_sql(
                f"select count(*) from {project.test_schema}.changes", fetch="all"
            )
            assert self.events_read(project, relation) == left

    def events_read(self, project: Any, relation: str) -> int:
        """How many events the batch read that wrote a table last."""
        commits = project.run_sql(f"describe history {relation}", fetch="all")
        notes = [value for commit in commits for value in commit if '"counters"' in str(value)]
        return int(json.loads(notes[0])["run"]["counters"]["read"])
