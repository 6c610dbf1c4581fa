"""Loads that are committed in parts, and go on where a killed one ended."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.tests.util import run_dbt, write_file

from tests.functional.history.changes import FINAL, SOURCES, WRITES, Changes, events_of
from tests.functional.history.tables import rows
from tests.functional.history.test_crash import PowerCut

pytestmark = pytest.mark.soak

TABLES = ("changes_history", "alone_final")
# Two more readers of the same raw table, for the first load; the numbers of one are no doubles.
READERS = """
      - name: beside
        identifier: changes
        config: {meta: {cdc: {history: false}}}
        columns: *columns
      - name: numbered
        identifier: changes
        config: {meta: {cdc: {history: false, arrival: batch + 9007199254740993}}}
        columns: *columns
"""

LATER = ["build", "--exclude", "stg_beside+", "stg_numbered+"]


def writes(sql: str, table: str) -> bool:
    """Whether a statement commits to a table."""
    return bool(WRITES.match(sql) and re.search(rf"\.{table}\s", sql[:500]))


class TestInParts(Changes):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        return dbt_profile_target | {"threads": 1, "max_rows_per_commit": 12}

    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return project_config_update | {"on-run-end": "{{ cdc.record_run(results) }}"}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        files = {"sources.yml": SOURCES + READERS}
        for name in ("changes", "alone", "beside", "numbered"):
            files[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            above = "changes_history" if name == "changes" else f"stg_{name}"
            files[f"{name}_final.sql"] = FINAL.format(read=above)
        return files

    @pytest.mark.usefixtures("changes")
    def test_a_killed_load_goes_on(self, project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        events = []
        for batch in range(1, 9):
            self.put(project, batch, events_of(batch))
            events += events_of(batch)
        self.build_and_die(monkeypatch)
        # The rows that are there are what the declaration made of the events.
        other = SOURCES.replace("history: false", "history: false, where: seq > 0")
        write_file(other + READERS, project.project_root, "models", "sources.yml")
        refused = run_dbt(["build", "--select", "+alone_final"], expect_pass=False)
        message = next(r.message for r in refused if r.node.name == "alone_final")
        assert "the first load of" in message and "--full-refresh --select alone_final" in message
        write_file(SOURCES + READERS, project.project_root, "models", "sources.yml")
        run_dbt(["build"])
        self.check(project, events)
        for table in ("beside_final", "numbered_final"):
            left = "select count(*) from ((table {s}.alone_final except all table {s}.XX)"
            left += " union all (table {s}.XX except all table {s}.alone_final))"
            assert rows(project, left.replace("XX", table)) == [(0,)], table
            assert len(self.checkpoints(project, table)[0]) > 3, table
        for table in TABLES:
            read_to, are_parts = self.checkpoints(project, table)
            assert read_to == sorted(set(read_to)), table
            assert len(read_to) > 3 and read_to[-1] == 8
            assert are_parts == [True] * (len(read_to) - 1) + [False]
        # What was read before the power cuts was not read again.
        read = "select table_name, events_read from {s}.cdc_runs order by watermark_after"
        counted = rows(project, read)
        assert sum(count for _, count in counted if count) < 4 * len(events)

        # A part is a batch like any other, and the ledger counts all of a run.
        new = [event for batch in range(9, 14) for event in events_of(batch)]
        for batch in range(9, 14):
            self.put(project, batch, events_of(batch))
        run_dbt(LATER)
        self.check(project, events + new)
        ledger = """
            select events_read, watermark_before, watermark_after from {s}.cdc_runs
            where watermark_after = 13
        """
        assert sorted(rows(project, ledger)) == [(len(new), 8, 13)] * 2
        assert self.checkpoints(project, "changes_history")[0][-1] == 13

        # Rows that come behind the part that was read are read, too.
        self.put(project, 14, events_of(14))
        self.put(project, 15, events_of(15) + events_of(16))
        self.put(project, 17, events_of(17))
        late = [event._replace(position=event.position + 1000) for event in events_of(18)]
        execute = Cursor.execute

        def arriving(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            execute(cursor, sql, bindings)
            if writes(sql, "changes_history") and late:
                arrived, late[:] = list(late), []
                new.extend(arrived)
                self.put(project, 14, arrived)

        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", arriving)
            run_dbt(LATER)
        assert not late
        new += [event for batch in range(14, 18) for event in events_of(batch)]
        # A rebuild is one commit, as readers see. The table had read all when the late rows came.
        run_dbt(["build", "--full-refresh", "--select", "alone_final"])
        run_dbt(LATER)
        self.check(project, events + new)
        rebuilt = self.checkpoints(project, "alone_final")
        assert (rebuilt[0][-1], rebuilt[1][-1]) == (17, False)

    def build_and_die(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Runs a build in which each of the tables ends after its second write."""
        execute = Cursor.execute
        left = dict.fromkeys(TABLES, 2)

        def dying(cursor: Cursor, sql: str, bindings: Any = None) -> None:
            execute(cursor, sql, bindings)
            for table in TABLES:
                if writes(sql, table):
                    left[table] -= 1
                    if left[table] == 0:
                        raise PowerCut(sql)

        with monkeypatch.context() as patch:
            patch.setattr(Cursor, "execute", dying)
            run_dbt(["build", "--select", *(f"+{table}" for table in TABLES)], expect_pass=False)
        assert left == dict.fromkeys(TABLES, 0)

    def checkpoints(self, project: Any, table: str) -> tuple[list[int], list[bool]]:
        """Up to where each commit has read, and whether it was a part."""
        query = f"describe history {{s}}.{table}"
        noted = [row for row in rows(project, query)]
        found = []
        for row in reversed(noted):
            text = next((v for v in row if isinstance(v, str) and v.startswith('{"')), "{}")
            checkpoint = json.loads(text)
            if checkpoint.get("read_to") is not None:
                found.append(checkpoint)
        return [c["read_to"] for c in found], [bool(c.get("part")) for c in found]
