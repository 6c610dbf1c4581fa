"""W10: tables whose changed rows are marked beside, or whose changed files are written again."""

from __future__ import annotations

from functools import partial

from bench import data
from bench.data import Changes, Table
from bench.results import Results
from bench.scales import Scale
from bench.session import Timing, Workshop
from bench.systems.base import drop_tables, timed
from bench.systems.in_dbt import Cdc

NAMES = ("W10",)
NEWEST = 0.01
WAYS = [
    (file_format, mode)
    for file_format in ("delta", "iceberg")
    for mode in ("copy-on-write", "merge-on-read")
]
READS = 3


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: How large.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    for kind, changes in (
        ("anywhere", Changes(scale.changes)),
        ("newest", Changes(scale.changes, NEWEST)),
    ):
        _measure(workshop, scale, Table(f"modes_{kind}", scale.mode_rows), kind, changes, results)


def _measure(
    workshop: Workshop, scale: Scale, table: Table, kind: str, changes: Changes, results: Results
) -> None:
    systems = [Cdc(workshop, [table], history=False, way=way) for way in WAYS]
    for system in systems:
        system.project.stays_parsed = True
    names: list[str] = []

    def add(name: str, system: Cdc, timings: list[Timing]) -> None:
        names.append(f"W10 {kind}, {name}")
        results.add(names[-1], system.name, timings, changes=changes.count)

    arrived = {table.name: data.first_load(workshop.spark, table, workshop.changes)}
    for system in systems:
        system.load([table], arrived)
        system.lay_out(table, scale.files)
    writes: dict[str, list[Timing]] = {system.name: [] for system in systems}
    for number in range(1, max(scale.mode_batches) + 1):
        arrived = {table.name: data.next_batch(workshop.spark, table, changes, workshop.changes)}
        turn = number % len(systems)
        for system in [*systems[turn:], *systems[:turn]]:
            writes[system.name].append(system.apply([table], arrived))
            if number in scale.mode_batches:
                add(f"batch {number}", system, writes[system.name][-READS:])
                add(f"read after {number}", system, _reads(system, table))
    for system in systems:
        add("compaction", system, [timed(partial(system.lay_out, table, scale.files))])
        add("read after it", system, _reads(system, table))
    expected = data.fingerprint(data.living_rows(workshop.spark, table))
    for system in systems:
        correct = data.fingerprint(system.current(table)) == expected
        results.judge(names, system.name, correct)
        system.drop(table)
    drop_tables(workshop, [table.raw])


def _reads(system: Cdc, table: Table) -> list[Timing]:
    """Reads of all columns of all rows."""

    def read() -> None:
        # Delta plans no scan with deletion vectors inside a write, that to nowhere included.
        system.current(table).selectExpr("bit_xor(xxhash64(*))").collect()

    return [timed(read) for _ in range(READS)]
