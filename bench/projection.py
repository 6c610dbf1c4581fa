"""What a warehouse, its changes and its cluster come to, by what the bench has measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.costs import Costs

MEBIBYTE, GIBIBYTE = 2**20, 2**30
# Beyond this share of its capacity a resource has no room for a late or a large batch.
FULL = 0.7
# A checkpoint of the whole state of a table is written so often, as the adapter's settings have it.
CHECKPOINT_EVERY = 100
# Files that a batch adds to a table: the history's open part, its closed part, the final table.
FILES_WITH_HISTORY, FILES_WITHOUT = 3, 1


class Wrong(Exception):
    """Arguments that cannot be used: all that is wrong, a line each."""


@dataclass(frozen=True)
class Assumed:
    """A constant that the bench does not measure."""

    value: float
    unit: str
    why: str


ASSUMED = {
    "log_entry_bytes": Assumed(
        1_000, "bytes", "an `add` in a Delta log with statistics of some ten columns"
    ),
    "log_mib_per_second": Assumed(20, "MiB/s", "log that one core of a driver parses"),
    "tasks_per_table": Assumed(20, "tasks", "tasks of a batch that touches one file"),
    "tasks_per_second": Assumed(1_000, "1/s", "tasks that one driver launches"),
    "metastore_calls": Assumed(5, "calls", "calls of a build for each table, changed or not"),
    "metastore_calls_per_second": Assumed(500, "1/s", "calls that one metastore answers"),
    "requests_per_table": Assumed(40, "requests", "requests of a batch that touches one file"),
    "requests_per_file": Assumed(3, "requests", "further requests for each touched file"),
    "requests_per_second": Assumed(3_500, "1/s", "writes that S3 documents for one prefix"),
}


def _option(default: float | None, help: str, **more: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class Scenario:
    """A warehouse, its changes and its cluster. Tables are all alike."""

    tables: float = _option(65, "tables", whole=True, least=1)
    active_tables: float | None = _option(
        None, "tables with changes in a build; all, if not given", whole=True, least=1
    )
    changes_per_second: float = _option(100, "changes of all tables together", least=0.001)
    interval: float = _option(900, "seconds from one build to the next", least=1)
    rows: float = _option(1e6, "rows of each table", least=1)
    row_bytes: float = _option(200, "bytes of a row in its file", least=1)
    key_share: float = _option(
        1.0, "share of a table's files that a batch's keys come from", least=0, most=1
    )
    file_mib: float = _option(128, "size of a table's files", least=1)
    cores: float = _option(2, "cores of the executors", least=1)
    drivers: float = _option(
        1, "dbt processes, each with its own Spark driver", whole=True, least=1
    )
    driver_cores: float = _option(2, "cores of each driver", least=1)
    driver_gib: float = _option(8, "memory of each driver", least=1)

    @property
    def changes(self) -> float:
        """Changes of a build."""
        return self.changes_per_second * self.interval

    @property
    def active(self) -> float:
        """Tables with changes in a build: no more than there are changes."""
        return max(1.0, min(self.active_tables or self.tables, self.changes))

    @property
    def batch(self) -> float:
        """Changes of one table in a build."""
        return self.changes / self.active

    @property
    def table_bytes(self) -> float:
        """Size of a table's current rows."""
        return self.rows * self.row_bytes

    @property
    def files(self) -> float:
        """Files of a table's current rows."""
        return max(1.0, math.ceil(self.table_bytes / (self.file_mib * MEBIBYTE)))

    @property
    def touched(self) -> float:
        """Files that hold a key of a batch, if the keys are spread evenly over the share."""
        among = max(1.0, self.files * self.key_share)
        if among == 1:
            return 1.0
        return among * -math.expm1(self.batch * math.log1p(-1 / among))


