"""What every system can do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dbt.adapters.sparkcdc.iceberg import tables as iceberg

from bench.data import Table
from bench.session import Timing, Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Change files of the newest batch, by name of the table.
Arrived = Mapping[str, Path]


class System(Protocol):
    """A system under measurement.

    Attributes:
        name: As in the results.
    """

    name: str

    def load(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        """Makes the tables from the events of the first load."""

    def lay_out(self, table: Table, files: int) -> None:
        """Sorts a table by key into so many files, as an older table that is cared for has them."""

    def apply(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        """Brings the tables up to date."""

    def current(self, table: Table) -> DataFrame:
        """Returns the living rows of a table."""

    def delta_tables(self, table: Table) -> list[str]:
        """Returns names of the Delta tables behind it that Spark can describe."""

    def drop(self, table: Table) -> None:
        """Frees the disk that a table takes."""


def timed(work: Callable[[], object]) -> Timing:
    """Runs something that is all work.

    Args:
        work: What to run.
    """
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    return Timing(took, took)


def drop_tables(workshop: Workshop, names: Sequence[str]) -> None:
    """Drops Delta tables by name.

    Args:
        workshop: Where the tables are.
        names: The tables.
    """
    for name in names:
        workshop.spark.sql(f"drop table if exists {name}")


def optimize(workshop: Workshop, name: str, files: int) -> None:
    """Sorts a Delta table by key into so many files.

    Args:
        workshop: Where the table is.
        name: The table, as Spark reads it.
        files: Number of files, roughly.
    """
    spark = workshop.spark
    detail = spark.sql(f"describe detail {name}").first()
    assert detail is not None
    size = "spark.databricks.delta.optimize.maxFileSize"
    spark.conf.set(size, str(max(1, detail["sizeInBytes"] // files)))
    # Files that are large already would be left out.
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(detail["sizeInBytes"] + 1))
    spark.sql(f"optimize {name} zorder by (id)")
    spark.conf.unset(size)


def sort_files(workshop: Workshop, name: str, files: int) -> None:
    """Sorts a table of Iceberg by key into so many files.

    Args:
        workshop: Where the table is.
        name: The table, with its catalog.
        files: Number of files, roughly.
    """
    spark = workshop.spark
    size = spark.sql(f"select sum(file_size_in_bytes) from {name}.files where content = 0").first()
    assert size is not None
    options = {
        "rewrite-all": "true",
        "target-file-size-bytes": str(max(1, size[0] // files)),
        "remove-dangling-deletes": "true",
    }
    java: Any = spark._jvm
    table = iceberg.load(spark, name)
    # The procedure parses a sort order with a parser of Iceberg's, which other tables do without.
    by_key = getattr(java, "org.apache.iceberg.SortOrder").builderFor(table.schema()).asc("id")
    actions = getattr(java, "org.apache.iceberg.spark.actions.SparkActions")
    rewrite = actions.get(spark._jsparkSession).rewriteDataFiles(table).sort(by_key.build())
    for option, value in options.items():
        rewrite = rewrite.option(option, value)
    rewrite.execute()
