"""The log of what was landed, and what it and the raw table know."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dbt_spark_cdc.topics.partitions import Landed, Partition, Topic

LOG = (
    "topic string, topic_id string, partition int, _batch bigint, _previous_batch bigint,"
    " _landed_at timestamp, first_offset bigint, last_offset bigint, next_offset bigint,"
    " messages bigint, unreadable bigint"
)


class Known(NamedTuple):
    """What the raw table and the log know.

    Attributes:
        last: Last batch of the raw table, -1 where it has none.
        logged: Last batch of the log, -1 where it has none.
        next: The offset after the last one that was landed, for each partition.
    """

    last: int
    logged: int
    next: Mapping[Landed, int]


def read_known(session: Any, raw: str, log: DataFrame | None) -> Known:
    """Returns what was landed: by the log, and for batches that it lacks by the raw table.

    Args:
        session: A session.
        raw: The raw table, with its schema.
        log: The model's own table; None where there is none yet.
    """
    last, logged = _last_batch(session.table(raw)), _last_batch(log)
    rows = summary(session, raw, logged) if last > logged else None
    if log is not None:
        known = log.select(*(part.split()[0] for part in LOG.split(", ")))
        rows = known if rows is None else known.unionByName(rows)
    if rows is None:
        return Known(last, logged, {})
    jumps = rows.where("_batch > _previous_batch + 1").select("_previous_batch", "_batch")
    gaps = [(row[0], row[1]) for row in jumps.distinct().collect()]
    # Where a batch has only messages that were landed before, it says nothing of where to go on.
    is_there = (F.col("_batch") <= last) & F.col("next_offset").isNotNull()
    for before, after in gaps:
        is_there &= ~((F.col("_batch") > before) & (F.col("_batch") < after))
    found = (
        rows.groupBy("topic", "topic_id", "partition")
        .agg(
            F.max(F.when(is_there, F.struct("_batch", "next_offset"))).alias("landed"),
            F.min(F.when(~is_there, F.col("first_offset"))).alias("first_that_is_gone"),
        )
        .selectExpr(
            "topic", "topic_id", "partition", "coalesce(landed.next_offset, first_that_is_gone)"
        )
        .collect()
    )
    return Known(last, logged, {Landed(*row[:3]): row[3] for row in found if row[3] is not None})


def summary(session: Any, raw: str, after: int) -> DataFrame:
    """Returns the rows of the log that the raw table gives for the batches after one.

    Args:
        session: A session.
        raw: The raw table, with its schema.
        after: The last batch that the log has.
    """
    new = F.when(F.col("_first_batch").isNull(), F.col("offset"))
    return (
        session.table(raw)
        .where(F.col("_batch") > after)
        .groupBy("topic", F.col("_topic_id").alias("topic_id"), "partition", "_batch")
        .agg(
            F.min("_previous_batch").alias("_previous_batch"),
            F.min("_landed_at").alias("_landed_at"),
            F.min(new).alias("first_offset"),
            F.max(new).alias("last_offset"),
            (F.max(new) + 1).alias("next_offset"),
            F.count("*").alias("messages"),
            F.count("_problem").alias("unreadable"),
        )
    )


def read_in_vain(
    rows: DataFrame,
    known: Known,
    found: Mapping[str, Topic],
    read_to: Mapping[Partition, int],
) -> list[tuple[Any, ...]]:
    """Returns rows of the log for offsets without a message, so that the next run skips them.

    Transactions end with a marker, and compaction leaves gaps.

    Args:
        rows: The rows of the log for what the run has landed.
        known: What was known before it.
        found: The topics that the broker has.
        read_to: The offset after the last one that was read, for each partition.
    """
    landed = {
        Landed(row["topic"], row["topic_id"], row["partition"]): (row["_batch"], row["next_offset"])
        for row in rows.orderBy("_batch").collect()
        if row["next_offset"] is not None
    }
    last = max([known.last, known.logged, *(batch for batch, _ in landed.values())])
    now = datetime.now(timezone.utc)
    notes = []
    for partition, offset in read_to.items():
        key = Landed(partition.topic, found[partition.topic].id, partition.number)
        _, after = landed.get(key, (0, known.next.get(key, -1)))
        if offset > after and last >= 0:
            notes.append((*key, last, last - 1, now, None, None, offset, 0, 0))
    return notes


def _last_batch(table: DataFrame | None) -> int:
    """The last batch of a table, -1 where it has none."""
    found = None if table is None else table.agg(F.max("_batch")).collect()[0][0]
    return -1 if found is None else int(found)
