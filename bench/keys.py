"""Key changes: the resolver against article 000's algorithm, on the same events in one process.

Runs with `python bench/keys.py`, in about two minutes; SCALE=full takes 1 M events for all chain
lengths, and 10 M for one.

The article's loop is written as the article has it, in PySpark: split the columns, unite frames of
different columns, keep the newest event per old key, put the new key in its place, again and again
until the count is stable, drop deletes. It ends after three rounds at most, and leaves rows under
the keys in the middle of a chain. `hop by hop` gets chains right in the article's way: each round
it follows one link, until a round changes nothing.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.session.opening import open_session
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from dbt_spark_cdc.keys import resolve

FULL = os.environ.get("SCALE") == "full"
EVENTS = 1_000_000 if FULL else 100_000
LENGTHS = [1, 2, 10, 100, 1_000] + ([10_000] if FULL else [])
# One hop a round: beyond these lengths a run takes minutes to hours.
HOP_BY_HOP_TO = 100 if FULL else 10


def article(base: DataFrame, events: DataFrame) -> DataFrame:
    """Article 000: base (timestamp, id, name), events (changeType, timestamp, columnNames, ...)."""
    names = events.where("columnNames is not null").first()
    columns = names["columnNames"] if names else []
    split = events.select(
        "*", *(F.col("columnValues")[i].alias(name) for i, name in enumerate(columns))
    ).drop("columnNames", "columnValues")
    inserts = split.where("changeType = 'insert'").drop("oldKeyNames", "oldKeyValues")
    current = united([inserts, base])
    changes = split.where("changeType in ('update', 'delete')")
    for (key,) in changes.select("oldKeyNames").distinct().collect():
        with_old = reduce(
            lambda frame, name: frame.withColumn(f"old_{name}", F.col(name)), key, current
        )
        with_values = changes.where(F.col("oldKeyNames") == F.array(*map(F.lit, key))).select(
            "*", *(F.col("oldKeyValues")[i].alias(f"old_{name}") for i, name in enumerate(key))
        )
        first = united([with_old, with_values.drop("oldKeyNames", "oldKeyValues")]).cache()
        resolved = newest_by_old_key(first, key)
        current = resolved.where("changeType <> 'delete' or changeType is null").drop(
            *(f"old_{name}" for name in key)
        )
    return current.drop("changeType").distinct()


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """A union of frames with different columns."""
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def newest_by_old_key(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """The article's fix-point."""
    newest = Window.partitionBy(*(f"old_{name}" for name in key)).orderBy(F.desc("timestamp"))
    rounds = 0
    while True:
        before = frame
        if rounds:
            for name in key:
                old = F.when(F.col("changeType") == "update", F.col(name))
                before = before.withColumn(f"old_{name}", old.otherwise(F.col(f"old_{name}")))
        after = (
            before.withColumn("rank", F.row_number().over(newest)).where("rank = 1").drop("rank")
        )
        frame, rounds = after, rounds + 1
        if after.count() == before.count():
            newest_by_old_key.rounds = rounds  # type: ignore[attr-defined]
            return frame


def hop_by_hop(events: DataFrame) -> tuple[DataFrame, int]:
    """Follows one link a round, until no row is in the way of another."""
    state = events.select("id", "name", F.coalesce("old_id", "id").alias("old_id"), "timestamp")
    follow = state.where("id <> old_id").select(
        F.col("old_id").alias("at"), F.col("id").alias("next"), F.col("name").alias("next_name")
    )
    rows = state.where("id = old_id").select("id", "name").localCheckpoint()
    rounds = 0
    while True:
        moved = rows.join(follow, F.col("id") == F.col("at"), "left").select(
            F.coalesce("next", "id").alias("id"),
            F.coalesce("next_name", "name").alias("name"),
            F.col("next").isNotNull().alias("moved"),
        )
        moved = moved.localCheckpoint()
        rounds += 1
        if moved.where("moved").isEmpty():
            return rows, rounds
        rows = moved.select("id", "name")


