"""What a model's rows show: the charts that `meta: {cdc_chart: ..}` asks the report for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from dbt_spark_cdc.observe.delta_table import DeltaTable, UnreadableLog
from dbt_spark_cdc.observe.status import Logs
from dbt_spark_cdc.project import CHART, Node, meta_of

OPTIONS = ("title", "x", "y", "series")
EXAMPLE = f"Write for instance `{CHART}: {{x: <column>, y: <column>}}`."

# What a page can show.
MOST_ROWS = 10_000
MOST_MOMENTS = 400
MOST_CATEGORIES = 40
MOST_SERIES = 8


@dataclass(frozen=True)
class Declared:
    """What a model says of its chart.

    Attributes:
        title: What it shows.
        x: The column of moments or categories.
        y: The columns of values; one of them where there is a series.
        series: The column that divides the rows of each x; empty without one.
    """

    title: str
    x: str
    y: tuple[str, ...]
    series: str = ""

    @property
    def columns(self) -> list[str]:
        """The columns that the chart reads."""
        return [self.x, *self.y, *([self.series] if self.series else [])]


@dataclass
class ModelChart:
    """The chart of a model.

    Attributes:
        node: The model.
        title: What the chart shows.
        series: What it compares, at most MOST_SERIES.
        divided: Whether a column of the model divides the rows, so that even one series needs
            its name.
        points: The values by series, for each x in the order of the chart.
        is_time: Whether x are moments; otherwise they are categories.
        problems: Why it cannot be drawn.
    """

    node: Node
    title: str
    series: tuple[str, ...] = ()
    divided: bool = False
    points: list[tuple[Any, dict[str, float]]] = field(default_factory=list)
    is_time: bool = False
    problems: list[str] = field(default_factory=list)


def chart_of(node: Node, logs: Logs) -> ModelChart:
    """Returns the chart of a model, with everything that is wrong with it.

    Args:
        node: The model.
        logs: The Delta tables of its project.
    """
    declared, problems = read_declaration(node)
    found = ModelChart(node, declared.title, problems=problems)
    if node["config"].get("materialized") in ("view", "ephemeral"):
        problems.append(
            f"it is materialized as {node['config']['materialized']}, and the report reads the "
            "rows of Delta tables. Use `materialized: table`."
        )
    if problems:
        return found
    stored = logs.of(node)
    if stored.table is None:
        problems.append(
            stored.problem or f"The model is not built: run `dbt build -s {node['name']}`."
        )
        return found
    problems += _unfit(declared, stored.table)
    if problems:
        return found
    try:
        rows = stored.table.read(declared.columns)
    except UnreadableLog as exc:
        problems.append(str(exc))
        return found
    _fill(found, declared, rows)
    return found


def read_declaration(node: Node) -> tuple[Declared, list[str]]:
    """Returns what a model says of its chart, and what is wrong with that.

    Args:
        node: The model.
    """
    given = meta_of(node)[CHART]
    if not isinstance(given, Mapping):
        return Declared(node["name"], "", ()), [f"`{CHART}` is not a mapping. {EXAMPLE}"]
    problems = [
        f"`{CHART}` has an unknown option `{name}`. It takes {', '.join(OPTIONS)}."
        for name in given
        if name not in OPTIONS
    ]
    for name in ("title", "x", "series"):
        if name in given and not (isinstance(given[name], str) and given[name]):
            problems.append(f"`{name}` of `{CHART}` is {given[name]!r}, and has to be a text.")
    y = given.get("y")
    values = tuple(y) if isinstance(y, list) else (y,)
    if "y" in given and not (values and all(isinstance(one, str) and one for one in values)):
        problems.append(f"`y` of `{CHART}` is {y!r}, and has to be a column or a list of columns.")
    problems += [
        f"`{CHART}` has no `{name}`. {EXAMPLE}" for name in ("x", "y") if name not in given
    ]
    if "series" in given and len(values) > 1:
        problems.append(f"`{CHART}` has `series` and several columns in `y`. Take one of both.")
    if len(values) > MOST_SERIES:
        problems.append(f"`y` of `{CHART}` has {len(values)} columns, at most {MOST_SERIES} fit.")
    if problems:
        return Declared(str(given.get("title") or node["name"]), "", ()), problems
    title = given.get("title") or node["name"]
    return Declared(title, given["x"], values, given.get("series", "")), []


def _unfit(declared: Declared, table: DeltaTable) -> list[str]:
    """What a table lacks for its chart."""
    names = [column["name"] for column in table.schema]
    known = {name.lower() for name in names}
    problems = [
        f"`{CHART}` names the column `{column}`, which the table does not have. "
        f"It has {', '.join(names)}."
        for column in declared.columns
        if column.lower() not in known
    ]
    if table.deleted_rows:
        problems.append(
            f"deletion vectors hide {table.deleted_rows:,} of its rows, and the report cannot tell "
            "which. Use `materialized: table`, or purge them with `reorg table .. apply (purge)`."
        )
    if (table.rows or 0) > MOST_ROWS:
        problems.append(
            f"it has {table.rows:,} rows, and a chart reads at most {MOST_ROWS:,}. Aggregate them "
            "in a model for the chart."
        )
    return problems


def _fill(found: ModelChart, declared: Declared, rows: pa.Table) -> None:
    """Puts the rows into the chart, or what is wrong with them."""
    problems = found.problems
    problems += [
        f"its column `{column}` holds {rows[column].type}, and `y` needs numbers. Cast it."
        for column in declared.y
        if not _is_number(rows[column].type)
    ]
    if problems:
        return
    found.is_time = types.is_timestamp(rows[declared.x].type) or types.is_date(
        rows[declared.x].type
    )
    found.divided = bool(declared.series)
    points: dict[Any, dict[str, float]] = {}
    series: dict[str, None] = {}
    seen = set()
    twice = set()
    for x, name, value in _values(declared, rows, found.is_time):
        series.setdefault(name)
        if (x, name) in seen:
            twice.add(f"{x}, {name}" if declared.series else f"{x}")
        seen.add((x, name))
        points.setdefault(x, {})
        if value is not None:
            points[x][name] = value
    present = [value for one in points.values() for value in one.values()]
    if found.is_time and None in points:
        problems.append(
            f"its column `{declared.x}` is NULL in some rows, which is not a time. Leave these "
            "rows out of the model."
        )
    if any(value < 0 or not math.isfinite(value) for value in present):
        problems.append(
            f"`{', '.join(declared.y)}` has values below zero or values that are not finite, which "
            "bars cannot show. Leave them out of the model."
        )
    if twice:
        keys = f"`{declared.x}`" + (f" and `{declared.series}`" if declared.series else "")
        problems.append(
            f"it has several rows for the same {keys}, for instance {min(twice)}. Aggregate them, "
            "a chart shows one value."
        )
    if len(series) > MOST_SERIES:
        problems.append(
            f"its column `{declared.series}` has {len(series)} values, and a chart can tell "
            f"{MOST_SERIES} apart. Put the small ones together."
        )
    most = MOST_MOMENTS if found.is_time else MOST_CATEGORIES
    if len(points) > most:
        problems.append(
            f"its column `{declared.x}` has {len(points):,} values, and a chart shows at most "
            f"{most}. Aggregate them, or keep the latest or the largest."
        )
    if not problems:
        found.series = tuple(sorted(series) if declared.series else series)
        found.points = sorted(points.items(), key=_place(found.is_time))


def _values(
    declared: Declared, rows: pa.Table, is_time: bool
) -> Iterator[tuple[Any, str, float | None]]:
    """Each value, with its x and its series."""
    places = rows[declared.x]
    if is_time:
        places = places.cast(pa.timestamp("us"), safe=False)
    divided = rows[declared.series].to_pylist() if declared.series else None
    for column in declared.y:
        values = rows[column].to_pylist()
        for row, (x, value) in enumerate(zip(places.to_pylist(), values, strict=True)):
            name = column if divided is None else _text(divided[row])
            yield x, name, None if value is None else float(value)


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _place(is_time: bool) -> Any:
    """Moments and numbers stand in their own order, other categories behind larger ones."""

    def key(point: tuple[Any, dict[str, float]]) -> tuple[Any, ...]:
        x, values = point
        if is_time:
            return (x,)
        if isinstance(x, (int, float, Decimal)) and not isinstance(x, bool):
            return (0, x)
        return (1, -max(values.values(), default=0), _text(x))

    return key


def _text(value: Any) -> str:
    return "NULL" if value is None else str(value)


def category(value: Any) -> str:
    """Returns a category as the chart names it.

    Args:
        value: The value of its column.
    """
    return _text(value) or "(empty)"


def moments(times: Sequence[datetime]) -> list[str]:
    """Returns moments in words, as exactly as all of them need.

    Args:
        times: The moments.
    """
    if all(at.time() == time() for at in times):
        return [f"{date(at.year, at.month, at.day)}" for at in times]
    if all(not at.microsecond for at in times):
        form = "minutes" if all(not at.second for at in times) else "seconds"
    else:
        form = "milliseconds"
    return [at.isoformat(" ", form) for at in times]
