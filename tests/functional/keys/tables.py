"""A resolved table, filled batch by batch, without dbt."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from dbt_spark_cdc.keys import resolve
from tests.functional.keys.oracle import Event

COLUMNS = (
    "scenario int, id string, value string, _op string, _seq struct<tx: bigint, n: bigint>,"
    " _event_id bigint, _old_scenario int, _old_id string, _arrived bigint"
)
EPOCH = datetime(2026, 1, 1, tzinfo=timezone.utc)


def as_row(event: Event, batch: int | None) -> tuple[Any, ...]:
    """An event as the staging view has it."""
    moved = event.op == "M"
    return (
        event.scenario,
        event.key,
        event.note,
        "U" if moved else event.op,
        (event.tx, event.n),
        event.event_id,
        event.scenario if moved else None,
        event.old,
        batch,
    )


class Table:
    """What a model with `resolve_keys` keeps."""

    def __init__(self, spark: Any, folder: Path, shape: str = "struct") -> None:
        """An empty table.

        Args:
            spark: Session.
            folder: Below it the table is stored.
            shape: What tells the transaction: a `struct` sequence, a `plain` one, the event `time`.
        """
        self.spark, self.folder, self.shape = spark, mkdtemp(dir=folder), shape
        self.known: Any = None
        self.batch = 0
        self.arrived: list[tuple[Any, ...]] = []
        self.labelled: dict[int, set[str]] = {}

    def events(self, numbered: bool = True) -> Any:
        """All that has arrived, as the staging view would give it."""
        frame = self.spark.createDataFrame(self.arrived, COLUMNS)
        if self.shape == "time":
            at = f"timestamp '{EPOCH.isoformat()}' + make_interval(0, 0, 0, 0, 0, 0, _seq.tx)"
            frame = frame.selectExpr(
                "* except (_seq)", f"{at} as _ts", "_seq.tx * 1000 + _seq.n as _seq"
            )
        if self.shape == "plain":
            frame = frame.selectExpr("* except (_seq)", "_seq.tx as _seq")
        if not numbered:
            frame = frame.withColumn("_arrived", frame["_arrived"] * None)
        return frame

    def put(self, events: Iterable[Event], numbered: bool = True) -> dict[int, tuple[Any, Any]]:
        """Lets a batch arrive and resolves it.

        Returns:
            All labels, by event id.
        """
        self.batch += 1
        self.arrived += [as_row(event, self.batch) for event in events]
        changes = resolve(self.events(numbered), self.known).localCheckpoint()
        written = changes.select("_event_id").collect()
        assert len({row[0] for row in written}) == len(written)
        self.changes = len(written)
        rows = changes
        if self.known is not None:
            rows = self.known.join(changes, "_event_id", "left_anti").unionByName(changes)
        path = f"{self.folder}/{self.batch}"
        rows.select(*changes.columns).coalesce(1).write.parquet(path)
        self.known = self.spark.read.parquet(path)
        return self.labels()

    def labels(self) -> dict[int, tuple[Any, Any]]:
        """Labels by event id; checks that former ones are remembered."""
        found = {}
        for row in self.known.select(
            "_event_id", "_entity_id", "_ended_entity_id", "_former_entity_ids"
        ).collect():
            event_id, entity, ended, former = row
            assert event_id not in found
            now = {entity, ended} - {None}
            past = self.labelled.setdefault(event_id, set())
            assert set(former) == past - now
            assert len(former) == len(set(former))
            past |= now
            found[event_id] = (entity, ended)
        return found
