"""DuckDB with a database file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
from dbt.adapters.sparkcdc.jvm.settings import cpu_cores

from bench.data import COLUMNS, Table
from bench.session import Timing, Workshop
from bench.systems.base import Arrived, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMN_LIST = ", ".join(COLUMNS)
LATEST = """
    select * exclude (latest)
    from (
        select *, row_number() over (partition by id order by seq desc) as latest
        from read_parquet('{folder}/*.parquet')
    )
    where latest = 1
"""


class DuckDb:
    """Tables sorted by key, without an index: MERGE needs none, and it costs more than it gives."""

    name = "duckdb"

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self.connection = duckdb.connect(str(workshop.folder / "bench.duckdb"))
        self.connection.execute(f"set threads = {cpu_cores()}")
        self.connection.execute("set TimeZone = 'UTC'")

    def load(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            for table in tables:
                self.connection.execute(
                    f"create or replace table {table.name} as select {COLUMN_LIST}"
                    f" from ({LATEST.format(folder=arrived[table.name])})"
                    " where flag <> 'D' order by id"
                )
            self.connection.execute("checkpoint")

        return timed(work)

    def lay_out(self, table: Table, files: int) -> None:
        """Nothing to do: a table is one file, and sorted."""

    def apply(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            for table in tables:
                self.connection.execute(
                    f"merge into {table.name} as t"
                    f" using ({LATEST.format(folder=arrived[table.name])}) as s on t.id = s.id"
                    " when matched and s.flag = 'D' then delete"
                    " when matched then update set"
                    f" {', '.join(f'{c} = s.{c}' for c in COLUMNS if c != 'id')}"
                    f" when not matched and s.flag <> 'D' then insert ({COLUMN_LIST})"
                    f" values ({', '.join(f's.{c}' for c in COLUMNS)})"
                )

        return timed(work)

    def current(self, table: Table) -> DataFrame:
        file = self.workshop.folder / f"{table.name}_of_duckdb.parquet"
        self.connection.execute(f"copy {table.name} to '{file}' (format parquet)")
        return self.workshop.spark.read.parquet(str(file))

    def delta_tables(self, table: Table) -> list[str]:
        return []

    def drop(self, table: Table) -> None:
        self.connection.execute(f"drop table if exists {table.name}")
