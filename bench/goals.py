"""What a batch may cost, and what the numbers of a run say about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SINGLE = "W3 1 table of 2,000 rows"
MANY = "W3 65 tables"
IDLE = "W8 65 tables, nothing new"
LOAD = "W7 first load, 5,000,000 rows"
GIB = 1024  # MiB
RATE = "a second"
LATENCY = "W13 1,000 a second"
Seconds = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Goal:
    """A number that a run must not exceed, or that it must reach.

    Attributes:
        what: What is measured, in the words of the page.
        row: Row of the results; empty for what concerns the whole run.
        most: The number; the least one of a rate.
        ours: Our column.
        peer: The peer's column, for a ratio of seconds; empty for a number that stands alone.
        base: Row of our own seconds, for a ratio to them.
        floor: What runs the bare statements of the same work; empty where nothing does.
        unit: What is counted: the ratio, `s`, `statements`, `files`, `GiB` or `a second`, a rate.
    """

    what: str
    row: str
    most: float
    ours: str = "cdc"
    peer: str = ""
    base: str = ""
    floor: str = ""
    unit: str = "ratio"

    def measured(self, seconds: Seconds, metadata: Mapping[str, Any]) -> float | None:
        """Returns the number of a run, None where the run did not measure it.

        Args:
            seconds: Median seconds by workload and system.
            metadata: What else is in the file of results.
        """
        row = seconds.get(self.row, {})
        if self.unit == "GiB":
            peaks = metadata.get("peak_java_mib", {}).values()
            return max(peaks) / GIB if peaks else None
        if self.unit == "statements":
            details = metadata["details"].get(self.row, {}).get(self.ours, {})
            counts = details.get("statements") or {}
            return float(sum(counts.values())) if counts else None
        if self.unit == "files":
            details = metadata["details"].get(self.row, {}).get(self.ours, {})
            return details.get("files_rewritten_without_the_person")
        if self.unit == RATE:
            details = metadata["details"].get(self.row, {}).get(self.ours, {})
            return details.get("changes_a_second")
        if self.unit == "s":
            return row.get(self.ours)
        other = seconds.get(self.base, {}).get(self.ours) if self.base else row.get(self.peer)
        if self.ours in row and other:
            return row[self.ours] / other
        return None

    def of_floor(self, seconds: Seconds) -> float | None:
        """Returns the same ratio of the bare statements, None where the run did not measure it.

        Args:
            seconds: Median seconds by workload and system.
        """
        row = seconds.get(self.row, {})
        peer = row.get(self.peer)
        return row[self.floor] / peer if self.floor in row and peer else None

    def is_met(self, measured: float) -> bool:
        """Returns whether a run meets it.

        Args:
            measured: The number of the run.
        """
        return measured >= self.most if self.unit == RATE else measured <= self.most


GOALS = (
    Goal("statements of one table with history and final table", SINGLE, 15, unit="statements"),
    Goal("W1, 5 M rows", "W1 5,000,000 rows", 0.5, peer="dbt_recipe", floor="spark_replace"),
    Goal("W2, 5 M rows", "W2 5,000,000 rows", 0.5, peer="dbt_recipe", floor="spark_replace"),
    Goal("W1, 20 M rows", "W1 20,000,000 rows", 0.3, peer="dbt_recipe", floor="spark_replace"),
    Goal("W2, 20 M rows", "W2 20,000,000 rows", 0.15, peer="dbt_recipe", floor="spark_replace"),
    Goal("W2, 20 M rows", "W2 20,000,000 rows", 1.0, peer="delta_rs", floor="spark_replace"),
    Goal(
        "table of 2,000 rows, 200 changes, history and final",
        SINGLE,
        0.5,
        peer="dbt_recipe",
        floor="spark_floor",
    ),
    Goal(
        "65 tables, ten changes each, history and final",
        MANY,
        0.5,
        peer="dbt_recipe",
        floor="spark_floor",
    ),
    Goal("65 tables, nothing new, whole build", IDLE, 8.0, unit="s"),
    Goal(
        "consumer of 1,000 changes, 20 M rows to 1 M",
        "W9 20,000,000 rows",
        1.3,
        base="W9 1,000,000 rows",
    ),
    *(
        Goal(
            f"{what}, batch {number}, Iceberg to Delta, merge-on-read",
            f"W10 {kind}, batch {number}",
            1.5,
            ours="iceberg_mor",
            peer="delta_mor",
        )
        for what, kind in (("W1", "anywhere"), ("W2", "newest"))
        for number in (1, 10, 100)
    ),
    Goal(
        "files rewritten that do not hold the erased person",
        "W11 5,000,000 rows",
        0,
        ours="cdc_history",
        unit="files",
    ),
    Goal("first load, 5 M rows", LOAD, 2.0, peer="spark_write", floor="spark_load"),
    Goal(
        "first load, 5 M rows, history and final",
        LOAD,
        3.3,
        ours="cdc_history",
        peer="spark_write",
        floor="spark_load_history",
    ),
    Goal("first load, 20 M rows to 5 M", "W7 first load, 20,000,000 rows", 4.0, base=LOAD),
    Goal("p95 from commit to final table, 1,000 changes a second", LATENCY, 5.0, unit="s"),
    Goal("the same with histories", LATENCY, 5.0, ours="cdc_history", unit="s"),
    Goal("the same, final tables alone", LATENCY, 1.0, peer="foreach_batch"),
    Goal("the same with histories", LATENCY, 1.0, ours="cdc_history", peer="foreach_batch"),
    Goal("changes captured", "W14 capture", 20_000, unit=RATE),
    Goal("changes landed", "W14 landing", 20_000, unit=RATE),
    Goal("changes captured and landed at once", "W14 capture and landing", 20_000, unit=RATE),
    Goal("peak memory of Java", "", 6.0, unit="GiB"),
)


def table_of(seconds: Seconds, metadata: Mapping[str, Any]) -> Iterable[str]:
    """Returns the lines of a table: goal, measured, that of the floor, met or missed.

    Args:
        seconds: Median seconds by workload and system.
        metadata: What else is in the file of results.
    """
    yield "| | to | goal | measured | floor | |"
    yield "|---|---|---|---|---|---|"
    chosen = metadata.get("sizes", {}).get("workloads") or ()
    for goal in GOALS:
        # What a scale leaves out is no goal of it.
        if chosen and goal.row and goal.row.split()[0] not in chosen:
            continue
        measured = goal.measured(seconds, metadata)
        shown = "" if measured is None else _number(measured, goal)
        # A wrong table meets no goal.
        details = metadata["details"].get(goal.row, {}).get(goal.ours, {})
        if measured is None:
            verdict = next(
                (word for word in ("failed", "skipped") if word in details), "not measured"
            )
        elif details.get("correct") is False:
            verdict = "missed: the table is wrong"
        else:
            verdict = "met" if goal.is_met(measured) else "missed"
        most = _number(goal.most, goal)
        floor = goal.of_floor(seconds)
        bare = "" if floor is None else _number(floor, goal)
        yield f"| {goal.what} | {goal.peer} | {most} | {shown} | {bare} | {verdict} |"


def _number(value: float, goal: Goal) -> str:
    if goal.unit in ("statements", "files"):
        return f"{value:.0f}"
    if goal.unit == RATE:
        return f"{value:,.0f} {RATE}"
    return f"{value:.2f}" if goal.unit == "ratio" else f"{value:.1f} {goal.unit}"
