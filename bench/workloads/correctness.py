"""C: which systems are right when events come late, twice, and several of a key at once."""

from __future__ import annotations

from bench import data
from bench.data import HARD_BATCHES, Table
from bench.results import Results
from bench.scales import Scale
from bench.session import Timing, Workshop
from bench.systems.base import System
from bench.systems.delta_rs import DeltaRs
from bench.systems.duck import DuckDb
from bench.systems.in_dbt import Cdc, Recipe
from bench.systems.pyspark_merge import PysparkMerge

NAMES = ("C",)
ROWS = 2_000


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: Not asked: this is about meaning.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    table = Table("hard", ROWS)
    systems: list[System] = [
        Cdc(workshop, [table], history=False),
        Cdc(workshop, [table], history=True),
        Recipe(workshop, [table], history=False),
        PysparkMerge(workshop),
        DuckDb(workshop),
        DeltaRs(workshop),
    ]
    timings: dict[str, list[Timing]] = {system.name: [] for system in systems}
    workload = f"C {HARD_BATCHES} batches, late-arriving and duplicate"
    for number in range(HARD_BATCHES + 1):
        arrived = {table.name: data.hard_batch(workshop.spark, table, workshop.changes)}
        for system in list(systems):
            try:
                if number:
                    timings[system.name].append(system.apply([table], arrived))
                else:
                    system.load([table], arrived)
            except Exception as exc:
                systems.remove(system)
                results.fail(workload, system.name, exc)
    for system in systems:
        wrong = data.wrong_keys(workshop.spark, table, system.current(table))
        results.add(workload, system.name, timings[system.name], wrong_keys=wrong, keys=ROWS)
        results.judge([workload], system.name, wrong == 0)
