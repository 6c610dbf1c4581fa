"""Spark settings for the time of a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbt.adapters.sparkcdc.session import remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Delta keeps with the commits of a statement.
CHECKPOINT = "spark.databricks.delta.commitInfo.userMetadata"
# Bytes of a file that OPTIMIZE leaves as it is: by default a gigabyte, that is all of most tables.
MIN_FILE_SIZE = "spark.databricks.delta.optimize.minFileSize"
# For statements over few rows: one task, which needs no second plan.
FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # Rows in memory are one partition, written as one file.
    "spark.sql.leafNodeDefaultParallelism": "1",
}
# They cost Spark more to compile than to compute, the first time.
INTERPRETED = FEW_ROWS | {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def scoped(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Sets Spark settings, and restores what they were, in any case.

    Args:
        spark: The session, which nothing else uses meanwhile.
        settings: Settings by name.
    """
    if remote.is_remote(spark):
        with _scoped_on_server(spark, settings):
            yield
        return
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, former in before.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)


@contextmanager
def _scoped_on_server(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """As `scoped`, with few calls: each goes to the server and back."""
    if not settings:
        yield
        return
    before = remote.read_settings(spark, settings)
    try:
        remote.change_settings(spark, settings)
        yield
    finally:
        remote.change_settings(spark, before)
