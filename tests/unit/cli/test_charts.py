"""Charts of models in the report: what their rows show, and everything that keeps one away."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dbt_spark_cdc.observe.charts import MOST_MOMENTS, ModelChart, chart_of, moments
from dbt_spark_cdc.observe.report import HEIGHT, write_report
from dbt_spark_cdc.observe.status import Logs
from dbt_spark_cdc.project import open_project
from tests.unit.cli.test_report import Page
from tests.unit.cli.warehouses import Delta, charted, project

OVER_TIME = {"title": "Customers", "x": "at", "y": "customers", "series": "segment"}
AT = [datetime(2026, 1, 1, 0, 0, second) for second in (1, 0, 1)]
SEGMENTS = {"at": AT, "segment": ["b", "a", "a"], "customers": [1, 3, None]}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return project(tmp_path / "p")


def found(folder: Path, name: str = "m") -> ModelChart:
    opened = open_project(folder, folder)
    (node,) = (one for one in opened.charted() if one["name"] == name)
    return chart_of(node, Logs(opened))


def problems(folder: Path, declared: Any, rows: dict[str, Any] | None, **config: Any) -> list[str]:
    charted(folder, "m", declared, None if rows is None else pa.table(rows), **config)
    return found(folder).problems


def test_moments_become_bars_over_time(shop: Path) -> None:
    charted(shop, "m", OVER_TIME, pa.table(SEGMENTS))
    drawn = found(shop)
    assert (drawn.is_time, drawn.series) == (True, ("a", "b"))
    assert drawn.points == [(AT[1], {"a": 3.0}), (AT[0], {"b": 1.0})]

    page = Page(write_report(shop, shop))
    assert page.bars == ["s-c1", "s-c2"]
    assert "2026-01-01 00:00:00 a: 3" in page.html
    assert f'height="{HEIGHT}.0"' in page.html
    assert re.search(r"m Customers 3 .* 2026-01-01 00:00:00 2026-01-01 00:00:01 a b$", page.text)


def test_categories_become_a_bar_for_each_value(shop: Path) -> None:
    rows = {
        "segment": ["small", "large", None, ""],
        "then": pa.array([Decimal("1.00"), Decimal("4.00"), Decimal("0.00"), None]).cast(
            pa.decimal128(14, 2)
        ),
        "now": [2.0, 0.004, 3.0, None],
    }
    charted(shop, "m", {"x": "segment", "y": ["then", "now"]}, pa.table(rows))
    assert [x for x, _ in found(shop).points] == ["large", None, "small", ""]

    page = Page(write_report(shop, shop))
    bars = re.findall(r'<i class="s-(c\d)" style="width: ([\d.]+)%">', page.html)
    assert bars[:4] == [("c1", "100.0"), ("c2", "0.1"), ("c1", "0.0"), ("c2", "75.0")]
    assert "m m then now large 4 0.004 NULL 0 3 small 1 2 (empty) none" in page.text


def test_numbers_stand_in_their_order_and_one_series_needs_no_legend(shop: Path) -> None:
    charted(
        shop, "m", {"title": "t", "x": "hour", "y": "n"}, pa.table({"hour": [2, 1], "n": [1, 9]})
    )
    assert [x for x, _ in found(shop).points] == [1, 2]
    page = Page(write_report(shop, shop))
    assert "m t 1 9 2 1" in page.text
    assert 'class="legend"' not in page.html


def test_a_chart_needs_no_network_and_its_colors_are_defined_in_light_and_dark(shop: Path) -> None:
    names = [f"segment {number}" for number in range(8)]
    rows = {"at": [date(2026, 1, 1)] * 8, "n": [1] * 8, "s": names}
    charted(shop, "m", {"x": "at", "y": "n", "series": "s"}, pa.table(rows))
    page = Page(write_report(shop, shop))
    assert not re.search(r"https?:|src=|<script|<link|@import|url\(", page.html)
    assert page.bars == [f"s-c{place}" for place in range(1, 9)]
    for bar in page.bars:
        assert page.html.count(f"--{bar.removeprefix('s-')}: #") == 2
    # As wide as the page, whatever that is: no width in pixels.
    assert not re.search(r'(<svg|class="(category|value)")[^>]* (width|style)=', page.html)


def test_names_of_users_are_text(shop: Path) -> None:
    rows = {"x": ["<b>"], "y": [1], "s": ["</style><script>"]}
    declared = {"title": "<i>", "x": "x", "y": "y", "series": "s"}
    charted(shop, "m", declared, pa.table(rows))
    page = Page(write_report(shop, shop))
    assert "m <i> </style><script> <b> 1" in page.text
    assert "<script" not in page.html


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("at", ["`cdc_chart` is not a mapping."]),
        ({}, ["`cdc_chart` has no `x`.", "`cdc_chart` has no `y`."]),
        (
            {"x": 1, "y": [], "kind": "pie", "title": ""},
            [
                "`cdc_chart` has an unknown option `kind`. It takes title, x, y, series.",
                "`title` of `cdc_chart` is '', and has to be a text.",
                "`x` of `cdc_chart` is 1, and has to be a text.",
                "`y` of `cdc_chart` is [], and has to be a column or a list of columns.",
            ],
        ),
        (
            {"x": "x", "y": [f"y{n}" for n in range(9)], "series": "s"},
            ["`cdc_chart` has `series` and several columns in `y`.", "has 9 columns, at most 8"],
        ),
    ],
)
def test_a_wrong_declaration_is_reported_whole(shop: Path, declared: Any, said: list[str]) -> None:
    reported = problems(shop, declared, None, materialized="view")
    assert len(reported) == len(said) + 1
    for text, expected in zip(reported, [*said, "it is materialized as view"], strict=True):
        assert expected in text
    page = Page(write_report(shop, shop))
    for text in reported:
        assert text in unescape(page.html)


def test_columns_that_are_not_there_are_reported_together(shop: Path) -> None:
    reported = problems(shop, {"x": "a", "y": ["n", "b"]}, {"N": [1], "c": [2]})
    assert [text.split(",")[0] for text in reported] == [
        "`cdc_chart` names the column `a`",
        "`cdc_chart` names the column `b`",
    ]
    assert all("It has N, c." in text for text in reported)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"x": ["a"], "y": ["1"]}, "its column `y` holds string, and `y` needs numbers"),
        ({"x": ["a"], "y": [-1]}, "values below zero"),
        ({"x": ["a"], "y": [float("nan")]}, "not finite"),
        ({"x": ["a", "a"], "y": [1, None]}, "several rows for the same `x`, for instance a."),
        ({"x": [date(2026, 1, 1), None], "y": [1, 1]}, "NULL in some rows, which is not a time"),
        ({"x": [f"{n}" for n in range(41)], "y": [1] * 41}, "has 41 values, and a chart shows"),
        ({"x": ["a"] * 10_001, "y": [1] * 10_001}, "it has 10,001 rows"),
    ],
)
def test_rows_that_no_chart_shows_are_reported(shop: Path, rows: dict[str, Any], said: str) -> None:
    (reported,) = problems(shop, {"x": "x", "y": "y"}, rows)
    assert said in reported


def test_too_many_moments_and_series_are_reported_together(shop: Path) -> None:
    count = MOST_MOMENTS + 1
    rows = {
        "x": [datetime(2026, 1, 1 + n // 24, n % 24) for n in range(24 * 17)][:count],
        "y": [1] * count,
        "s": [f"{n % 9}" for n in range(count)],
    }
    declared = {"x": "x", "y": "y", "series": "s"}
    assert [text.split(",")[0] for text in problems(shop, declared, rows)] == [
        "its column `s` has 9 values",
        "its column `x` has 401 values",
    ]


def test_rows_that_deletion_vectors_hide_are_not_shown_as_if_they_were_there(shop: Path) -> None:
    assert problems(shop, {"x": "x", "y": "y"}, None)
    rows = pa.table({"x": ["a", "b"], "y": [1, 2]})
    Delta(shop / "warehouse" / "s.db" / "m").commit(0, rows, deletionVector={"cardinality": 1})
    (reported,) = found(shop).problems
    assert "deletion vectors hide 1 of its rows" in reported


def test_a_model_that_is_not_built_or_empty_says_so(shop: Path) -> None:
    assert problems(shop, {"x": "x", "y": "y"}, None) == [
        "The model is not built: run `dbt build -s m`."
    ]
    rows = {"x": pa.array([], pa.string()), "y": pa.array([], pa.int64())}
    charted(shop, "n", {"x": "x", "y": "y"}, pa.table(rows))
    page = Page(write_report(shop, shop))
    assert (
        "m m The model is not built: run `dbt build -s m`. n n The table has nothing to show."
        in (page.text)
    )


def test_a_damaged_table_is_reported(shop: Path) -> None:
    charted(shop, "m", {"x": "x", "y": "y"}, pa.table({"x": ["a"], "y": [1]}))
    (shop / "warehouse" / "s.db" / "m" / "part 0.parquet").unlink()
    (reported,) = found(shop).problems
    assert "part 0.parquet cannot be read" in reported


def test_moments_are_named_as_exactly_as_they_need() -> None:
    day = datetime(2026, 1, 1)
    assert moments([day]) == ["2026-01-01"]
    assert moments([day, day.replace(hour=1)]) == ["2026-01-01 00:00", "2026-01-01 01:00"]
    assert moments([day.replace(second=1)]) == ["2026-01-01 00:00:01"]
    assert moments([day.replace(microsecond=250_000)]) == ["2026-01-01 00:00:00.250"]
