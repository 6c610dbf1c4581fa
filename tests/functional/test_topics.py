"""What becomes of messages in the raw table, and what is known of them; e2e has the broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import pytest

from dbt_spark_cdc.landing.raw_table import create_raw, last_written
from dbt_spark_cdc.topics.config import read_settings
from dbt_spark_cdc.topics.log import LOG, Known, read_in_vain, read_known, summary
from dbt_spark_cdc.topics.partitions import Landed, Partition, Topic
from dbt_spark_cdc.topics.raw_table import RAW as COLUMNS
from dbt_spark_cdc.topics.raw_table import TXN_APP, problems_of_raw
from dbt_spark_cdc.topics.stream import Stream

pytestmark = pytest.mark.extended

RAW = "topics_raw.messages"
MESSAGES = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SETTINGS, _ = read_settings(["shop.orders"], RAW)
FIRST, SECOND = (Landed("shop.orders", id, 0) for id in ("one", "two"))


@pytest.fixture
def raw(spark: Any) -> Iterator[Any]:
    create_raw(spark, RAW, COLUMNS)
    yield spark
    spark.sql(f"drop table if exists {RAW}")


def land(spark: Any, batches: Sequence[Sequence[int]], id: str = "one") -> None:
    """A run that lands batches of offsets."""
    written = last_written(spark, RAW, TXN_APP)
    known = read_known(spark, RAW, None)
    stream = stream_of(spark, known, written, id)
    for epoch, offsets in enumerate(batches):
        stream._write(messages(spark, *offsets), epoch)


def stream_of(spark: Any, known: Known, written: int, id: str = "one") -> Stream:
    batch = max(known.last, known.logged, written) + 1
    return Stream(spark, {}, SETTINGS, {"shop.orders": id}, known.last, batch)


def messages(spark: Any, *offsets: int) -> Any:
    rows = [(None, b"{}", "shop.orders", 0, offset, NOW, None) for offset in offsets]
    return spark.createDataFrame(rows, MESSAGES)


def test_nothing_of_a_message_is_lost(raw: Any) -> None:
    sent = [
        (b'{"id": 1}', '{"name": "ü"}'.encode(), [("h", b"1"), ("h", b"\xff")]),
        (b'{"id": 1}', None, None),
        (b"\x00\xff", b"\x00\x00\x00\x00\x07\xff", []),
        (None, b"", None),
    ]
    rows = [
        (key, value, "shop.orders", 2, offset, NOW, headers)
        for offset, (key, value, headers) in enumerate(sent)
    ]
    stream = stream_of(raw, Known(-1, -1, {}), -1)
    stream._write(raw.createDataFrame(rows, MESSAGES), 0)
    found = [row.asDict(recursive=True) for row in raw.table(RAW).orderBy("offset").collect()]
    for row, (key, value, headers) in zip(found, sent, strict=True):
        for name, content in (("key", key), ("value", value)):
            kept = row[f"{name}_bytes"]
            text = None if row[name] is None else row[name].encode()
            assert (text if kept is None else bytes(kept)) == content
        shown = row["headers"]
        assert (shown and [(h["key"], bytes(h["value"])) for h in shown]) == headers
        assert row["_table"] == "orders"
        assert f"{row['_file']}:{row['_row']}" == f"shop.orders/2:{row['offset']}"
        assert row["timestamp"].replace(tzinfo=timezone.utc) == NOW
    assert [row["_problem"] for row in found] == [None, None, "value is not valid UTF-8", None]


def test_the_raw_table_alone_says_where_to_go_on(raw: Any) -> None:
    def log() -> Any:
        rows = [tuple(row) for row in summary(raw, RAW, -1).collect()]
        return raw.createDataFrame(rows, LOG)

    assert read_known(raw, RAW, None) == (-1, -1, {})
    land(raw, [[0, 1], [2, 3, 4]])
    early = log()
    land(raw, [[5, 6]])
    # With no log, with one that lacks a batch, and with a whole one.
    assert read_known(raw, RAW, None) == (2, -1, {FIRST: 7})
    assert read_known(raw, RAW, early) == (2, 1, {FIRST: 7})
    whole = log()
    assert read_known(raw, RAW, whole) == (2, 2, {FIRST: 7})
    # Offsets without a message are skipped, from the log alone.
    notes = read_in_vain(
        raw.createDataFrame([], LOG),
        read_known(raw, RAW, whole),
        {"shop.orders": Topic("one", {})},
        {Partition("shop.orders", 0): 9},
    )
    noted = whole.unionByName(raw.createDataFrame(notes, LOG))
    assert read_known(raw, RAW, noted) == (2, 2, {FIRST: 9})
    # A topic that was created again.
    land(raw, [[0]], "two")
    assert read_known(raw, RAW, whole) == (3, 2, {FIRST: 7, SECOND: 1})

    # Restored to the first batch: the log knows more than there is.
    [(version,)] = (
        raw.sql(f"describe history {RAW}")
        .where("operation = 'WRITE'")
        .selectExpr("min(version)")
        .collect()
    )
    whole = log()
    raw.sql(f"alter table {RAW} set tblproperties ('delta.appendOnly' = 'false')")
    raw.sql(f"restore table {RAW} to version as of {version}")
    assert read_known(raw, RAW, whole) == (0, 3, {FIRST: 2, SECOND: 0})
    assert last_written(raw, RAW, TXN_APP) == 3
    # What is landed again has higher batches. Until the log has them, and after that, the batches
    # that were lost do not count.
    land(raw, [[2, 3]])
    assert read_known(raw, RAW, whole) == (4, 3, {FIRST: 4, SECOND: 0})
    both = whole.unionByName(summary(raw, RAW, 3))
    assert read_known(raw, RAW, both) == (4, 4, {FIRST: 4, SECOND: 0})

    # Dropped: only the first offsets are known, and where batches have to go on.
    whole = raw.createDataFrame([tuple(row) for row in both.collect()], LOG)
    raw.sql(f"drop table {RAW}")
    create_raw(raw, RAW, COLUMNS)
    assert read_known(raw, RAW, whole) == (-1, 4, {FIRST: 0, SECOND: 0})


def test_two_runs_at_once_do_not_land_twice(raw: Any) -> None:
    known, written = read_known(raw, RAW, None), last_written(raw, RAW, TXN_APP)
    fast, slow = stream_of(raw, known, written), stream_of(raw, known, written)
    fast._write(messages(raw, 0, 1), 0)
    fast._write(messages(raw, 2), 1)
    with pytest.raises(RuntimeError, match="another run has landed batch 0"):
        slow._write(messages(raw, 0, 1, 2), 0)
    assert raw.table(RAW).selectExpr("sort_array(collect_list(offset))").collect()[0][0] == [
        0,
        1,
        2,
    ]


def test_a_table_of_landed_files_is_refused(spark: Any) -> None:
    spark.sql("create schema if not exists topics_raw")
    spark.sql("create table topics_raw.files (value string, _batch bigint) using delta")
    [problem] = problems_of_raw(spark, "topics_raw.files")
    assert "so that it is not a table of messages" in problem
    spark.sql("drop table topics_raw.files")
