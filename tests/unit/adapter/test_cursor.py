from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.cursor import Cursor, literal
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (2**63 - 1, "9223372036854775807"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.10"), "-0.10"),
        ("O'Brien \\ n", "'O\\'Brien \\\\ n'"),
        (dt.date(2020, 2, 29), "date'2020-02-29'"),
        (dt.datetime(2020, 1, 1, 1, 2, 3, 4), "timestamp'2020-01-01 01:02:03.000004'"),
    ],
)
def test_literals(value: Any, text: str) -> None:
    assert literal(value) == text


def test_a_value_without_a_literal_is_refused() -> None:
    with pytest.raises(TypeError, match="No Spark literal"):
        literal(object())


def test_bound_values_come_back_equal(spark: Any) -> None:
    @settings(max_examples=8, deadline=None, database=None)
    @given(
        st.lists(
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(-(2**63) + 1, 2**63 - 1),
                st.text(st.characters(exclude_categories=["Cs"])),
                st.dates(dt.date(1600, 1, 1)),
                st.datetimes(dt.datetime(1900, 1, 1)),
                st.floats(allow_nan=False),
            ),
            min_size=1,
            max_size=8,
        )
    )
    def check(values: list[Any]) -> None:
        cursor = Cursor(spark)
        cursor.execute("select " + ", ".join(["%s"] * len(values)), values)
        assert cursor.fetchall() == [tuple(values)]

    check()


def test_a_command_runs_once_and_a_query_when_asked(spark: Any) -> None:
    cursor = Cursor(spark)
    cursor.execute("create temporary view once as select 1 as id")  # a second run would fail
    cursor.run()
    assert cursor.fetchall() == []
    cursor.execute("select assert_true(false, 'seen') from once")
    with pytest.raises(Exception, match="seen"):
        cursor.run()


def test_nested_values_are_plain(spark: Any) -> None:
    cursor = Cursor(spark)
    cursor.execute("""
        select named_struct('a', array(1bd)), map('k', X'0aff'), parse_json('{"a": 1}'),
          timestamp'2020-01-01 00:00:00Z', cast(null as timestamp)
    """)
    assert cursor.fetchone() == (
        {"a": [Decimal(1)]}, {"k": "0aff"}, '{"a":1}', dt.datetime(2020, 1, 1), None,
    )  # fmt: skip