def read_scenario(texts: Mapping[str, str | None]) -> Scenario:
    """Returns the scenario of some arguments.

    Args:
        texts: Values by field, as they were given; None where none was.

    Raises:
        Wrong: Some values are no numbers, or out of range; the message names all of them.
    """
    values, problems = {}, []
    for field in dataclasses.fields(Scenario):
        text, rule = texts.get(field.name), field.metadata
        if text is None:
            continue
        name = f"--{field.name.replace('_', '-')} {text}"
        value = to_number(text)
        if value is None:
            problems.append(f"{name}: not a number. Write it as 1000000, 1_000_000 or 1e6.")
        elif rule.get("whole") and value != int(value):
            problems.append(f"{name}: not a whole number.")
        elif value < rule["least"]:
            problems.append(f"{name}: less than {rule['least']:g}.")
        elif value > rule.get("most", math.inf):
            problems.append(f"{name}: more than {rule['most']:g}.")
        else:
            values[field.name] = value
    tables, active = values.get("tables", Scenario.tables), values.get("active_tables", 0.0)
    if active > tables:
        problems.append(
            f"--active-tables {active:g}: more than --tables {tables:g}."
            " Raise --tables, or leave it out."
        )
    if problems:
        raise Wrong("\n".join(problems))
    return Scenario(**values)


def read_assumptions(texts: Iterable[str]) -> dict[str, float]:
    """Returns all assumed constants, some of them replaced by `name=value`.

    Raises:
        Wrong: Some have no such name or no positive number; the message names all of them.
    """
    values = {name: assumed.value for name, assumed in ASSUMED.items()}
    problems = []
    for text in texts:
        name, _, written = text.partition("=")
        value = to_number(written)
        if name not in values:
            problems.append(f"--assume {text}: {name} is not one of {', '.join(ASSUMED)}.")
        elif value is None or value <= 0:
            problems.append(f"--assume {text}: write {name}=<number above 0>.")
        else:
            values[name] = value
    if problems:
        raise Wrong("\n".join(problems))
    return values


