"""A value that does not fit its declared type is quarantined: it is never cut or rounded to fit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from tests.functional.formats.decoding import Decoding, reasons

# Declared type, then raw expressions that it takes with their values, then those that it does not.
TYPED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "whole": (
        "int",
        {"2D": 2, "2.00BD": 2, "7L": 7, "'12'": 12, "cast(3 as float)": 3},
        ["1.7D", "1.70BD", "5000000000L", "'1.5'", "1e300D", "timestamp'1970-01-01 00:00:01'"],
    ),
    "day": (
        "date",
        {
            "timestamp'2024-01-01 00:00:00'": dt.date(2024, 1, 1),
            "'2024-01-02'": dt.date(2024, 1, 2),
            "date'2024-01-03'": dt.date(2024, 1, 3),
        },
        ["timestamp'2024-01-01 12:30:00'", "'2024-01-01 12:30:00'", "'2024'", "'now'"],
    ),
    "small": ("float", {"1.5D": 1.5, "'1.5'": 1.5, "2": 2.0}, ["1e300D", "'1e300'", "'x'"]),
    "large": ("double", {"1.5BD": 1.5, "'1.5'": 1.5, "2": 2.0, "1e300D": 1e300}, ["'1e400'"]),
    "yes": ("boolean", {"true": True, "'true'": True, "0": False}, ["5", "2.0D", "'maybe'"]),
    "money": (
        "decimal(38,10)",
        {"1.5D": Decimal("1.5"), "3": Decimal(3), "'0.0000000001'": Decimal("1e-10")},
        ["1.00000000005D", "1.00000000005BD", "1.23456789E-5D", "'1e-11'"],
    ),
    "exact": (
        "decimal(12,2)",
        {"1.50BD": Decimal("1.50"), "2.50D": Decimal("2.5"), "cast('0E-10' as string)": 0},
        ["1.505BD", "'12345678901.00'", "'0.00000000000000000000000000000000000000001'"],
    ),
    "moment": (
        "timestamp",
        {"date'2024-01-01'": dt.datetime(2024, 1, 1), "'2024-01-02'": dt.datetime(2024, 1, 2)},
        ["'2024'", "'2024-01-01 00:00:00.1234567'", "'2024-1-1 1:2:3.1234567'"],
    ),
    "local": (
        "timestamp_ntz",
        {
            "'2024-07-01 10:00:00.5'": dt.datetime(2024, 7, 1, 10, 0, 0, 500000),
            "'2024-07-01T10:00:00Z'": dt.datetime(2024, 7, 1, 10),
            "'2024-07-01 10:00:00+00'": dt.datetime(2024, 7, 1, 10),
        },
        # An instant: which time it is on a clock, the text does not say.
        ["'2024-07-01 10:00:00+02'", "'2024-07-01T10:00-05:30'", "'2024-07-01 10:00:00 CET'"],
    ),
    "whole_list": (
        "array<int>",
        {"array(1D, null)": [1, None], "array(1L)": [1], "array('2')": [2]},
        ["array(1.7D)", "array(5000000000L)", "array(1D, 1.7D)"],
    ),
    "exact_list": (
        "array<decimal(38,10)>",
        {"array(1.5D)": [Decimal("1.5")]},
        ["array(1.00000000005BD)"],
    ),
    "point": (
        "struct<x:int>",
        {"named_struct('x', 1L)": (1,), "named_struct('X', cast(null as bigint))": (None,)},
        ["named_struct('x', 'abc')", "named_struct('x', 1.5D)"],
    ),
}
# The same for JSON.
MESSAGES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "money": ("decimal(38,10)", {"1.5": Decimal("1.5")}, ["1.00000000005", '"1.00000000005"']),
    "list": (
        "array<decimal(38,10)>",
        {"[1.5,null]": [Decimal("1.5"), None], "[]": []},
        ["[1.00000000005]", "[1,[2]]", '{"a":1}', "5"],
    ),
    "texts": (
        "array<string>",
        {'["a",null]': ["a", None], "[0.1234567890123456789012]": ["0.1234567890123456789012"]},
        ["5"],
    ),
    "point": (
        "struct<x:int>",
        {'{"x":1}': (1,), '{"x":null,"y":2}': (None,), "{}": (None,), '{"X":3}': (3,)},
        ['{"x":"abc"}', '{"x":5000000000}', '{"y":1}', "[1]", '{"x":1.5}', '"x"'],
    ),
    "deep": (
        "struct<a:array<struct<d:date>>,s:string>",
        {'{"a":[{"d":"2024-01-01"}],"s":{"k":1}}': ([(dt.date(2024, 1, 1),)], '{"k":1}')},
        ['{"a":[{"d":"2024-01-01 10:00:00"}]}', '{"a":[{"d":"2024-01-01"},{"d":5}]}'],
    ),
    "local": (
        "timestamp_ntz",
        {'"2024-07-01T10:00:00Z"': dt.datetime(2024, 7, 1, 10)},
        ['"2024-07-01 10:00:00+02"'],
    ),
    "grid": ("array<array<int>>", {"[[1],[]]": [[1], []]}, ["[[1.5]]", "[[1],2]"]),
}


class TestExactValues(Decoding):
    # One raw table for each raw type would be dozens: a source's own columns hold the expressions.
    sources: ClassVar[dict[str, Any]] = {
        "typed": {
            "format": "flagged",
            "keys": ["id"],
            "sequence_by": "id",
            "apply_as_deletes": "false",
            "columns": {
                "id": "int",
                **{
                    f"{name}_{number}": kind
                    for name, (kind, good, bad) in TYPED.items()
                    for number in range(len(good) + len(bad))
                },
            },
        },
        **{
            f"json_{name}": {
                "format": "maxwell",
                "raw": "json",
                "keys": ["id"],
                "source_table": name,
                "columns": {"id": "int", "v": kind},
            }
            for name, (kind, _, _) in MESSAGES.items()
        },
    }
    raw: ClassVar[dict[str, Any]] = {
        "typed": "select 1 as id, "
        + ", ".join(
            f"{expression} as {name}_{number}"
            for name, (_, good, bad) in TYPED.items()
            for number, expression in enumerate([*good, *bad])
        )
        + " union all select 2 as id"
        + "".join(
            ", null" if number >= len(good) else f", {expression}"
            for good, bad in ((g, b) for _, g, b in TYPED.values())
            for number, expression in enumerate([*good, *bad])
        ),
        "json": [
            f'{{"database":"d","table":"{name}","type":"insert","ts":1,"xid":{number},"commit":true,'
            f'"position":"b.1:{number}","data":{{"id":{number},"v":{text}}}}}'
            for name, (_, good, bad) in MESSAGES.items()
            for number, text in enumerate([*good, *bad])
        ],
    }

    def test_typed(self, built: Any) -> None:
        (row,) = built("stg_typed")
        for name, (kind, good, _) in TYPED.items():
            for number, (expression, value) in enumerate(good.items()):
                assert row[f"{name}_{number}"] == value, f"{expression} as {kind}"
        (bad,) = reasons(built("typed_quarantine"))
        said = [part.partition(":")[0] for part in bad.split("; ")]
        assert sorted(said) == sorted(
            f"column {name}_{number}"
            for name, (_, good, misfits) in TYPED.items()
            for number in range(len(good), len(good) + len(misfits))
        )

    @pytest.mark.parametrize("name", MESSAGES)
    def test_messages(self, built: Any, name: str) -> None:
        kind, good, bad = MESSAGES[name]
        rows = {row["id"]: row["v"] for row in built(f"stg_json_{name}")}
        assert rows == dict(enumerate(good.values()))
        found = reasons(built(f"json_{name}_quarantine"))
        assert len(found) == len(bad)
        assert all(f"is not a {kind}" in reason for reason in found)
