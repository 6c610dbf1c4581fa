"""Plain PySpark: Structured Streaming with a MERGE for each micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.data import COLUMNS, Table
from bench.session import Timing, Workshop
from bench.systems.base import Arrived, drop_tables, optimize, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "pyspark_merge"
LATEST = """
    select * except (latest)
    from (select *, row_number() over (partition by id order by seq desc) as latest from {events})
    where latest = 1
"""


class PysparkMerge:
    """Deletion vectors are on, as the session's settings have it."""

    name = "pyspark_merge"

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        workshop.spark.sql(f"create schema if not exists {SCHEMA}")

    def load(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            for table in tables:
                self.workshop.spark.sql(
                    f"create or replace table {SCHEMA}.{table.name} using delta as"
                    f" select {', '.join(COLUMNS)} from ({LATEST.format(events=table.raw)})"
                    " where flag <> 'D'"
                )

        return timed(work)

    def lay_out(self, table: Table, files: int) -> None:
        optimize(self.workshop, f"{SCHEMA}.{table.name}", files)

    def apply(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            for table in tables:
                self._stream(table)

        return timed(work)

    def _stream(self, table: Table) -> None:
        def merge(events: DataFrame, _: int) -> None:
            events.createOrReplaceTempView("arrived")
            events.sparkSession.sql(
                f"merge into {SCHEMA}.{table.name} as t"
                f" using ({LATEST.format(events='arrived')}) as s on t.id = s.id"
                " when matched and s.flag = 'D' then delete"
                f" when matched then update set {', '.join(f'{c} = s.{c}' for c in COLUMNS)}"
                f" when not matched and s.flag <> 'D' then insert ({', '.join(COLUMNS)})"
                f" values ({', '.join(f's.{c}' for c in COLUMNS)})"
            )

        (
            # The first load, version 0, was read as a table.
            self.workshop.spark.readStream.option("startingVersion", 1)
            .table(table.raw)
            .writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(self.workshop.folder / "checkpoints" / table.name))
            .foreachBatch(merge)
            .start()
            .awaitTermination()
        )

    def current(self, table: Table) -> DataFrame:
        return self.workshop.spark.table(f"{SCHEMA}.{table.name}")

    def delta_tables(self, table: Table) -> list[str]:
        return [f"{SCHEMA}.{table.name}"]

    def drop(self, table: Table) -> None:
        drop_tables(self.workshop, self.delta_tables(table))
