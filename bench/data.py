"""The tables and their changes. Every value follows from key and position: runs can be repeated.

Base rows have even keys, inserted rows odd ones between them. One base row in ten is only ever
deleted, the others only ever updated, so that each change is what it says it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "bench"
COLUMNS = {
    "id": "bigint",
    "name": "string",
    "city": "string",
    "amount": "decimal(12,2)",
    "quantity": "int",
    "changed_at": "timestamp",
}
# Shares of a batch: 600 updates, 200 inserts and 200 deletes in a thousand.
UPDATES, INSERTS = 0.6, 0.2
# Positions of one batch; those of the next come after them.
BATCH_POSITIONS = 10**9
# Rows of the first load with one number of arrival; below it there are as many numbers.
ARRIVALS = 1_000_000
FIRST_SECOND = 1_767_225_600  # 2026-01-01
HARD_BATCHES = 3
# Odd and prime: its multiples visit every place of a range once.
STRIDE = 7_368_787


@dataclass
class Table:
    """A table of the bench and its raw log.

    Attributes:
        name: Its name, in every system.
        rows: Rows of the first load.
        batch: The newest batch that has arrived; 0 is the first load.
    """

    name: str
    rows: int
    batch: int = -1

    @property
    def raw(self) -> str:
        """The Delta table that holds all its events."""
        return f"{SCHEMA}.raw_{self.name}"


@dataclass(frozen=True)
class Changes:
    """What one batch is made of.

    Attributes:
        count: Changes of all kinds.
        newest: The share of the table, by key, that they fall into; 1 is anywhere.
        recent: Whether the rows that the batch before inserted are deleted, not base rows: a
            stream without end would run out of these.
    """

    count: int
    newest: float = 1.0
    recent: bool = False


def first_load(spark: SparkSession, table: Table, folder: Path, files: int | None = None) -> Path:
    """Writes the events of the first load: one insert a row.

    Args:
        spark: A session.
        table: The table.
        folder: Where change files go, beside the raw log that Spark reads.
        files: How many files the raw log gets, in the order of positions; None is as Spark likes.

    Returns:
        Folder of Parquet files with these events.
    """
    events = spark.range(0, table.rows).selectExpr("2 * id as id", "'I' as flag", "id as seq")
    return _arrive(spark, table, events, folder, files)


def next_batch(spark: SparkSession, table: Table, changes: Changes, folder: Path) -> Path:
    """Writes the next batch of changes.

    Args:
        spark: A session.
        table: The table.
        changes: What the batch is made of.
        folder: Where change files go.

    Returns:
        Folder of Parquet files with these events.
    """
    updates = int(changes.count * UPDATES)
    inserts = int(changes.count * INSERTS)
    deletes = changes.count - updates - inserts
    batch = table.batch + 1
    # Wide enough that no row is deleted twice within the run's batches of this size.
    window = min(table.rows, max(round(table.rows * changes.newest), 50 * deletes))
    start = table.rows - window
    updatable, deletable = window * 9 // 10, window // 10

    def place(count: int, size: int, number: int) -> str:
        return f"({STRIDE} * (id + {number * count}L)) % {size}L"

    update = place(updates, updatable, batch)
    delete = f"2 * ({start}L + 10 * ({place(deletes, deletable, batch)}))"
    if changes.recent and batch > 1:
        delete = f"2 * ({start}L + {place(inserts, window, batch - 1)}) + 1"
    parts = [
        (updates, "U", f"2 * ({start}L + ({update}) div 9 * 10 + 1 + ({update}) % 9)"),
        (inserts, "I", f"2 * ({start}L + {place(inserts, window, batch)}) + 1"),
        (deletes, "D", delete),
    ]
    frame: DataFrame | None = None
    before = 0
    for count, flag, key in parts:
        part = spark.range(0, count).selectExpr(
            f"{key} as id", f"'{flag}' as flag", f"id + {before + batch * BATCH_POSITIONS}L as seq"
        )
        frame = part if frame is None else frame.union(part)
        before += count
    assert frame is not None
    return _arrive(spark, table, frame, folder)


def hard_batch(spark: SparkSession, table: Table, folder: Path) -> Path:
    """Writes the next batch of a stream: late-arriving, duplicate, many events of a key at once.

    The first batch inserts every key. Later ones are two turns each, and a key changes in one turn
    of three. One event in five comes one or two batches late, often as the only one of its key; one
    in seven comes again, and one in five is a delete.

    Args:
        spark: A session.
        table: The table; its rows are the keys.
        folder: Where change files go.
    """
    batch = table.batch + 1
    late = "if(value % 5 = 0, 1 + pmod(value, 2), 0)"
    arrival = f"if(turn = 0, 0, least(1 + (turn - 1) div 2 + {late}, {HARD_BATCHES}))"
    events = (
        spark.range(0, table.rows * (2 * HARD_BATCHES + 1))
        .selectExpr(f"id % {table.rows}L as id", f"id div {table.rows}L as turn")
        .selectExpr("*", "pmod(xxhash64(id, turn), 1000003) as value")
        .where("turn = 0 or value % 3 = 0")
        .selectExpr(
            "id",
            "case when turn = 0 then 'I' when value % 10 in (2, 3) then 'D' else 'U' end as flag",
            f"turn * {BATCH_POSITIONS}L + id as seq",
            f"{arrival} as arrival",
            "value % 7 = 0 and turn > 0 as is_duplicate",
        )
        .where(f"arrival = {batch} or (is_duplicate and arrival = {batch - 1})")
        .select("id", "flag", "seq")
    )
    return _arrive(spark, table, events, folder)


def _arrive(
    spark: SparkSession, table: Table, given: DataFrame, folder: Path, files: int | None = None
) -> Path:
    table.batch += 1
    # A first load arrives in many batches, as a snapshot's rows do.
    arrival = f"{table.batch * ARRIVALS}L" if table.batch else f"seq div {ARRIVALS}L"
    second, micro = f"(seq div {BATCH_POSITIONS}L)", f"(seq % {BATCH_POSITIONS}L)"
    events = given.selectExpr("*", "xxhash64(id, seq) as value").selectExpr(
        "id",
        "concat('customer ', hex(value)) as name",
        "concat('city ', pmod(value, 500)) as city",
        "cast(pmod(value, 10000000) / 100 as decimal(12,2)) as amount",
        "cast(pmod(value, 100) as int) as quantity",
        f"timestamp_micros({FIRST_SECOND}000000L + {second} * 1000000000L + {micro}) as changed_at",
        "flag",
        "seq",
        f"{arrival} as batch",
    )
    if table.batch:
        events = events.coalesce(1)
    target = folder / table.name / f"{table.batch:04}"
    events.write.parquet(str(target), mode="overwrite")
    arrived = spark.read.parquet(str(target))
    if files:
        arrived = arrived.repartitionByRange(files, "seq")
    arrived.write.format("delta").mode("append").saveAsTable(table.raw)
    return target


def living_rows(spark: SparkSession, table: Table) -> DataFrame:
    """Returns what the table has to be now: an aggregate over all events, no merge involved.

    Args:
        spark: A session.
        table: The table.
    """
    columns = ", ".join(f"last.{name}" for name in COLUMNS)
    return spark.sql(
        f"select {columns} from"
        f" (select max_by(struct(*), seq) as last from {table.raw} group by id)"
        " where last.flag <> 'D'"
    )


def fingerprint(frame: DataFrame, columns: Mapping[str, str] = COLUMNS) -> tuple[int, str]:
    """Returns count and sum of hashes of rows: equal for equal rows in any order.

    Args:
        frame: Rows with the columns of the table.
        columns: These columns, with their types.
    """
    typed = [f"cast({name} as {kind})" for name, kind in columns.items()]
    row = frame.selectExpr(
        "count(*)", f"cast(sum(cast(xxhash64({', '.join(typed)}) as decimal(20, 0))) as string)"
    ).first()
    assert row is not None
    return row[0], str(row[1])


def versions_match(spark: SparkSession, table: Table, versions: DataFrame) -> bool:
    """Returns whether a history has one version for each event that is no delete.

    Args:
        spark: A session.
        table: The table.
        versions: Key and time of each version: no two events have the same values.
    """
    events = spark.table(table.raw).where("flag <> 'D'").selectExpr("id", "changed_at")
    pair = ["count(*)", "sum(cast(xxhash64(id, changed_at) as decimal(20, 0)))"]
    return events.selectExpr(*pair).first() == versions.selectExpr(*pair).first()


def wrong_keys(spark: SparkSession, table: Table, current: DataFrame) -> int:
    """Returns how many keys a table has wrong: missing, there though deleted, or with other values.

    Args:
        spark: A session.
        table: The table.
        current: What a system says.
    """
    typed = [f"cast({name} as {kind})" for name, kind in COLUMNS.items()]
    row = f"xxhash64({', '.join(typed)})"
    expected = living_rows(spark, table).selectExpr("id", f"{row} as expected")
    found = current.selectExpr("cast(id as bigint) as id", f"{row} as found")
    compared = expected.join(found, "id", "full_outer").where("not expected <=> found")
    return compared.select("id").distinct().count()
