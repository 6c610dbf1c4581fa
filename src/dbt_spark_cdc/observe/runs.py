"""What runs did to a table: from the ledger `cdc_runs`, and from the checkpoints in Delta's log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from dbt_spark_cdc.observe.delta_table import Commit, DeltaTable
from dbt_spark_cdc.project import CdcTable

# As the ledger names them, without `events_`.
COUNTERS = (
    "read",
    "inserted",
    "updated",
    "deleted",
    "unchanged",
    "duplicate",
    "late",
    "tied",
    "quarantined",
    "left_out",
)
_KNOWN = ("run_id", "run_started_at", "node", "seconds", "watermark_after")


@dataclass
class Run:
    """A run that changed a table.

    Attributes:
        run_id: dbt's invocation.
        at: When the run started; where only the log knows of it, when its commit was made.
        counters: Its events by what became of them; None where the run did not count them.
        seconds: What the node took.
        high_water_mark: The newest arrival that it read.
        lag: How long the oldest of its events had waited in the raw table when it committed.
        recorded: Whether the ledger has it. A log forgets runs, the ledger does not.
    """

    run_id: str
    at: datetime
    counters: dict[str, int | None] = field(default_factory=dict)
    seconds: float | None = None
    high_water_mark: int | None = None
    lag: timedelta | None = None
    recorded: bool = False

    def as_json(self) -> dict[str, Any]:
        """Returns the run as `--json` prints it."""
        return {
            "run_id": self.run_id,
            "at": self.at.isoformat(),
            "counters": {name: self.counters.get(name) for name in COUNTERS},
            "seconds": self.seconds,
            "high_water_mark": self.high_water_mark,
            "lag_seconds": None if self.lag is None else self.lag.total_seconds(),
        }


def ledger_rows(ledger: DeltaTable | None) -> list[dict[str, Any]]:
    """Returns the rows of the ledger.

    Args:
        ledger: The table `cdc_runs`, None where it was never written.
    """
    if ledger is None:
        return []
    columns = [*_KNOWN, *(f"events_{name}" for name in COUNTERS)]
    return ledger.read(columns).to_pylist()


def runs_of(
    table: CdcTable,
    ledger: Sequence[dict[str, Any]],
    reader: DeltaTable | None,
    raw: DeltaTable | None,
) -> list[Run]:
    """Returns the runs that changed a table, the oldest first.

    A run that was killed before its end is in the log only. What is older than the log is in the
    ledger only.

    Args:
        table: The table.
        ledger: Rows of the ledger.
        reader: The Delta table of the node that reads its events.
        raw: The Delta table of its source.
    """
    runs = {}
    for row in ledger:
        if row["node"] == table.reader["name"] and row["run_started_at"] is not None:
            runs[row["run_id"]] = Run(
                run_id=row["run_id"],
                at=_utc(row["run_started_at"]),
                counters={name: row[f"events_{name}"] for name in COUNTERS},
                seconds=row["seconds"],
                high_water_mark=row["watermark_after"],
                recorded=True,
            )
    before: int | None = -1
    for commit in reversed(reader.commits if reader else []):
        noted = commit.checkpoint.get("run")
        # A run in parts has several commits; each tells the sums so far.
        version = (commit.checkpoint.get("part") or commit.checkpoint).get("raw_version")
        if noted:
            run = runs.setdefault(noted["id"], Run(noted["id"], commit.at))
            counters = noted.get("counters") or {}
            if not run.recorded:
                run.counters = {name: counters.get(name) for name in COUNTERS}
                run.high_water_mark = counters.get("watermark_after")
            waited = _waited(commit, before, version, raw)
            run.lag = waited if run.lag is None else run.lag
        if commit.checkpoint:
            before = version
    return sorted(runs.values(), key=lambda run: run.at)


def _waited(
    commit: Commit, before: int | None, version: int | None, raw: DeltaTable | None
) -> timedelta | None:
    if raw is None or before is None or version is None or not raw.commits:
        return None
    if raw.commits[-1].version > before + 1:  # the log is not kept that long
        return None
    read = [c.at for c in raw.commits if before < c.version <= version and c.changes_rows]
    return max(commit.at - min(read), timedelta()) if read else None


def _utc(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)
