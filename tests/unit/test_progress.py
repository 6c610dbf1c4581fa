"""How far a load is: what is said of it."""

from __future__ import annotations

from typing import Any

from dbt.adapters.sparkcdc.nodes.progress import Load, Stage, described, duration, rows_done


def test_reading_is_one_half() -> None:
    assert rows_done(1000, []) == 0
    assert rows_done(1000, [Stage(500, 4, 2), Stage(0, 2, 0)]) == 250
    assert rows_done(1000, [Stage(1000, 4, 4), Stage(0, 4, 1)]) == 625
    assert rows_done(1000, [Stage(1000, 4, 4), Stage(0, 4, 4)]) == 1000


def test_more_than_all_is_never_read() -> None:
    # The same rows are read twice where they are counted first.
    assert rows_done(1000, [Stage(1000, 4, 4), Stage(900, 4, 3)]) == 500


def test_rows_that_are_read_more_than_once() -> None:
    looked = [Stage(1000, 4, 4), Stage(0, 2, 2)]
    assert rows_done(1000, looked, reads=2, folds=False) == 500
    assert rows_done(1000, [*looked, Stage(600, 4, 2)], reads=2, folds=False) == 800
    assert rows_done(1000, [*looked, Stage(1000, 4, 4)], reads=2, folds=False) == 1000
    assert rows_done(1000, [*looked, Stage(1000, 4, 4), Stage(0, 2, 0)], reads=2) == 750


def test_a_line() -> None:
    assert described("shop.orders", 0, 2_000_000, 3.0) == (
        "cdc: shop.orders: 0 of 2,000,000 raw rows"
    )
    assert described("shop.orders", 500_000, 2_000_000, 10.0) == (
        "cdc: shop.orders: 500,000 of 2,000,000 raw rows, 50,000 a second, about 30 s left"
    )


def test_a_time() -> None:
    assert [duration(s) for s in (0.4, 59.6, 61, 3600 + 125)] == [
        "0 s",
        "1 min 0 s",
        "1 min 1 s",
        "1 h 2 min",
    ]


def test_parts_add_up() -> None:
    lines: list[str] = []
    # A session of Spark Connect says nothing of stages.
    remote: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    load = Load(remote, "shop.orders", lines.append)
    load.begin_part(20, 50)
    load.begin_part(20, 30)
    load.begin_part(10, 10)
    load.end()
    assert [line.split(" raw rows")[0] for line in lines] == [
        "cdc: shop.orders: 20 of 50",
        "cdc: shop.orders: 40 of 50",
    ]
