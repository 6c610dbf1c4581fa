"""W1, W2, W4, W5, W6, W7: one table, loaded and then changed batch after batch."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from bench import data
from bench.data import Changes, Table
from bench.results import Results
from bench.scales import Scale
from bench.session import Statement, Timing, Workshop, count_by_node, recorded_statements
from bench.systems.base import System, drop_tables, timed
from bench.systems.delta_rs import DeltaRs
from bench.systems.duck import DuckDb
from bench.systems.in_dbt import Cdc, Recipe
from bench.systems.pyspark_merge import PysparkMerge, SparkLoad, SparkStatement

NAMES = ("W1", "W2", "W4", "W5", "W6", "W7")
# The first batch of a phase warms up caches and Java's compiler, in every system.
WARM_UP = 1
# How many batches at either end of W6 are compared.
ENDS = 3
NEWEST = 0.01
AGED = "aged"


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: How large.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    main = scale.main_tables
    # In the order of W4, the tables of W1 and W2 last.
    sizes = [*(rows for rows in scale.sizes if rows not in main), *main]
    tables = [Table(f"t{rows}", rows) for rows in sizes]
    if "W6" in wanted:
        _age(workshop, scale, results)
    if not wanted & {"W1", "W2", "W4", "W5", "W7"}:
        return
    systems: list[System] = [
        Cdc(workshop, tables, history=False),
        Cdc(workshop, tables, history=True),
        Cdc(workshop, tables, history=False, overwrite=True),
        Recipe(workshop, tables, history=False),
        Recipe(workshop, tables, history=False, vectors=True),
        PysparkMerge(workshop),
        DuckDb(workshop),
        DeltaRs(workshop),
        SparkStatement(workshop, "spark_merge"),
    ]
    if "W5" not in wanted:  # whose batches have more keys than a statement can list
        systems.append(SparkStatement(workshop, "spark_replace"))
    systems = [system for system in systems if scale.measures(system.name)]
    for number, table in enumerate(tables):
        # The smallest table in any case: its first load warms up what W7 measures.
        if number == 0 or table.rows in main or "W4" in wanted:
            measured = [
                system
                for system in systems
                if table.rows <= scale.history_rows or system.name != "cdc_history"
            ]
            _measure(workshop, scale, table, measured, wanted, results)
            _forget(workshop, table, measured)


def _measure(
    workshop: Workshop,
    scale: Scale,
    table: Table,
    systems: list[System],
    wanted: set[str],
    results: Results,
) -> None:
    is_main = table.rows in scale.main_tables
    is_last = table.rows == scale.main_tables[-1]
    loads = is_main and "W7" in wanted
    size = f"W4 {table.rows:,} rows"
    is_changed = bool(wanted & {"W1", "W2", "W4", "W5"})
    load = _load(workshop, scale, table, systems, results if loads else None, is_changed)
    phases: list[tuple[list[str], Changes, int]] = []
    if "W4" in wanted or (is_main and "W2" in wanted):
        names = [
            *([f"W2 {table.rows:,} rows"] if is_main and "W2" in wanted else []),
            *([size] if "W4" in wanted else []),
        ]
        repeats = scale.repeats if is_main else scale.few_repeats
        phases.append((names, Changes(scale.changes, NEWEST), repeats))
    if is_main and "W1" in wanted:
        phases.append(([f"W1 {table.rows:,} rows"], Changes(scale.changes), scale.repeats))
    if is_last and "W5" in wanted:
        for count in scale.bulk_changes:
            phases.append(([f"W5 {count:,} changes"], Changes(count), 1))
    for names, changes, repeats in phases:
        # Larger batches come last, when all is warm.
        warm_up = 0 if changes.count in scale.bulk_changes else WARM_UP
        _phase(workshop, table, systems, names, changes, repeats, results, warm_up)
    judged = [*load, *(name for names, _, _ in phases for name in names)]
    _judge(workshop, table, systems, judged, results)


def _load(
    workshop: Workshop,
    scale: Scale,
    table: Table,
    systems: list[System],
    results: Results | None,
    lays_out: bool = True,
) -> list[str]:
    """First load, and full rebuild where dbt has one; then the layout of an older table."""
    first_load = f"W7 first load, {table.rows:,} rows"
    full_rebuild = f"W7 full rebuild, {table.rows:,} rows"
    arrived = {table.name: data.first_load(workshop.spark, table, workshop.changes)}
    for system in list(systems):
        try:
            first = system.load([table], arrived)
            # How the floors of a batch load their tables is not what W7 asks.
            if results and not isinstance(system, SparkStatement):
                results.add(first_load, system.name, [first], rows=table.rows)
            if results and scale.rebuilds and isinstance(system, (Cdc, Recipe)):
                again = system.rebuild([table])
                results.add(full_rebuild, system.name, [again], rows=table.rows)
            if lays_out:
                system.lay_out(table, scale.files)
        except Exception as exc:  # the others go on without it
            systems.remove(system)
            if results:
                results.fail(first_load, system.name, exc)
            else:
                Results().fail(f"load of {table.rows:,} rows", system.name, exc)
    if results is None:
        return []

    def bare_write() -> None:
        columns = ", ".join(data.COLUMNS)
        workshop.spark.sql(
            f"create table bench.bare using delta as select {columns} from {table.raw}"
        )

    results.add(first_load, "spark_write", [timed(bare_write)], rows=table.rows)
    workshop.spark.sql("drop table bench.bare")
    for floor in (SparkLoad(workshop, history=False), SparkLoad(workshop, history=True)):
        has_peer = not floor.history or table.rows <= scale.history_rows
        if scale.measures(floor.name) and has_peer:
            try:
                timing = floor.load([table], arrived)
                results.add(first_load, floor.name, [timing], rows=table.rows)
            except Exception as exc:  # the systems go on without it
                results.fail(first_load, floor.name, exc)
            floor.drop(table)
    return [first_load, full_rebuild]


def _phase(
    workshop: Workshop,
    table: Table,
    systems: list[System],
    names: Sequence[str],
    changes: Changes,
    repeats: int,
    results: Results,
    warm_up: int = WARM_UP,
    after: Callable[[System], None] = lambda system: None,
) -> dict[str, list[Timing]]:
    """Applies batches in all systems in turn, another one first each time."""
    timings: dict[str, list[Timing]] = {system.name: [] for system in systems}
    profiles: dict[str, dict[str, Any]] = {}
    counts: dict[str, dict[str, int]] = {}
    for number in range(warm_up + repeats):
        arrived = {table.name: data.next_batch(workshop.spark, table, changes, workshop.changes)}
        turn = number % len(systems) if systems else 0
        for system in [*systems[turn:], *systems[:turn]]:
            try:
                with recorded_statements() as statements:
                    timing = system.apply([table], arrived)
            except Exception as exc:
                systems.remove(system)
                timings.pop(system.name)
                for name in names:
                    results.fail(name, system.name, exc)
                continue
            after(system)
            if number >= warm_up:
                timings[system.name].append(timing)
            counts[system.name] = count_by_node(statements)
            profiles[system.name] = {
                "statements": _summary(statements),
                "commits": _metrics(workshop, table, system),
            }
    for name in names:
        for system_name, measured in timings.items():
            counted: dict[str, Any] = {"statements": counts.get(system_name)}
            results.add(name, system_name, measured, changes=changes.count, **counted)
            results.profiles.setdefault(name, {})[system_name] = profiles[system_name]
    return timings


def _summary(statements: Sequence[Statement]) -> list[dict[str, object]]:
    return [
        {"node": one.node, "seconds": round(one.seconds, 3), "sql": " ".join(one.sql.split())[:400]}
        for one in statements
    ]


def _metrics(workshop: Workshop, table: Table, system: System) -> dict[str, dict[str, str]]:
    """What Delta tells of the newest write of each table."""
    found: dict[str, dict[str, str]] = {}
    for name in system.delta_tables(table):
        commit = workshop.spark.sql(f"describe history {name} limit 1").first()
        if commit is not None:
            found[name] = {"operation": commit["operation"], **commit["operationMetrics"]}
    return found


def _files(workshop: Workshop, table: Table, system: System) -> int:
    """In how many files a system's Delta tables lie."""
    details = [workshop.spark.sql(f"describe detail {name}") for name in system.delta_tables(table)]
    return sum(row["numFiles"] for detail in details for row in detail.collect())