def chains(spark: SparkSession, events: int, length: int) -> DataFrame:
    """Rows that are inserted and then move `length` times, every event at its own time."""
    rows = max(events // (length + 1), 1)
    row, step = F.col("n") % rows, F.floor(F.col("n") / rows)
    key = F.concat_ws("-", row, step)
    return (
        spark.range(rows * (length + 1))
        .toDF("n")
        .select(
            key.alias("id"),
            F.concat(F.lit("name "), step).alias("name"),
            F.when(step > 0, F.concat_ws("-", row, step - 1)).alias("old_id"),
            F.col("n").alias("timestamp"),
        )
    )


def in_canonical_form(events: DataFrame) -> DataFrame:
    """The events as a staging model gives them."""
    return events.select(
        "id",
        "name",
        F.when(F.col("old_id").isNull(), "I").otherwise("U").alias("_op"),
        F.col("timestamp").alias("_seq"),
        F.xxhash64("id", "timestamp").alias("_event_id"),
        F.col("old_id").alias("_old_id"),
        F.lit(1).cast("bigint").alias("_arrived"),
    )


def in_the_articles_form(events: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The events as the article has them: rows that are there, and changes."""
    base = events.where("old_id is null").select("timestamp", "id", "name")
    changes = events.where("old_id is not null").select(
        F.lit("update").alias("changeType"),
        "timestamp",
        F.array(F.lit("id"), F.lit("name")).alias("columnNames"),
        F.array("id", "name").alias("columnValues"),
        F.array(F.lit("id")).alias("oldKeyNames"),
        F.array("old_id").alias("oldKeyValues"),
    )
    return base, changes


def current_rows(resolved: DataFrame) -> DataFrame:
    """The last event of each entity."""
    last = Window.partitionBy("_entity_id").orderBy(F.desc("_seq"))
    rows = resolved.withColumn("_rank", F.row_number().over(last)).where("_rank = 1")
    return rows.where("_op <> 'D'").select("id", "name")


def is_right(rows: DataFrame, expected: DataFrame) -> bool:
    """Whether the rows are those that the source has in the end."""
    rows = rows.select("id", "name")
    return rows.exceptAll(expected).isEmpty() and expected.exceptAll(rows).isEmpty()


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - began)


def measure(
    name: str, work: Callable[[], tuple[DataFrame, Any]], expected: DataFrame, n: int
) -> str:
    """One line of the report; the result is written, as it would be in use."""
    taken: list[float] = []
    spark = expected.sparkSession
    with tempfile.TemporaryDirectory() as folder:
        with timed(taken):
            rows, rounds = work()
            rows.write.parquet(f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows")
        if "_entity_id" in rows.columns:
            rows = current_rows(rows)
        right = "right" if is_right(rows, expected) else f"WRONG, {rows.count():,} rows"
    seconds = taken[0]
    found = (
        f"{name:<12} {seconds:8.1f} s {n / seconds:12,.0f} events/s {rounds!s:>6} rounds  {right}"
    )
    print(f"  {found}", flush=True)
    return found


def compare(spark: SparkSession, folder: Path, count: int, length: int, ours_only: bool) -> None:
    """Measures all algorithms on chains of one length."""
    path = str(folder / f"{count}_{length}")
    chains(spark, count, length).orderBy(F.rand(7)).write.parquet(path)
    events = spark.read.parquet(path)
    n = events.count()
    rows = n // (length + 1)
    expected = events.where(F.col("timestamp") >= n - rows).select("id", "name")
    print(f"{n:,} events, {rows:,} rows that move {length:,} times", flush=True)

    def by_article() -> tuple[DataFrame, Any]:
        found = article(*in_the_articles_form(events))
        return found, newest_by_old_key.rounds  # type: ignore[attr-defined]

    # In the task that follows the links, the last of `length` is found by doubling.
    rounds = math.ceil(math.log2(length)) if length > 1 else 0
    measure("ours", lambda: (resolve(in_canonical_form(events)), rounds), expected, n)
    if not ours_only:
        measure("article", by_article, expected, n)
        spark.catalog.clearCache()
    if not ours_only and length <= HOP_BY_HOP_TO:
        measure("hop by hop", lambda: hop_by_hop(events), expected, n)


def late_events(spark: SparkSession, folder: Path, count: int) -> None:
    """What a run costs that brings few events to a large table."""
    path = str(folder / "known")
    events = in_canonical_form(chains(spark, count, 9))
    resolve(events).write.parquet(path)
    known = spark.read.parquet(path)
    late = (
        known.where("_seq % 10000 = 7")
        .select(*events.columns)
        .withColumns(
            {
                "_seq": F.col("_seq") + 1,
                "_event_id": F.col("_event_id") + 1,
                "_arrived": F.lit(2).cast("bigint"),
                "_op": F.lit("U"),
                "_old_id": F.lit(None).cast("string"),
            }
        )
        .localCheckpoint()
    )
    n = late.count()
    for name, more in [("late events", late), ("nothing new", late.limit(0))]:
        taken: list[float] = []
        with timed(taken):
            resolve(events.union(more), known).write.mode("overwrite").parquet(f"{folder}/out")
        rows = spark.read.parquet(f"{folder}/out").count()
        print(f"  {more.count():,} {name}, {count:,} known: {taken[0]:.1f} s, {rows:,} written")
    assert n


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = SparkCdcCredentials(
            schema="default", warehouse=str(folder / "warehouse"), spark_log=str(folder / "log")
        )
        spark = open_session(settings)
        spark.conf.set("spark.sql.shuffle.partitions", "8" if FULL else "4")
        # Java compiles what runs often, meanwhile.
        for _ in range(3):
            resolve(in_canonical_form(chains(spark, 100_000, 3))).count()
        for length in LENGTHS:
            compare(spark, folder, EVENTS, length, ours_only=False)
        if FULL:
            compare(spark, folder, 10_000_000, 10, ours_only=False)
        late_events(spark, folder, EVENTS)


if __name__ == "__main__":
    main()
