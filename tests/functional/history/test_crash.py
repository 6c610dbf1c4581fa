"""A build that dies at any point leaves tables that the next one completes."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from dbt.adapters.sparkcdc.cursor import Cursor
from dbt.tests.util import run_dbt

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
            left = batch  # the nth build dies after its nth write

            def dying(cursor: Cursor, sql: str, bindings: Any = None) -> None:
                nonlocal left
                execute(cursor, sql, bindings)
                if WRITES.match(sql):
                    left -= 1
                    if left == 0:
                        raise PowerCut(sql)

            events += events_of(batch)
            self.put(project, batch, events_of(batch))
            with monkeypatch.context() as patch:
                patch.setattr(Cursor, "execute", dying)
                run_dbt(["build"], expect_pass=None)
            if left > 0:
                break
            run_dbt(["build"])
            self.check(project, events)
        self.check(project, events)
        assert batch > 4