def to_number(text: str) -> float | None:
    """Returns a number as it is written, `1_000_000` or `1e6`; None if it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Load:
    """How much of a resource a build needs.

    Attributes:
        what: The resource.
        need: What a build needs of it.
        capacity: What there is of it until the next build.
        unit: Of both.
        basis: `measured`, or `assumed` where a constant of ASSUMED takes part.
    """

    what: str
    need: float
    capacity: float
    unit: str
    basis: str

    @property
    def share(self) -> float:
        return self.need / self.capacity


@dataclass(frozen=True)
class Projection:
    """What a scenario comes to.

    Attributes:
        scenario: The scenario.
        loads: What a build needs of each resource.
        driver_core_seconds: Work of the drivers in a build.
        executor_core_seconds: Work of the executors in a build.
        least_core_seconds: The same, if a change costs what a row of a first load costs.
        load_core_seconds: Work of the first load of one table.
        written_bytes: What a build writes.
        copied_bytes: What it would write if touched files were copied.
        new_files: Files that it adds.
    """

    scenario: Scenario
    loads: tuple[Load, ...]
    driver_core_seconds: float
    executor_core_seconds: float
    least_core_seconds: float
    load_core_seconds: float
    written_bytes: float
    copied_bytes: float
    new_files: float

    @property
    def ranking(self) -> list[Load]:
        """The resources, the fullest first."""
        return sorted(self.loads, key=lambda load: -load.share)

    @property
    def falls_behind(self) -> bool:
        """Whether a build is not done when the next one is due."""
        executors = self.scenario.interval * self.scenario.cores
        return self.ranking[0].share > 1 or self.executor_core_seconds > executors

    @property
    def used_per_million(self) -> float:
        """Core seconds at work for a million changes."""
        used = self.driver_core_seconds + self.executor_core_seconds
        return used / self.scenario.changes * 1e6

    @property
    def paid_per_million(self) -> float:
        """Core seconds that the cluster is up for a million changes."""
        asked = self.scenario
        cores = asked.cores + asked.drivers * asked.driver_cores
        return cores * asked.interval / asked.changes * 1e6

    @property
    def cores_needed(self) -> int:
        """Cores of executors of which a build keeps at most `FULL` at work."""
        return max(1, math.ceil(self.executor_core_seconds / self.scenario.interval / FULL))

    @property
    def cores_at_least(self) -> int:
        """The same, if a change cost no more than a row of a first load."""
        return max(1, math.ceil(self.least_core_seconds / self.scenario.interval / FULL))

    @property
    def drivers_needed(self) -> int:
        """Drivers of which a build keeps at most `FULL` at work."""
        shares = [load.share for load in self.loads if load.what in DRIVER_LOADS]
        return max(1, math.ceil(max(shares) * self.scenario.drivers / FULL))


DBT, PLANNING, TASKS, LOGS, MEMORY = (
    "dbt, table by table",
    "planning statements",
    "launching tasks",
    "reading and writing Delta's logs",
    "states of tables in memory",
)
CHANGES, SCANS = "decoding, folding and writing changes", "searching the touched files"
ONE_BATCH = "one table's batch, from start to end"
METASTORE, REQUESTS = "calls of the metastore", "requests to the object store"
# What further drivers take a part of.
DRIVER_LOADS = (DBT, PLANNING, TASKS, LOGS, MEMORY)


def project(
    asked: Scenario,
    costs: Costs,
    assumed: Mapping[str, float],
    *,
    history: bool = True,
    form: str = "flagged",
) -> Projection:
    """Returns what a build of a scenario needs.

    Args:
        asked: The scenario.
        costs: What was measured, for tables with or without a history.
        assumed: The other constants by name.
        history: Whether the tables keep a history.
        form: Format of the events; what the batches of the bench were made of is `flagged`.
    """
    changed_tables = asked.active * (2 if history else 1)
    dbt_seconds = asked.tables * costs["idle"]
    planning = asked.active * costs["plan"]
    # The measured batches have decoded `flagged` events already.
    decoding = costs.decode[form].value
    if "flagged" in costs.decode:
        decoding = max(0.0, decoding - costs.decode["flagged"].value)
    folding = asked.changes * (costs["change"] + decoding)
    scanned = asked.active * asked.touched * (asked.rows / asked.files)
    searching = scanned * costs["row"]

    tasks = asked.active * (assumed["tasks_per_table"] + asked.touched - 1)
    # A build in a new process reads the whole state. A commit names each touched file twice, before
    # and after, and every tenth one writes the whole state again.
    entries = asked.files * (1 + 1 / CHECKPOINT_EVERY) + 2 * asked.touched
    log_bytes = changed_tables * entries * assumed["log_entry_bytes"]
    state_bytes = changed_tables * asked.files * assumed["log_entry_bytes"]
    per_table, per_file = assumed["requests_per_table"], assumed["requests_per_file"]
    requests = asked.active * (per_table + per_file * (asked.touched - 1))

    seconds = asked.interval
    driver_seconds = seconds * asked.drivers * asked.driver_cores
    parsed = assumed["log_mib_per_second"] * MEBIBYTE * driver_seconds
    memory = asked.drivers * asked.driver_gib * GIBIBYTE
    executors = seconds * asked.cores
    calls = asked.tables * assumed["metastore_calls"]
    answered = assumed["metastore_calls_per_second"] * seconds
    loads = (
        Load(DBT, dbt_seconds, seconds * asked.drivers, "s", "measured"),
        Load(PLANNING, planning, driver_seconds, "core s", "measured"),
        Load(CHANGES, folding, executors, "core s", "measured"),
        Load(SCANS, searching, executors, "core s", "measured"),
        Load(ONE_BATCH, costs["batch"], seconds, "s", "measured"),
        Load(
            TASKS, tasks, assumed["tasks_per_second"] * seconds * asked.drivers, "tasks", "assumed"
        ),
        Load(LOGS, log_bytes, parsed, "bytes", "assumed"),
        Load(MEMORY, state_bytes, memory, "bytes", "assumed"),
        Load(METASTORE, calls, answered, "calls", "assumed"),
        Load(REQUESTS, requests, assumed["requests_per_second"] * seconds, "requests", "assumed"),
    )
    files = FILES_WITH_HISTORY if history else FILES_WITHOUT
    return Projection(
        scenario=asked,
        loads=loads,
        driver_core_seconds=dbt_seconds + planning,
        executor_core_seconds=folding + searching,
        least_core_seconds=min(folding, asked.changes * (costs["load"] + decoding)) + searching,
        load_core_seconds=asked.rows * costs["load"],
        # A changed row closes one version and opens another one, and is written to the final table.
        written_bytes=asked.changes * asked.row_bytes * files,
        copied_bytes=changed_tables
        * asked.touched
        * min(asked.file_mib * MEBIBYTE, asked.table_bytes),
        new_files=asked.active * files,
    )
