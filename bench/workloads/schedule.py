"""W3 and W8: many tables in one `dbt build`, with changes and without."""

from __future__ import annotations

from collections.abc import Sequence

from bench import data
from bench.data import Changes, Table
from bench.results import Results
from bench.scales import Scale
from bench.session import Timing, Workshop
from bench.systems.base import System
from bench.systems.delta_rs import DeltaRs
from bench.systems.duck import DuckDb
from bench.systems.in_dbt import Cdc, Recipe
from bench.systems.pyspark_merge import PysparkMerge

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
    if not wanted & set(NAMES):
        return
    tables = _tables(scale)
    names = {"W3": f"W3 {len(tables)} tables", "W8": f"W8 {len(tables)} tables, nothing new"}
    systems: list[System] = [
        Cdc(workshop, tables, history=True, threads=scale.threads),
        Recipe(workshop, tables, history=True, threads=scale.threads),
        PysparkMerge(workshop),
        DuckDb(workshop),
        DeltaRs(workshop),
    ]
    arrived = {
        table.name: data.first_load(workshop.spark, table, workshop.changes) for table in tables
    }
    for system in list(systems):
        try:
            system.load(tables, arrived)
            for table in tables:
                if table.rows >= 1_000_000:
                    system.lay_out(table, scale.files)
        except Exception as exc:
            systems.remove(system)
            results.fail(names["W3"], system.name, exc)
    timings: dict[str, list[Timing]] = {system.name: [] for system in systems}
    for number in range(WARM_UP + scale.few_repeats):
        arrived = {
            table.name: data.next_batch(
                workshop.spark,
                table,
                Changes(min(scale.changes, table.rows // 10)),
                workshop.changes,
            )
            for table in tables
        }
        for system in _turned(systems, number):
            try:
                timing = system.apply(tables, arrived)
            except Exception as exc:
                systems.remove(system)
                timings.pop(system.name)
                results.fail(names["W3"], system.name, exc)
                continue
            if number >= WARM_UP:
                timings[system.name].append(timing)
    for system in systems:
        # Here the column of this package is history and final table: so is the recipe's.
        results.add(names["W3"], _column(system), timings[system.name], wall=True)
        if isinstance(system, (Cdc, Recipe)) and "W8" in wanted:
            idle = [system.apply(tables, {}) for _ in range(scale.few_repeats)]
            results.add(names["W8"], _column(system), idle, wall=True)
    for system in systems:
        results.judge([*names.values()], _column(system), _is_right(workshop, tables, system))


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
