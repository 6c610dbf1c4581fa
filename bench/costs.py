"""What the results of the bench say about the cost of a table, a change and a row."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

SHARED = "the cores of the cluster share it"


class Unusable(Exception):
    """Results from which costs cannot be read: all that is wrong, a line each."""


@dataclass(frozen=True)
class Run:
    """A file of results.

    Attributes:
        name: Of the file.
        metadata: What the run was.
        seconds: Median seconds by workload and system.
    """

    name: str
    metadata: Mapping[str, Any]
    seconds: Mapping[str, Mapping[str, float]]

    @property
    def cores(self) -> int:
        return int(self.metadata["cores"])

    def points(self, pattern: str, system: str, older_name: str = "") -> list[Point]:
        """Returns the good rows of a workload, the smallest first.

        Args:
            pattern: Of the row's name, with a group for its number.
            system: Column of the results.
            older_name: Its name in older results, which did not say the size of the table.
        """
        found = []
        for row in self.seconds:
            if match := re.fullmatch(pattern.replace("#", r"([\d,]+)"), row):
                found.append((float(match[1].replace(",", "")), row))
        if not found and older_name in self.seconds:
            found = [(float(self.metadata["sizes"]["sizes"][-1]), older_name)]
        details = self.metadata.get("details", {})
        return sorted(
            Point(number, self.seconds[row][system], row)
            for number, row in found
            if system in self.seconds[row]
            and details.get(row, {}).get(system, {}).get("correct") is not False
        )


class Point(NamedTuple):
    """What a row says: its size, its seconds and its name."""

    size: float
    seconds: float
    row: str


class Measured(NamedTuple):
    """A number, the rows that it comes from, and the largest size in them."""

    value: float
    rows: tuple[str, ...]
    reach: float


class Kind(NamedTuple):
    """A kind of cost.

    Attributes:
        what: What is paid for.
        unit: `s`, or `core s`: seconds by the number of cores, all of which count as busy.
        law: How it is carried to other sizes.
        reach: Unit of the largest size at which it was measured.
        needs: Workloads that it is read from.
    """

    what: str
    unit: str
    law: str
    reach: str
    needs: str


@dataclass(frozen=True)
class Cost:
    """A kind of cost as a run measured it."""

    kind: Kind
    value: float
    rows: tuple[str, ...]
    reach: float
    run: Run


@dataclass(frozen=True)
class Costs:
    """All costs of tables with a history, or of tables without one.

    Attributes:
        of: Costs by name, in the order of `KINDS`.
        decode: Costs of decoding an event, by format.
    """

    of: Mapping[str, Cost]
    decode: Mapping[str, Cost]

    def __getitem__(self, name: str) -> float:
        return self.of[name].value

    def runs(self) -> list[Run]:
        """The files that the costs come from."""
        used = {cost.run.name: cost.run for cost in [*self.of.values(), *self.decode.values()]}
        return [*used.values()]


KINDS = {
    "idle": Kind(
        "a table of a build, with nothing new",
        "s",
        "linear in the tables of a dbt process; Python runs on one core",
        "tables",
        "W8",
    ),
    "plan": Kind(
        "a small batch of a table, beyond that",
        "core s",
        "linear in the tables with changes; the cores of the driver share it",
        "tables",
        "W3 of several tables and W8",
    ),
    "batch": Kind(
        "the quickest measured batch of one table, alone",
        "s",
        "no measured batch of one Delta table was quicker; more cores do not shorten it",
        "changes",
        "W1, W2 or W3 of one table",
    ),
    "change": Kind(
        "a further change of a batch", "core s", f"linear in the changes; {SHARED}", "changes",
        "W1 and W5",
    ),
    "row": Kind(
        "a further row in the files that a batch touches",
        "core s",
        f"linear in the rows of these files; {SHARED}",
        "rows",
        "W1 or W4 of tables of two sizes",
    ),
    "load": Kind(
        "a row of a first load", "core s", f"linear in the rows; {SHARED}", "rows", "W7"
    ),
}  # fmt: skip
DECODE = Kind("decoding an event", "core s", f"linear in the changes; {SHARED}", "events", "D")
# Of these the least of all runs counts; of all other costs the newest.
LEAST = frozenset(["batch"])


def read_runs(files: Iterable[Path]) -> list[Run]:
    """Returns some files of results, the newest first.

    Args:
        files: The files.

    Raises:
        Unusable: One is not there or holds no results.
    """
    runs, problems = [], []
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            metadata = content.pop("metadata")
            if not {"cores", "date", "sizes"} <= metadata.keys():
                raise KeyError("metadata")
            runs.append(Run(file.name, metadata, content))
        except OSError as exc:
            problems.append(f"{file}: {exc.strerror}. `make bench` writes such a file.")
        except (ValueError, KeyError, AttributeError, TypeError):
            problems.append(f"{file}: holds no results of `make bench`.")
    if not runs and not problems:
        problems.append("There are no results. Run `make bench`, or pass --results FILE.")
    if problems:
        raise Unusable("\n".join(problems))
    return sorted(runs, key=lambda run: (run.metadata["date"], run.name), reverse=True)


def read_costs(runs: Sequence[Run], history: bool) -> Costs:
    """Returns each cost from the newest run that has the rows for it; of `LEAST` the least one.

    Args:
        runs: Results, the newest first.
        history: Whether the tables keep a history.

    Raises:
        Unusable: No run has the rows for some cost.
    """
    system = "cdc_history" if history else "cdc"
    found: dict[str, Cost] = {}
    decode: dict[str, Cost] = {}
    for run in runs:
        for name, kind in KINDS.items():
            if name in found and name not in LEAST:
                continue
            measured = _READERS[name](run, system)
            if measured and (name not in found or measured.value < found[name].value):
                found[name] = Cost(kind, *measured, run)
        for form, measured in _decode(run):
            decode.setdefault(form, Cost(DECODE, *measured, run))
    missing = [(name, kind) for name, kind in KINDS.items() if name not in found]
    if not decode:
        missing.append(("decode", DECODE))
    if missing:
        names = ", ".join(run.name for run in runs)
        raise Unusable(
            "\n".join(
                f"{names}: no rows of {kind.needs} for {kind.what} ({name}, {system})."
                f" Run `make bench`, or pass --results FILE of a run that has them."
                for name, kind in missing
            )
        )
    return Costs({name: found[name] for name in KINDS}, dict(sorted(decode.items())))


def _idle(run: Run, system: str) -> Measured | None:
    # W3 and W8 are measured with histories only, whose column is `cdc`.
    if not (points := run.points("W8 # tables, nothing new", "cdc")):
        return None
    tables, seconds, row = points[-1]
    return Measured(seconds / tables, (row,), tables)


def _plan(run: Run, system: str) -> Measured | None:
    points, idle = run.points("W3 # tables", "cdc"), _idle(run, system)
    if not points or idle is None:
        return None
    tables, seconds, row = points[-1]
    value = max(0.0, seconds / tables - idle.value) * run.cores
    return Measured(value, (row, *idle.rows), tables)


def _batches(run: Run, system: str) -> list[Point]:
    """Batches of W5's table, which is the largest one of W1."""
    tables = run.points("W1 # rows", system, "W1")
    bulk = run.points("W5 # changes", system)
    if not tables or not bulk:
        return []
    return [tables[-1]._replace(size=float(run.metadata["sizes"]["changes"])), *bulk]


