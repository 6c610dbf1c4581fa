"""Article 000's worked example, and where its loop and the resolver agree and part."""

from __future__ import annotations

from typing import Any

from bench.keys import article, current_rows
from dbt_spark_cdc.keys import resolve

CHANGES = (
    "changeType string, timestamp string, columnNames array<string>, columnValues array<string>,"
    " oldKeyNames array<string>, oldKeyValues array<string>"
)
Change = tuple[str, str, Any, Any, Any, Any]


def update(timestamp: int, old: str, *values: str) -> Change:
    return ("update", str(timestamp), ["id", "name"], list(values), ["id"], [old])


def insert(timestamp: int, *values: str) -> Change:
    return ("insert", str(timestamp), ["id", "name"], list(values), None, None)


def delete(timestamp: int, old: str) -> Change:
    return ("delete", str(timestamp), None, None, ["id"], [old])


BASE = [("0", "id1", "Alice"), ("0", "id2", "Bob")]
EXAMPLE = [update(1, "id1", "id1", "Angela"), delete(2, "id2"), insert(3, "id2", "Carol")]


def both(spark: Any, changes: list[Change]) -> tuple[set[Any], set[Any]]:
    """The rows that the article's algorithm gives, and ours."""
    base = spark.createDataFrame(BASE, "timestamp string, id string, name string")
    frame = spark.createDataFrame(changes, CHANGES)
    theirs = article(base, frame).select("id", "name")
    events = base.selectExpr(
        "id", "name", "'I' as _op", "int(timestamp) as _seq", "string(null) as _old_id"
    ).unionByName(
        frame.selectExpr(
            "coalesce(columnValues[0], oldKeyValues[0]) as id",
            "columnValues[1] as name",
            "upper(left(changeType, 1)) as _op",
            "int(timestamp) as _seq",
            "if(columnValues[0] <> oldKeyValues[0], oldKeyValues[0], null) as _old_id",
        )
    )
    ours = current_rows(resolve(events.selectExpr("*", "xxhash64(*) as _event_id")))
    found = [{tuple(row) for row in rows.collect()} for rows in (theirs, ours)]
    spark.catalog.clearCache()
    return found[0], found[1]


def test_the_worked_example(spark: Any) -> None:
    theirs, ours = both(spark, EXAMPLE)
    assert theirs == ours == {("id1", "Angela"), ("id2", "Carol")}


def test_a_move_then_an_update_then_a_delete(spark: Any) -> None:
    moved = [update(1, "id1", "id9", "Alice"), update(2, "id9", "id9", "Angela"), delete(3, "id2")]
    theirs, ours = both(spark, moved)
    assert theirs == ours == {("id9", "Angela")}
    theirs, ours = both(spark, [*moved, delete(4, "id9")])
    assert theirs == ours == set()


def test_a_chain_is_one_row(spark: Any) -> None:
    chain = [update(1, "id1", "id8", "Alice"), update(2, "id8", "id9", "Alice")]
    theirs, ours = both(spark, chain)
    assert ours == {("id9", "Alice"), ("id2", "Bob")}
    assert theirs == {*ours, ("id8", "Alice")}


def test_a_freed_key_used_again_is_another_row(spark: Any) -> None:
    reuse = [update(1, "id1", "id9", "Alice"), insert(2, "id1", "Carol")]
    theirs, ours = both(spark, reuse)
    assert ours == {("id9", "Alice"), ("id1", "Carol"), ("id2", "Bob")}
    assert theirs == ours - {("id9", "Alice")}
