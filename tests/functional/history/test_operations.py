"""The ledger, and the operations that change kept tables: replay after a repair, compaction."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file
from dbt_common.exceptions import DbtRuntimeError

from tests.functional.history.tables import FINAL, histories, rows, unexplained

pytestmark = pytest.mark.extended

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
      - name: items
        config:
          meta:
            cdc:
              format: flagged
              keys: [id]
              sequence_by: seq
              event_time: at
              operation: op
              arrival: batch
              track_history_columns: [state, size]
              ignore_null_updates: [size]
        columns:
          - {name: id, data_type: int}
          - {name: state, data_type: string}
          - {name: size, data_type: TYPE}
          - {name: note, data_type: string}
"""


AUDIT = "{{ cdc.audit(ref('items_history'), ref('items_final')) }}"

LEDGER = (
    "events_read, events_inserted, events_updated, events_deleted, events_duplicate, events_late,"
    " events_tied, events_unchanged, events_quarantined, watermark_before, watermark_after"
)

Row = tuple[Any, ...]


def event(key: int | None, seq: int, op: str, state: str | None = None, size: Any = None) -> Row:
    """An event whose untracked note is its state and position."""
    return (key, seq, op, state, size, f"{state} {seq}")


class TestOperations:
    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return project_config_update | {"on-run-end": ["{{ cdc.record_run(results) }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": SOURCES.replace("TYPE", "tinyint"),
            "stg_items.sql": "{{ cdc.events(source('app', 'items')) }}",
            "items_final.sql": FINAL.format(read="items_history"),
            "items_audit.sql": AUDIT,
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(items_history="stg_items")

    def arrive(self, project: Any, batch: int, *events: Row) -> None:
        def literal(value: Any) -> str:
            return "null" if value is None else repr(value)

        rows = ", ".join(
            f"({', '.join(literal(v) for v in e)},"
            f" timestamp '2026-01-01' + make_dt_interval({e[1]}), {batch})"
            for e in events
        )
        project.run_sql(f"insert into {project.test_schema}.items values {rows}")

    def versions(self, project: Any, key: int) -> list[Row]:
        query = (
            "select _seq, _seq_end, state, size, note, datediff(_cdc_created_at, '2026-01-01')"
            f" from {{s}}.items_history where id = {key} order by _seq"
        )
        return rows(project, query)

    def build(self, *nodes: str) -> None:
        """Builds the history and others."""
        run_dbt(["build", "--select", "items_history", *nodes])

    def audit_holds(self, project: Any) -> None:
        run_dbt(["run", "--select", "items_audit"])
        assert unexplained(project, "items_audit") == 0

    def operate(self, operation: str, **args: Any) -> None:
        run_dbt(["run-operation", operation, "--args", str(args)])

    @pytest.mark.usefixtures("package")
    def test_one_after_the_other(self, project: Any) -> None:
        project.run_sql(
            f"create table {project.test_schema}.items (id int, seq int, op string, state string,"
            " size int, note string, at timestamp, batch int) using delta"
        )
        self.the_ledger_counts(project)
        self.repaired_events_take_their_place(project)
        self.compaction_keeps_what_late_events_need(project)
        self.upkeep_changes_nothing(project)

    def the_ledger_counts(self, project: Any) -> None:
        self.arrive(project, 1, event(1, 10, "I", "new", 1), event(2, 10, "I", "new", 2))
        self.build("stg_items", "items_final")
        self.arrive(
            project,
            2,
            event(1, 20, "U", "paid", 1),
            event(1, 20, "U", "paid", 1),
            event(1, 15, "U", "new", None),
            (1, 25, "U", "paid", 1, "paid 20"),
            event(2, 10, "I", "new", 2),
            event(2, 20, "D"),
            event(3, 20, "I", "new", 3),
            event(3, 20, "U", "newer", 3),
            event(4, 20, "I", "new", 1000),
            event(None, 20, "I", "new", 1),
        )
        self.build("items_final")
        self.build()
        ledger = f"select {LEDGER} from {{s}}.cdc_runs order by watermark_after"
        assert rows(project, ledger) == [
            (2, None, None, None, None, None, None, None, None, None, 1),
            # 3's two events at one position: one begins the row and the other changes it
            (10, 1, 3, 1, 2, 0, 2, 1, 2, 1, 2),
        ]
        self.arrive(project, 3, event(1, 12, "U", "sent", None))
        self.build()
        latest = ledger.replace("order by", "where watermark_before = 2 order by")
        assert rows(project, latest) == [(1, 0, 1, 0, 0, 1, 0, 0, 0, 2, 3)]
        self.audit_holds(project)

    def repaired_events_take_their_place(self, project: Any) -> None:
        self.arrive(project, 4, event(4, 30, "U", "paid", None))
        self.build()
        assert self.versions(project, 4) == [(30, None, "paid", None, "paid 30", 30)]
        write_file(
            SOURCES.replace("TYPE", "smallint"), project.project_root, "models", "sources.yml"
        )
        self.operate("cdc_replay", table="items_history", dry_run=True)
        self.build("stg_items")
        assert len(self.versions(project, 4)) == 1
        self.operate("cdc_replay", table="items_history")
        self.build()
        assert self.versions(project, 4) == [
            (20, 30, "new", 1000, "new 20", 20),
            (30, None, "paid", 1000, "paid 30", 20),
        ]
        self.audit_holds(project)

    def compaction_keeps_what_late_events_need(self, project: Any) -> None:
        self.arrive(
            project, 5, *(event(5, 40 + n, "U", f"s{n}", 7 if n == 0 else None) for n in range(6))
        )
        self.arrive(
            project, 5, event(6, 40, "I", "a", 1), event(6, 41, "U", "b", 1), event(6, 42, "D")
        )
        self.arrive(
            project,
            5,
            event(7, 40, "I", "a", 1),
            event(7, 42, "D"),
            event(7, 44, "I", "b", 1),
            event(7, 45, "U", "c", 1),
        )
        self.build("items_final")
        before = rows(project, "select * except (_cdc_seq) from {s}.items_final order by id")
        self.operate("cdc_compact", keep_versions=1)
        assert len(self.versions(project, 5)) == 6
        self.operate("cdc_compact", keep_versions=2, dry_run=False)
        assert self.versions(project, 5) == [
            (44, 45, "s4", 7, "s4 44", 40),
            (45, None, "s5", 7, "s5 45", 40),
        ]
        self.operate("cdc_compact", keep_versions=1, older_than_days=0, dry_run=False)
        self.operate("cdc_compact", keep_versions=0, dry_run=False)
        assert self.versions(project, 6) == []
        assert self.versions(project, 5) == [(45, None, "s5", 7, "s5 45", 40)]
        self.build("items_final")
        self.audit_holds(project)
        assert before == rows(
            project, "select * except (_cdc_seq) from {s}.items_final order by id"
        )

        # A late event has a version where it belongs, up to the first kept; nobody comes back.
        self.arrive(
            project,
            6,
            event(5, 42, "U", "late", 9),
            event(6, 41, "U", "late", 1),
            event(7, 41, "U", "late", 1),
        )
        self.arrive(project, 6, event(5, 46, "U", "s6", None))
        self.build()
        assert self.versions(project, 5) == [
            (42, 45, "late", 9, "late 42", 40),
            (45, 46, "s5", 7, "s5 45", 40),
            (46, None, "s6", 7, "s6 46", 40),
        ]
        assert self.versions(project, 6) == [(41, 42, "late", 1, "late 41", 41)]
        assert self.versions(project, 7) == [
            (41, 42, "late", 1, "late 41", 41),
            (45, None, "c", 1, "c 45", 44),
        ]
        # The present life began where it began; a delete in between begins another.
        self.arrive(project, 7, event(5, 43, "D"))
        self.build()
        assert self.versions(project, 5) == [
            (42, 43, "late", 9, "late 42", 40),
            (45, 46, "s5", 7, "s5 45", 45),
            (46, None, "s6", 7, "s6 46", 45),
        ]
        self.audit_holds(project)
        with pytest.raises((DbtRuntimeError, AssertionError)):
            self.operate("cdc_compact", dry_run=False)

    def upkeep_changes_nothing(self, project: Any) -> None:
        """Small files are put together; less than a week of files is never kept."""
        table = f"{project.test_schema}.items_final"

        def files() -> int:
            return rows(project, f"describe detail {table}")[0][9]

        before, kept = files(), rows(project, f"select * from {table} order by id")
        self.operate("cdc_optimize", table="items_final", min_small_files=2)
        assert files() == before > 1
        self.operate("cdc_optimize", table="items_final", min_small_files=2, dry_run=False)
        assert files() < before
        assert rows(project, f"select * from {table} order by id") == kept
        self.operate("cdc_vacuum", dry_run=False)
        with pytest.raises((DbtRuntimeError, AssertionError)):
            self.operate("cdc_vacuum", retain_hours=1)
