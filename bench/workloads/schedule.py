"""W3 and W8: one small table and many tables in a `dbt build`, with changes and without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import data
from bench.data import Changes, Table
from bench.results import Results
from bench.scales import Scale
from bench.session import Timing, Workshop, count_by_node, recorded_statements
from bench.systems.base import System
from bench.systems.delta_rs import DeltaRs
from bench.systems.duck import DuckDb
from bench.systems.in_dbt import Cdc, Recipe
from bench.systems.pyspark_merge import PysparkMerge, SparkFloor

NAMES = ("W3", "W8")
WARM_UP = 1


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: How large.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    # The single table warms up the others.
    single = Table(f"single{scale.single_rows}", scale.single_rows)
    changes = Changes(max(1, scale.single_rows // 10))
    if "W3" in wanted:
        one = _Build(workshop, scale, [single], changes, f"W3 1 table of {single.rows:,} rows")
        one.measure(results, max(scale.repeats, scale.few_repeats), WARM_UP)
        one.judge(results)
    tables = _tables(scale)
    many = _Build(workshop, scale, tables, None, f"W3 {len(tables)} tables")
    many.measure(results, scale.few_repeats, scale.schedule_warm_up)
    if "W8" in wanted:
        many.measure_idle(results, f"W8 {len(tables)} tables, nothing new")
    many.judge(results)


class _Build:
    """Tables that each system builds together.

    Attributes:
        name: Row of the results.
    """

    def __init__(
        self,
        workshop: Workshop,
        scale: Scale,
        tables: Sequence[Table],
        changes: Changes | None,
        name: str,
    ) -> None:
        self.workshop, self.scale, self.tables = workshop, scale, tables
        self.changes, self.name = changes, name
        self.judged: list[str] = [name]
        systems: list[System] = [
            Cdc(workshop, tables, history=True, threads=scale.threads),
            Recipe(workshop, tables, history=True, threads=scale.threads),
            PysparkMerge(workshop),
            DuckDb(workshop),
            DeltaRs(workshop),
            SparkFloor(workshop, scale.threads),
        ]
        self.systems = [system for system in systems if scale.measures(system.name)]

    def measure(self, results: Results, repeats: int, warm_up: int) -> None:
        """Loads the tables, and then measures batches.

        Args:
            results: Gets what was measured.
            repeats: Measured batches.
            warm_up: Batches before them.
        """
        self._load(results)
        timings: dict[str, list[Timing]] = {system.name: [] for system in self.systems}
        counts: dict[str, dict[str, int]] = {}
        for number in range(warm_up + repeats):
            arrived = {table.name: self._batch(table) for table in self.tables}
            for system in _turned(self.systems, number):
                try:
                    with recorded_statements() as statements:
                        timing = system.apply(self.tables, arrived)
                except Exception as exc:
                    self._fail(results, system, exc)
                    continue
                counts[system.name] = count_by_node(statements)
                if number >= warm_up:
                    timings[system.name].append(timing)
        for system in self.systems:
            counted: dict[str, Any] = {"statements": counts.get(system.name)}
            results.add(self.name, _column(system), timings[system.name], wall=True, **counted)

    def measure_idle(self, results: Results, name: str) -> None:
        """Measures builds that find nothing new, of dbt's systems.

        Args:
            results: Gets what was measured.
            name: Row of the results.
        """
        self.judged.append(name)
        for system in self.systems:
            if not isinstance(system, (Cdc, Recipe)):
                continue
            idle, counts = [], {}
            for _ in range(self.scale.few_repeats):
                with recorded_statements() as statements:
                    idle.append(system.apply(self.tables, {}))
                counts = count_by_node(statements)
            results.add(name, _column(system), idle, wall=True, statements=counts)

    def judge(self, results: Results) -> None:
        """Compares all tables with their events.

        Args:
            results: Gets the verdicts.
        """
        for system in self.systems:
            right = _is_right(self.workshop, self.tables, system)
            results.judge(self.judged, _column(system), right)

    def _load(self, results: Results) -> None:
        arrived = {
            table.name: data.first_load(self.workshop.spark, table, self.workshop.changes)
            for table in self.tables
        }
        for system in list(self.systems):
            try:
                system.load(self.tables, arrived)
                for table in self.tables:
                    if table.rows >= 1_000_000:
                        system.lay_out(table, self.scale.files)
            except Exception as exc:
                self._fail(results, system, exc)

    def _batch(self, table: Table) -> Path:
        count = self.scale.many_changes or min(self.scale.changes, table.rows // 10)
        changes = self.changes or Changes(count)
        return data.next_batch(self.workshop.spark, table, changes, self.workshop.changes)

    def _fail(self, results: Results, system: System, problem: Exception) -> None:
        """The others go on without it."""
        self.systems.remove(system)
        results.fail(self.name, _column(system), problem)


def _tables(scale: Scale) -> list[Table]:
    """The large tables, and small ones of evenly growing sizes."""
    tables = [Table(f"large{n:02}", scale.large_rows) for n in range(scale.large_tables)]
    smallest, largest = scale.small_rows
    for number in range(scale.small_tables):
        rows = smallest + (largest - smallest) * number // max(1, scale.small_tables - 1)
        tables.append(Table(f"small{number:02}", rows))
    return tables


def _turned(systems: Sequence[System], number: int) -> list[System]:
    turn = number % len(systems) if systems else 0
    return [*systems[turn:], *systems[:turn]]


def _column(system: System) -> str:
    return "cdc" if isinstance(system, Cdc) else system.name


def _is_right(workshop: Workshop, tables: Sequence[Table], system: System) -> bool:
    for table in tables:
        expected = data.fingerprint(data.living_rows(workshop.spark, table))
        if data.fingerprint(system.current(table)) != expected:
            return False
        if isinstance(system, (Cdc, Recipe)) and not data.versions_match(
            workshop.spark, table, system.versions(table)
        ):
            return False
    return True
