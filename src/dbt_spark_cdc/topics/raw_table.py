"""Messages as rows of the raw table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dbt_spark_cdc.landing.raw_table import LANDED
from dbt_spark_cdc.messages.decoding import UNKNOWN, Decoder

NOT_TEXT = "value is not valid UTF-8"
# Delta ignores or refuses a second commit of the same batch, for instance that of a second run.
TXN_APP = "dbt-spark-cdc topics"
# Where Delta notes the last commit of a session.
LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
# What raw tables of former versions lack.
ADDED = {"_first_batch": "bigint"}
RAW = {
    **LANDED,
    "key": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
    "key_bytes": "binary",
    "value_bytes": "binary",
    "_topic_id": "string",
    "_previous_batch": "bigint",
    **ADDED,
}


def problems_of_raw(session: Any, raw: str) -> list[str]:
    """Returns why a raw table cannot hold messages.

    Args:
        session: A session.
        raw: The table, with its schema.
    """
    columns = session.table(raw).columns
    missing = [name for name in RAW if name not in columns and name not in ADDED]
    if not missing:
        return []
    return [
        f"{raw} has no column {', '.join(missing)}, so that it is not a table of messages: name"
        " one of their own in `raw_table`"
    ]


def as_rows(messages: DataFrame, ids: Mapping[str, str]) -> DataFrame:
    """Returns messages as rows of the raw table, without batch.

    Args:
        messages: As Spark's connector reads them, or decoded; or as they were landed before.
        ids: Ids of the topics, by name, of messages that do not have it.
    """

    def given(name: str, kind: str = "string") -> Column:
        return F.col(name) if name in messages.columns else F.lit(None).cast(kind)

    pairs = [F.lit(text) for pair in sorted(ids.items()) for text in pair]
    id_of = F.element_at(F.create_map(*pairs), F.col("topic")) if pairs else F.col("_topic_id")
    is_text = {name: F.expr(f"is_valid_utf8(cast({name} as string))") for name in ("key", "value")}
    texts = {
        name: F.coalesce(
            given(f"{name}_text"), F.expr(f"make_valid_utf8(cast({name} as string))")
        ).alias(name)
        for name in ("key", "value")
    }
    # The text is what was sent, unless it was decoded or could not be.
    kept = {
        name: F.when(
            ~is_text[name]
            | given(f"{name}_text").isNotNull()
            | given(f"{name}_problem").isNotNull(),
            F.col(name),
        ).alias(f"{name}_bytes")
        for name in ("key", "value")
    }
    not_text = F.when(~is_text["value"] & given("value_text").isNull(), F.lit(NOT_TEXT))
    doubts = [F.coalesce(given("value_problem"), not_text), given("key_problem")]
    return messages.select(
        texts["value"],
        F.expr("concat(topic, '/', partition)").alias("_file"),
        F.col("offset").alias("_row"),
        F.current_timestamp().alias("_landed_at"),
        F.nullif(F.concat_ws("; ", *doubts), F.lit("")).alias("_problem"),
        F.expr("substring_index(topic, '.', -1)").alias("_table"),
        texts["key"],
        "topic",
        "partition",
        "offset",
        "timestamp",
        "headers",
        kept["key"],
        kept["value"],
        id_of.alias("_topic_id"),
        given("_first_batch", "bigint").alias("_first_batch"),
    )


def append(rows: DataFrame, raw: str, number: int, previous: int) -> None:
    """Writes a batch, all of it or nothing.

    Args:
        rows: Rows of `as_rows`.
        raw: The raw table, with its schema.
        number: The batch's number.
        previous: The number of the batch before it; -1 for none.

    Raises:
        RuntimeError: Another run was faster.
    """
    session = rows.sparkSession
    session.conf.unset(LAST_COMMIT)
    (
        rows.withColumn("_batch", F.lit(number).cast("bigint"))
        .withColumn("_previous_batch", F.lit(previous).cast("bigint"))
        .select(*RAW)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", TXN_APP)
        .option("txnVersion", number)
        .saveAsTable(raw)
    )
    if session.conf.get(LAST_COMMIT, None) is None:
        raise RuntimeError(
            f"another run has landed batch {number} of {raw} at the same time: run the model again,"
            " and one run at a time"
        )


def land_again(session: Any, raw: str, decoder: Decoder, number: int, last: int) -> bool:
    """Lands messages once more whose schema nobody knew when they were landed, and somebody does.

    Their first rows stay, as all of an append-only table, and say what was wrong then.

    Args:
        session: A session.
        raw: The raw table, with its schema.
        decoder: Knows schemas.
        number: The number of their batch.
        last: The number of the batch before it.

    Returns:
        Whether there were such messages.
    """
    rows = session.table(raw)
    unknown = rows.where(F.col("_problem").contains(UNKNOWN) & F.col("_first_batch").isNull())
    problems = [row[0] for row in unknown.select("_problem").distinct().collect()]
    if not (solved := [problem for problem in problems if decoder.knows(problem)]):
        return False
    place = ["topic", "_topic_id", "partition", "offset"]
    landed_again = rows.where("_first_batch is not null").select(*place)
    todo = unknown.where(F.col("_problem").isin(solved)).join(landed_again, place, "left_anti")
    sent = [
        F.expr(f"coalesce({name}_bytes, cast({name} as binary))").alias(name)
        for name in ("key", "value")
    ]
    messages = todo.select(
        *place, "timestamp", "headers", *sent, F.col("_batch").alias("_first_batch")
    ).persist()
    try:
        if messages.isEmpty():
            return False
        append(as_rows(decoder.decode(messages), {}), raw, number, last)
    finally:
        messages.unpersist()
    return True
