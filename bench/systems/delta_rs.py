"""delta-rs: Delta Lake in Rust, on a table of the same layout without deletion vectors."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from bench.data import COLUMNS, Table
from bench.session import Timing, Workshop
from bench.systems.base import Arrived, optimize, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def latest(folder: Path) -> pa.Table:
    """Returns the newest event of each key.

    Args:
        folder: Parquet files of events.
    """
    events = pq.read_table(folder).sort_by([("id", "ascending"), ("seq", "descending")])
    ids = events["id"].combine_chunks()
    if len(ids) < 2:
        return events
    first = pa.concat_arrays([pa.array([True]), pc.call_function("not_equal", [ids[1:], ids[:-1]])])
    return events.filter(first)


class DeltaRs:
    """Merges through the Python package `deltalake`."""

    name = "delta_rs"

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop

    def _path(self, table: Table) -> str:
        return str(self.workshop.folder / "delta_rs" / table.name)

    def load(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            for table in tables:
                # Streamed: a first load holds each key once, and its rows need not fit in memory.
                rows = ds.dataset(arrived[table.name], format="parquet").scanner(
                    columns=list(COLUMNS), filter=ds.field("flag") != "D"
                )
                write_deltalake(self._path(table), rows.to_reader(), mode="overwrite")

        return timed(work)

    def lay_out(self, table: Table, files: int) -> None:
        optimize(self.workshop, f"delta.`{self._path(table)}`", files)

    def apply(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            for table in tables:
                (
                    DeltaTable(self._path(table))
                    .merge(
                        latest(arrived[table.name]),
                        predicate="t.id = s.id",
                        source_alias="s",
                        target_alias="t",
                    )
                    .when_matched_delete(predicate="s.flag = 'D'")
                    .when_matched_update(updates={name: f"s.{name}" for name in COLUMNS})
                    .when_not_matched_insert(
                        predicate="s.flag <> 'D'", updates={name: f"s.{name}" for name in COLUMNS}
                    )
                    .execute()
                )

        return timed(work)

    def current(self, table: Table) -> DataFrame:
        return self.workshop.spark.read.format("delta").load(self._path(table))

    def delta_tables(self, table: Table) -> list[str]:
        return [f"delta.`{self._path(table)}`"]

    def drop(self, table: Table) -> None:
        shutil.rmtree(self._path(table), ignore_errors=True)
