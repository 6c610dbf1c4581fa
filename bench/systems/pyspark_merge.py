"""Plain Spark: Structured Streaming with a MERGE, and the bare statements that set the floor."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from dbt.adapters.sparkcdc.session.settings_scope import INTERPRETED, scoped

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


# Deletion vectors, and a checkpoint after ten commits as Delta has it by default.
PLAIN = "tblproperties ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '10')"
# From so many rows on this package's tables have deletion vectors.
MANY_ROWS = 50_000


class PysparkMerge:
    """One MERGE for each micro-batch."""

    name = "pyspark_merge"

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        workshop.spark.sql(f"create schema if not exists {SCHEMA}")

    def load(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            for table in tables:
                self.workshop.spark.sql(
                    f"create or replace table {SCHEMA}.{table.name} using delta {PLAIN} as"
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


class SparkStatement:
    """One bare statement a batch, without dbt: the floor of what writes with that statement.

    `spark_merge` merges the change files. `spark_replace` lists their keys, and inserts what is
    left of them in the place of the rows with these keys.
    """

    def __init__(self, workshop: Workshop, name: str) -> None:
        self.name = name
        self.workshop = workshop
        workshop.spark.sql(f"create schema if not exists {name}")

    def load(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            for table in tables:
                # A first load holds each key once.
                self.workshop.spark.sql(
                    f"create or replace table {self.name}.{table.name} using delta {PLAIN} as"
                    f" select {', '.join(COLUMNS)} from {table.raw}"
                )

        return timed(work)

    def lay_out(self, table: Table, files: int) -> None:
        optimize(self.workshop, f"{self.name}.{table.name}", files)

    def apply(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        write = self._merge if self.name == "spark_merge" else self._replace

        def work() -> None:
            for table in tables:
                write(f"{self.name}.{table.name}", f"parquet.`{arrived[table.name]}`")

        return timed(work)

    def _merge(self, table: str, changes: str) -> None:
        self.workshop.spark.sql(
            f"merge into {table} as t using ({LATEST.format(events=changes)}) as s on t.id = s.id"
            " when matched and s.flag = 'D' then delete"
            f" when matched then update set {', '.join(f'{c} = s.{c}' for c in COLUMNS)}"
            f" when not matched and s.flag <> 'D' then insert ({', '.join(COLUMNS)})"
            f" values ({', '.join(f's.{c}' for c in COLUMNS)})"
        )

    def _replace(self, table: str, changes: str) -> None:
        spark = self.workshop.spark
        keys = sorted({row[0] for row in spark.sql(f"select id from {changes}").collect()})
        check = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"
        spark.conf.set(check, "false")
        try:
            spark.sql(
                f"insert into {table} replace where id between {keys[0]} and {keys[-1]}"
                f" and id in ({', '.join(map(str, keys))})"
                f" select {', '.join(COLUMNS)} from ({LATEST.format(events=changes)})"
                " where flag <> 'D'"
            )
        finally:
            spark.conf.unset(check)

    def current(self, table: Table) -> DataFrame:
        return self.workshop.spark.table(f"{self.name}.{table.name}")

    def delta_tables(self, table: Table) -> list[str]:
        return [f"{self.name}.{table.name}"]

    def drop(self, table: Table) -> None:
        drop_tables(self.workshop, self.delta_tables(table))


class SparkLoad:
    """The statements that a first load cannot do without, and no dbt.

    Whether a key has several events is in the events alone: Spark looks. What it writes has the
    columns of the tables that it is the floor of, their identities included.
    """

    def __init__(self, workshop: Workshop, *, history: bool) -> None:
        self.name = "spark_load_history" if history else "spark_load"
        self.workshop = workshop
        self.history = history

    def load(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        spark = self.workshop.spark
        spark.sql(f"create schema if not exists {self.name}")

        def work() -> None:
            for table in tables:
                for statement in self._statements(table):
                    spark.sql(statement).collect()

        return timed(work)

    def _statements(self, table: Table) -> list[str]:
        columns = ", ".join(COLUMNS)
        final, history = f"{self.name}.{table.name}", f"{self.name}.{table.name}_history"
        feed = "tblproperties ('delta.enableChangeDataFeed' = 'true')"
        event = "struct<_seq: bigint, _op: string, _event_id: bigint>"
        events = f"cast(null as array<{event}>) as _events"
        event_id = f"xxhash64({columns}, seq, flag) as _event_id"
        times = "changed_at as _cdc_created_at, changed_at as _cdc_updated_at, seq as _cdc_seq"
        repeated = (
            "select count(*) from (select row_number() over (partition by id order by id) as place,"
            " lead(true) over (partition by id order by id) as has_next"
            f" from {table.raw}) where place = 1 and has_next"
        )
        if not self.history:
            return [
                repeated,
                f"create or replace table {final} using delta {feed} as select {columns}, {times},"
                f" cast(null as timestamp) as _cdc_deleted_at, {events}, {event_id}"
                f" from {table.raw}",
            ]
        return [
            repeated,
            f"create or replace table {history} using delta partitioned by (_cdc_is_latest) {feed}"
            f" as select {columns}, seq as _seq, cast(null as bigint) as _seq_end,"
            f" changed_at as _cdc_created_at, seq as _cdc_seq, {events},"
            " md5(concat_ws(',', id, seq)) as dbt_scd_id, changed_at as dbt_updated_at,"
            " changed_at as dbt_valid_from, cast(null as timestamp) as dbt_valid_to,"
            f" {event_id}, true as _cdc_is_latest from {table.raw}",
            f"create or replace table {final} using delta {feed} as select {columns},"
            " _cdc_created_at, dbt_updated_at as _cdc_updated_at, _cdc_seq"
            f" from {history} where _cdc_is_latest and _seq_end is null",
        ]

    def drop(self, table: Table) -> None:
        """Frees the disk that a table takes."""
        names = [f"{self.name}.{table.name}", f"{self.name}.{table.name}_history"]
        drop_tables(self.workshop, names)


class SparkFloor:
    """The statements that a small batch of a table with a history cannot do without, and no dbt.

    They read the new events, look up the open versions of their keys, and replace these rows in the
    history and in the final table. Their results stay in memory, and Spark interprets them.
    """

    name = "spark_floor"
    settings = INTERPRETED | {
        "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false"
    }

    def __init__(self, workshop: Workshop, threads: int) -> None:
        self.workshop = workshop
        self.threads = threads
        workshop.spark.sql(f"create schema if not exists {self.name}")

    def load(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            for table in tables:
                columns = ", ".join(COLUMNS)
                history, final = self.delta_tables(table)
                # As the tables that it is the floor of: a feed of changes, open versions apart.
                vectors = str(table.rows > MANY_ROWS).lower()
                feed = (
                    "tblproperties ('delta.enableChangeDataFeed' = 'true',"
                    f" 'delta.enableDeletionVectors' = '{vectors}')"
                )
                self.workshop.spark.sql(
                    f"create or replace table {history} using delta partitioned by (is_open) {feed}"
                    f" as select {columns}, seq, cast(null as bigint) as seq_end, true as is_open"
                    f" from {table.raw}"
                )
                self.workshop.spark.sql(
                    f"create or replace table {final} using delta {feed}"
                    f" as select {columns} from {table.raw}"
                )

        return timed(work)

    def lay_out(self, table: Table, files: int) -> None:
        for name in self.delta_tables(table):
            optimize(self.workshop, name, files)

    def apply(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        def work() -> None:
            with (
                scoped(self.workshop.spark, self.settings),
                ThreadPoolExecutor(self.threads) as pool,
            ):
                for _ in pool.map(lambda table: self._batch(table, arrived), tables):
                    pass

        return timed(work)

    def _batch(self, table: Table, arrived: Arrived) -> None:
        if table.name not in arrived:
            return
        spark = self.workshop.spark
        history, final = self.delta_tables(table)
        columns = ", ".join(COLUMNS)
        events = spark.sql(LATEST.format(events=f"parquet.`{arrived[table.name]}`")).toArrow()
        keys = sorted(set(events["id"].to_pylist()))
        is_touched = f"id between {keys[0]} and {keys[-1]} and id in ({', '.join(map(str, keys))})"
        known = spark.sql(f"select * from {history} where is_open and {is_touched}").toArrow()
        spark.createDataFrame(events).createOrReplaceTempView(f"events_{table.name}")
        spark.createDataFrame(known).createOrReplaceTempView(f"known_{table.name}")
        spark.sql(
            f"insert into {history} replace where is_open and {is_touched}"
            f" select {columns}, seq, cast(null as bigint), true from events_{table.name}"
            " where flag <> 'D' union all"
            f" select {', '.join(f'k.{c}' for c in COLUMNS)}, k.seq, e.seq, false"
            f" from known_{table.name} as k join events_{table.name} as e on k.id = e.id"
        )
        spark.sql(
            f"insert into {final} replace where {is_touched}"
            f" select {columns} from events_{table.name} where flag <> 'D'"
        )

    def current(self, table: Table) -> DataFrame:
        return self.workshop.spark.table(self.delta_tables(table)[1])

    def delta_tables(self, table: Table) -> list[str]:
        return [f"{self.name}.{table.name}_history", f"{self.name}.{table.name}"]

    def drop(self, table: Table) -> None:
        drop_tables(self.workshop, self.delta_tables(table))