def _batch(run: Run, system: str) -> Measured | None:
    changes = float(run.metadata["sizes"]["changes"])
    points = [
        point._replace(size=changes)
        for name in ("W1", "W2")
        for point in run.points(f"{name} # rows", system, name)
    ]
    if system == "cdc_history":
        # The column `cdc` of W3 has histories; a tenth of the table's rows change.
        single = run.points("W3 1 table of # rows", "cdc")
        points += [point._replace(size=max(1.0, point.size // 10)) for point in single]
    quickest = min(points, key=lambda point: point.seconds, default=None)
    return Measured(quickest.seconds, (quickest.row,), quickest.size) if quickest else None


def _change(run: Run, system: str) -> Measured | None:
    return _slope(run, _batches(run, system))


def _row(run: Run, system: str) -> Measured | None:
    """W1 touches all files; W4 does not, and takes its place where W1 has one size only."""
    return _slope(run, run.points("W1 # rows", system)) or _slope(
        run, run.points("W4 # rows", system)
    )


def _load(run: Run, system: str) -> Measured | None:
    points = run.points("W7 first load, # rows", system, "W7 first load")
    if not points:
        return None
    rows, seconds, row = points[-1]
    return Measured(seconds / rows * run.cores, (row,), rows)


def _slope(run: Run, points: Sequence[Point]) -> Measured | None:
    """Core seconds for each unit between the first and the last point."""
    if len(points) < 2:
        return None
    first, last = points[0], points[-1]
    seconds = max(0.0, last.seconds - first.seconds)
    return Measured(
        seconds / (last.size - first.size) * run.cores, (first.row, last.row), last.size
    )


def _decode(run: Run) -> Iterator[tuple[str, Measured]]:
    details = run.metadata.get("details", {})
    for row in run.seconds:
        detail = details.get(row, {}).get("cdc", {})
        if row.startswith("D ") and detail.get("events_per_second") and detail.get("correct"):
            events = float(run.metadata["sizes"]["messages"])
            value = run.cores / detail["events_per_second"]
            yield row.removeprefix("D "), Measured(value, (row,), events)


_READERS: Mapping[str, Callable[[Run, str], Measured | None]] = {
    "idle": _idle,
    "plan": _plan,
    "batch": _batch,
    "change": _change,
    "row": _row,
    "load": _load,
}
