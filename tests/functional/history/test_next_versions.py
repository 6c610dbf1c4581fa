"""Batches of one event a key are joined with what is known; the fold must give the same rows."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

RENDERED = Path(__file__).parents[2] / "rendered" / "sql" / "batch"

# The event of a key: its operation, and two values.
EVENTS = {
    "insert": ("I", "'b'", "2"),
    "same": ("U", "'a'", "1"),
    "second value": ("U", "'a'", "2"),
    "first value": ("U", "'b'", "1"),
    "both values": ("U", "'b'", "2"),
    "no values": ("U", "null", "null"),
    "delete": ("D", "null", "null"),
    "delete with values": ("D", "'a'", "1"),
    "move": ("M", "null", "null"),
}

Row = dict[str, str]


def changes_of(name: str) -> str:
    """The query of the changes of a rendered batch."""
    text = (RENDERED / f"{name}.sql").read_text()
    found = re.search(r"^-- step changes\n(.*?);\n", text, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def show(spark: Any, name: str, rows: list[Row]) -> None:
    """Makes a view of rows whose columns are expressions."""
    selects = [", ".join(f"{value} as {column}" for column, value in row.items()) for row in rows]
    spark.sql(" union all ".join(f"select {select}" for select in selects)).createOrReplaceTempView(
        name
    )


def rows_of(spark: Any, sql: str) -> list[str]:
    """The rows of a query as texts, whatever the order of rows and columns."""
    frame = spark.sql(sql)
    columns = ", ".join(f"`{name}`" for name in sorted(frame.columns))
    return sorted(row[0] for row in frame.selectExpr(f"to_json(struct({columns}))").collect())


def remembered(items: list[str], image: str, time: bool) -> str:
    """What a row remembers: `U3` is the image of position 3, `D5` a delete."""
    times = "_ts: timestamp, " if time else ""
    structs = [
        f"named_struct('_seq', {item[1:]}L, '_op', '{item[0]}', '_event_id', md5('{item}'), "
        + (f"'_ts', timestamp_seconds({item[1:]}), " if time else "")
        + f"'_unset', array(), '_image', {'null' if item[0] == 'D' else image})"
        for item in items
    ]
    kind = "struct<amount: double>" if time else "struct<price: string, listed_on: int>"
    given = f"array({', '.join(structs)})" if items else "null"
    return (
        f"cast({given} as array<struct<_seq: bigint, "
        f"_op: string, _event_id: string, {times}_unset: array<string>, _image: {kind}>>)"
    )


def test_histories(spark: Any) -> None:
    """With an event time, and a column that is not tracked."""
    states = {
        "absent": None,
        "open": ("'a'", "1", "null", []),
        "open, remembers": ("'a'", "1", "null", ["U1", "U3"]),
        "open, without values": ("null", "null", "null", []),
        "open, remembers itself": ("'a'", "1", "null", ["U1"]),
        "ended": ("'a'", "1", "5", ["U1", "D5"]),
    }
    events, latest = [], []
    for number, (state, event) in enumerate(product(states, EVENTS)):
        op, status, amount = EVENTS[event]
        keys = {"order_id": f"{number}L", "line": "1L"}
        status, amount = f"cast({status} as string)", f"cast({amount} as double)"
        events.append(
            keys
            | {
                "_values": f"named_struct('status', {status}, 'amount', {amount})",
                "_op": f"'{op}'",
                "_seq": "9L",
                "_ts": "timestamp_seconds(9)",
                "_event_id": f"md5('{number}')",
                "_unset": "cast(array() as array<string>)",
            }
        )
        if known := states[state]:
            latest.append(
                keys
                | {
                    "status": f"cast({known[0]} as string)",
                    "amount": f"cast({known[1]} as double)",
                    "_seq": "1L",
                    "_seq_end": f"cast({known[2]} as bigint)",
                    "_cdc_created_at": "timestamp_seconds(0)",
                    "_cdc_seq": "3L",
                    "_events": remembered(known[3], "named_struct('amount', 7D)", time=True),
                    "dbt_scd_id": f"md5('version {number}')",
                    "dbt_updated_at": "timestamp_seconds(3)",
                    "dbt_valid_from": "timestamp_seconds(1)",
                    "dbt_valid_to": f"timestamp_seconds({known[2]})",
                    "_event_id": "md5('U1')",
                    "_cdc_is_latest": "true",
                    "_is_in_order": "true",
                }
            )
    show(spark, "step_events", events)
    show(spark, "step_latest", latest)
    joined = rows_of(spark, changes_of("batch_of_single_events"))
    assert joined == rows_of(spark, changes_of("batch_in_order"))
    # Every key has a change, if only of what its version remembers; some have a next version.
    assert len(joined) > len(events)


def test_tables_without_a_history(spark: Any) -> None:
    """Without an event time, and with values that rows keep of each event."""
    states = {
        "absent": None,
        "living": (True, []),
        "living, remembers": (True, ["D1", "U2", "U3"]),
        "gone": (False, ["D3"]),
    }
    image = "named_struct('price', 'c', 'listed_on', 3)"
    events, lives = [], []
    for number, (state, event) in enumerate(product(states, EVENTS)):
        op, price, day = EVENTS[event]
        price, day = f"cast({price} as string)", f"cast({day} as int)"
        events.append(
            {
                "sku": f"'{number}'",
                "_values": f"named_struct('price', {price}, 'listed_on', {day})",
                "_op": f"'{op}'",
                "_seq": "9L",
                "_event_id": f"md5('{number}')",
                "_unset": "cast(array() as array<string>)",
            }
        )
        if known := states[state]:
            is_living, items = known
            lives.append(
                {
                    "sku": f"'{number}'",
                    "price": "'a'" if is_living else "cast(null as string)",
                    "listed_on": "1" if is_living else "cast(null as int)",
                    "_cdc_created_at": "2L" if is_living else "cast(null as bigint)",
                    "_cdc_updated_at": "3L",
                    "_cdc_seq": "3L",
                    "_cdc_deleted_at": "cast(null as bigint)" if is_living else "3L",
                    "_events": remembered(items, image, time=False),
                    "_event_id": "md5('U2')" if is_living else "cast(null as string)",
                    "_is_truncate": "false",
                    "_is_in_order": "true",
                }
            )
    show(spark, "step_events", events)
    show(spark, "step_known", lives)
    joined = rows_of(spark, changes_of("batch_without_history_of_single_events"))
    assert joined == rows_of(spark, changes_of("batch_without_history"))
    assert len(joined) == len(events)
