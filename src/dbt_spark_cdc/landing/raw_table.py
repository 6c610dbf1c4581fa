"""Raw tables, and the rows of the log that they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparkcdc.delta.creation import create_if_missing
from dbt.adapters.sparkcdc.errors import is_conflict, message_of
from dbt.adapters.sparkcdc.session.settings_scope import MIN_FILE_SIZE, scoped
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dbt_spark_cdc.landing.folder import Folder
from dbt_spark_cdc.landing.lines import LINES, Row
from dbt_spark_cdc.landing.plan import Plan

# Delta refuses or ignores a second commit of the same batch, for instance that of a second landing.
TXN_APP = "dbt-spark-cdc landing"
_logger = AdapterLogger("sparkcdc")
# Every landing reads its log, and Delta reads the names of all files of both tables.
BATCHES_A_COMPACTION = 50
# Larger files stay as they are: a table of years is not written again for the files of a day.
SMALL_FILE_BYTES = 16 * 1024 * 1024
# What tables of the first version lack.
ADDED = {"_size": "bigint", "_modified_at": "timestamp", "_checksum": "string"}
# What every raw table has that `landed: true` declares.
LANDED = {
    "value": "string",
    "_file": "string",
    "_row": "bigint",
    "_landed_at": "timestamp",
    "_batch": "bigint",
    "_problem": "string",
    "_table": "string",
}
RAW = {**LANDED, **ADDED}
LOG = (
    "_table string, _file string, _batch bigint, _landed_at timestamp, lines bigint,"
    " unreadable bigint, problem string, bytes bigint, modified_at timestamp, checksum string"
)


def create_raw(session: Any, raw: str, columns: Mapping[str, str]) -> None:
    """Creates an append-only raw table, and its schema, where there is none.

    Args:
        session: A session.
        raw: The table, with its schema.
        columns: Types by name.
    """
    if schema := raw.rpartition(".")[0]:
        session.sql(f"create schema if not exists {schema}")
    create_if_missing(
        session.sql,
        session,
        raw,
        "select " + ", ".join(f"cast(null as {kind}) as {name}" for name, kind in columns.items()),
        "partitioned by (_table)"
        " tblproperties ('delta.appendOnly' = 'true', 'delta.enableDeletionVectors' = 'false')",
    )


def add_columns(session: Any, raw: str, added: Mapping[str, str]) -> None:
    """Gives a raw table of a former version the columns that it lacks.

    Args:
        session: A session.
        raw: The table, with its schema.
        added: Types by name.
    """
    columns = session.table(raw).columns
    missing = [f"{name} {kind}" for name, kind in added.items() if name not in columns]
    if missing:
        session.sql(f"alter table {raw} add columns ({', '.join(missing)})")


def last_written(session: Any, raw: str, app: str) -> int:
    """Returns the last batch that Delta's log has, -1 for none: it outlives a restored table.

    Args:
        session: A session inside this process.
        raw: The table, with its schema.
        app: What Delta knows the writer by.
    """
    table = session._jvm.io.delta.tables.DeltaTable.forName(session._jsparkSession, raw)
    written = table.deltaLog().unsafeVolatileSnapshot().transactions().get(app)
    return int(written.get()) if written.isDefined() else -1


def append(session: Any, raw: str, batch: int, source: Folder, plan: Plan) -> None:
    """Lands a batch, all of it or nothing.

    Args:
        session: A session.
        raw: The table, with its schema.
        batch: Its number.
        source: The landing folder.
        plan: What is landed and reported, at least one file.
    """
    reports: list[Row] = [
        (file.table, None, file.name, 0, problem, file.size, file.modified, checksum)
        for file, checksum, problem in plan.reported
    ]
    rows = source.lines(plan.new) if plan.new else None
    if reports:
        reported = session.createDataFrame(reports, LINES)
        rows = reported if rows is None else rows.unionByName(reported)
    assert rows is not None
    (
        rows.withColumn("_landed_at", F.current_timestamp())
        .withColumn("_batch", F.lit(batch).cast("bigint"))
        .withColumn("_modified_at", F.timestamp_millis("_modified"))
        .drop("_modified")
        .write.format("delta")
        .mode("append")
        .option("txnAppId", TXN_APP)
        .option("txnVersion", batch)
        .saveAsTable(raw)
    )


def compact(dbt: Any, session: Any, raw: str, before: int, last: int) -> None:
    """Puts small files of landing's tables together, once in so many batches.

    A batch adds a file to the log, and one of each source table to the raw table.

    Args:
        dbt: What dbt hands to the model; its own table is the log.
        session: A session.
        raw: The raw table, with its schema.
        before: The last batch of the run before.
        last: The last batch of this run.
    """
    if before < 0 or before // BATCHES_A_COMPACTION == last // BATCHES_A_COMPACTION:
        return
    with scoped(session, {MIN_FILE_SIZE: str(SMALL_FILE_BYTES)}):
        for table in [raw, str(dbt.this)] if dbt.is_incremental else [raw]:
            if not _is_delta(session, table):
                continue
            try:
                session.sql(f"optimize {table}").collect()
            except Exception as exc:
                # Another landing does the same, or an erasure rewrites the files.
                if not is_conflict(exc):
                    # What is landed matters more: the batch is written all the same.
                    _logger.warning(
                        f"The small files of {table} were not put together: {message_of(exc)}"
                    )


def _is_delta(session: Any, table: str) -> bool:
    """Whether OPTIMIZE knows a table: its owner may have made the log one of another format."""
    described = session.sql(f"describe table extended {table}").collect()
    return ("provider", "delta") in {
        (str(row[0]).lower(), str(row[1]).lower()) for row in described
    }


def summary(session: Any, raw: str, last: int) -> DataFrame:
    """Returns the rows of the log that the raw table gives for the batches after one.

    Args:
        session: A session.
        raw: The table, with its schema.
        last: The last batch that the log has.
    """
    return (
        session.table(raw)
        .where(F.col("_batch") > last)
        .groupBy("_table", "_file", "_batch")
        .agg(
            F.min("_landed_at").alias("_landed_at"),
            F.count_if(F.col("_problem").isNull()).alias("lines"),
            F.count_if(F.col("_problem").isNotNull()).alias("unreadable"),
            F.first("_problem", ignorenulls=True).alias("problem"),
            F.first("_size").alias("bytes"),
            F.first("_modified_at").alias("modified_at"),
            F.first("_checksum").alias("checksum"),
        )
    )