def _judge(
    workshop: Workshop,
    table: Table,
    systems: Sequence[System],
    workloads: Sequence[str],
    results: Results,
) -> None:
    """The oracle: every living row, in every column; of a history also which versions there are."""
    spark = workshop.spark
    expected = data.fingerprint(data.living_rows(spark, table))
    for system in systems:
        correct = data.fingerprint(system.current(table)) == expected
        if isinstance(system, Cdc) and system.history:
            correct = correct and data.versions_match(spark, table, system.versions(table))
        results.judge(workloads, system.name, correct)


def _age(workshop: Workshop, scale: Scale, results: Results) -> None:
    """W6: the same small batch, over and over."""
    table = Table(AGED, scale.sizes[0])
    systems: list[System] = [
        Cdc(workshop, [table], history=True),
        DuckDb(workshop),
    ]
    _load(workshop, scale, table, systems, None)
    changes = Changes(scale.changes, NEWEST, recent=True)
    files: dict[str, list[int]] = {system.name: [] for system in systems}
    timings = _phase(
        workshop,
        table,
        systems,
        [],
        changes,
        scale.age_batches,
        Results(),
        warm_up=2,
        after=lambda system: files[system.name].append(_files(workshop, table, system)),
    )
    ends = min(ENDS, max(1, scale.age_batches // 2))
    names = [f"W6 batches 1 to {ends}", f"W6 last {ends} of {scale.age_batches} batches"]
    for system in systems:
        measured = timings[system.name]
        results.add(names[0], system.name, measured[:ends])
        results.add(
            names[1],
            system.name,
            measured[-ends:],
            curve=[round(timing.seconds, 3) for timing in measured],
            files=files[system.name],
            slope=round(
                statistics.median(t.seconds for t in measured[-ends:])
                / statistics.median(t.seconds for t in measured[:ends]),
                2,
            ),
        )
    _judge(workshop, table, systems, names, results)
    _forget(workshop, table, systems)


def _forget(workshop: Workshop, table: Table, systems: Sequence[System]) -> None:
    """Frees the disk of what nobody reads again."""
    for system in systems:
        system.drop(table)
    drop_tables(workshop, [table.raw])
    shutil.rmtree(workshop.changes / table.name, ignore_errors=True)
