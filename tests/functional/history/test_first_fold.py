"""Large first loads, where only the keys with more than one full image are folded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.tests.util import run_dbt

from tests.functional.history.changes import Changes, events_of
from tests.functional.history.test_crash import PowerCut
from tests.functional.oracle import Event

pytestmark = pytest.mark.extended

CREATES = re.compile(r"\s*(/\*.*?\*/\s*)?create (or replace )?table \S*\.(\w+)", re.S)
TABLES = ("changes_history", "alone_final")


@contextmanager
def created_tables(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[str], None] = lambda table: None
) -> Iterator[dict[str, str]]:
    """Records the statements that create tables.

    Args:
        monkeypatch: Of the test.
        before: Called with the name of a table before it is created.

    Yields:
        The statement by the table's name.
    """
    found: dict[str, str] = {}
    execute = Cursor.execute

    def recording(cursor: Cursor, sql: str, bindings: Any = None) -> None:
        if match := CREATES.match(sql):
            found[match[3]] = sql
            before(match[3])
        execute(cursor, sql, bindings)

    with monkeypatch.context() as patch:
        patch.setattr(Cursor, "execute", recording)
        yield found


def inserts(keys: range) -> list[Event]:
    """One full image of each key."""
    return [Event(0, key, key, "I", f"a{key}", "p") for key in keys]


class Large(Changes):
    """Four rows are many."""

    @pytest.fixture(scope="class")
    def macros(self) -> dict[str, str]:
        return {"few_rows.sql": "{% macro sparkcdc__few_rows() %}{{ return(3) }}{% endmacro %}"}

    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        ours = {"macro_namespace": "cdc", "search_order": ["test", "cdc"]}
        dispatch = [*project_config_update.get("dispatch", []), ours]
        return project_config_update | {"dispatch": dispatch}


class TestSomeKeysAreFolded(Large):
    @pytest.mark.usefixtures("changes")
    def test_whatever_the_events(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        events = inserts(range(100, 110)) + events_of(1) + events_of(2)
        # A key of one delete, of one update, of the same event twice.
        events += [Event(0, 200, 900, "D", None, None), Event(0, 201, 901, "U", "a", "b")]
        events += [Event(0, 202, 902, "I", "a", "b")] * 2
        self.put(project, 1, events)
        with created_tables(monkeypatch) as created:
            run_dbt(["build"])
        self.check(project, events)
        for table in TABLES:
            assert "left anti join cdc_folded_keys" in created[table], table
            assert "truncates" not in created[table], table

        # Later events of keys that were folded, and of keys that were not.
        new = [*events_of(3), Event(0, 105, 50, "U", "late", "q"), Event(0, 106, 950, "U", "b", "")]
        self.put(project, 2, new)
        run_dbt(["build"])
        self.check(project, events + new)

        # With a truncate among them, all keys are folded.
        with created_tables(monkeypatch) as created:
            run_dbt(["build", "--full-refresh", "--select", "+alone_final"])
        assert "folded_keys" not in created["alone_final"]
        assert "truncates" in created["alone_final"]
        self.check(project, events + new)


class TestNoKeyIsFolded(Large):
    @pytest.mark.usefixtures("changes")
    def test_single_images(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        events = inserts(range(100, 120))
        self.put(project, 1, events)
        second = {
            table: event._replace(position=1000 + event.id, op="U", a="later")
            for table, event in zip(TABLES, list(events), strict=False)
        }

        def second_event(table: str) -> None:
            if event := second.pop(table, None):
                events.append(event)
                self.put(project, 1, [event])

        with created_tables(monkeypatch, before=second_event):
            run_dbt(["build"])
        # A key had got a second event: the tables were loaded once more.
        run_dbt(["build"])
        self.check(project, events)
        for table in TABLES:
            history = project.run_sql(
                f"describe history {project.test_schema}.{table}", fetch="all"
            )
            assert [row[4] for row in history].count("CREATE OR REPLACE TABLE AS SELECT") == 2, (
                table
            )

        # What arrives behind the end of the load is read by the next build.
        project.run_sql(f"delete from {project.test_schema}.changes where seq > 1000")
        for table in TABLES:
            project.run_sql(f"drop table {project.test_schema}.{table}")
        new = [Event(0, 300, 2000, "D", None, None), Event(0, 301, 2001, "I", "x", "y")]

        def arriving(table: str) -> None:
            if table == "changes_history":
                self.put(project, 2, new)

        with created_tables(monkeypatch, before=arriving) as created:
            run_dbt(["build"])
        assert all("over (" not in created[table] for table in TABLES)
        run_dbt(["build"])
        events = [*events[:20], *new]
        self.check(project, events)

        # The tables know their events as those that were folded do.
        late = [Event(0, 101, 50, "U", "late", "p"), Event(0, 102, 3000, "D", None, None)]
        late += [Event(0, 300, 1999, "I", "before its end", "p")]
        self.put(project, 3, late)
        run_dbt(["build"])
        self.check(project, events + late)


class TestKilledBeforeTheCheck(Large):
    @pytest.mark.usefixtures("changes")
    def test_a_key_that_got_a_second_event(
        self, project: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The table is created, and the process ends before it looks who wrote meanwhile."""
        events = inserts(range(100, 110))
        self.put(project, 1, events)
        second = {
            table: event._replace(position=1000 + event.id, op="U", a="later")
            for table, event in zip(TABLES, list(events), strict=False)
        }
        execute = Cursor.execute

        def ending(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            match = CREATES.match(sql)
            event = second.pop(match[3], None) if match else None
            if event:
                events.append(event)
                self.put(project, 1, [event])
            execute(cursor, sql, bindings)
            if event:
                raise PowerCut(sql)

        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", ending)
            run_dbt(["build"], expect_pass=False)
        self.between()
        # With nothing else to read.
        run_dbt(["build"])
        assert not second
        self.check(project, events)

    def between(self) -> None:
        """What happens before the next build."""


class TestSetBackBeforeTheCheck(TestKilledBeforeTheCheck):
    def between(self) -> None:
        """What the tables are set back to lies before all that came during the load."""
        for table in TABLES:
            args = json.dumps({"table": table, "since": 1})
            run_dbt(["run-operation", "cdc_replay", "--args", args])
