"""The loop of article 000, in PySpark: window and count until no event is left to apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from bench.session import Timing, Workshop
from bench.systems.base import drop_tables, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "article_000"
VALUES = ("id", "name", "city")


class Article000:
    """The article's change event resolver, which writes the whole table in each run."""

    name = "article_000"

    def __init__(self, workshop: Workshop, raw: str) -> None:
        self.workshop, self.raw = workshop, raw
        self.current = f"{SCHEMA}.moved"
        workshop.spark.sql(f"create schema if not exists {SCHEMA}")

    def load(self) -> Timing:
        """Resolves the events of the first load."""
        return timed(lambda: self._write(0, None))

    def apply(self, batch: int) -> Timing:
        """Resolves a batch on top of the table."""
        return timed(lambda: self._write(batch, self.workshop.spark.table(self.current)))

    def drop(self) -> None:
        """Frees the disk."""
        drop_tables(self.workshop, [self.current])

    def _write(self, batch: int, known: DataFrame | None) -> None:
        events = self.workshop.spark.table(self.raw).where(F.col("batch") == batch)
        split = events.select(
            "changeType",
            F.col("timestamp").cast("bigint").alias("timestamp"),
            *(F.col("columnValues")[place].alias(name) for place, name in enumerate(VALUES)),
            F.col("oldKeyValues")[0].alias("old_id"),
        )
        old = F.coalesce("old_id", "id")
        given = split.withColumn("old_id", old)
        if known is not None:
            rows = known.withColumn("changeType", F.lit(None).cast("string"))
            given = given.unionByName(rows.withColumn("old_id", F.col("id")))
        given = given.cache()
        resolved = _applied(given)
        living = resolved.where("changeType <> 'delete' or changeType is null")
        living.drop("old_id", "changeType").distinct().write.format("delta").mode(
            "overwrite"
        ).saveAsTable(self.current)
        given.unpersist()


def _applied(frame: DataFrame) -> DataFrame:
    window = Window.partitionBy("old_id").orderBy(F.desc("timestamp"))
    done, is_first = False, True
    while not done:
        before = frame
        if not is_first:
            moved = F.when(F.col("changeType") == "update", F.col("id")).otherwise(F.col("old_id"))
            before = frame.withColumn("old_id", moved)
        frame = (
            before.withColumn("rank", F.row_number().over(window)).where("rank = 1").drop("rank")
        )
        done = frame.count() == before.count()
        is_first = False
    return frame
