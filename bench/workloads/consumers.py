"""W9: a consumer of changes, by size of the table whose changes it reads."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import functions as F

from bench import data
from bench.data import COLUMNS, Changes, Table
from bench.results import Results
from bench.scales import Scale
from bench.session import Workshop, count_by_node, recorded_statements
from bench.systems.base import drop_tables, timed
from bench.systems.in_dbt import Exporting

NAMES = ("W9",)
WARM_UP = 1


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: How large.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    for rows in scale.consumer_sizes:
        _measure(workshop, scale, Table(f"out{rows}", rows), results)


def _measure(workshop: Workshop, scale: Scale, table: Table, results: Results) -> None:
    name = f"W9 {table.rows:,} rows"
    system = Exporting(workshop, table)
    try:
        system.load([table], {table.name: data.first_load(workshop.spark, table, workshop.changes)})
        system.lay_out(table, scale.files)
        system.consume(table)
        timings, floors, counts = [], [], {}
        for number in range(WARM_UP + scale.repeats):
            arrived = {table.name: _next(workshop, scale, table)}
            first = _version(workshop, table, system) + 1
            system.apply([table], arrived)
            with recorded_statements() as statements:
                timing = system.consume(table)
            counts = count_by_node(statements)
            floor = timed(partial(_read_changes, workshop, table, system, first))
            if number >= WARM_UP:
                timings.append(timing)
                floors.append(floor)
    except Exception as exc:
        results.fail(name, system.name, exc)
    else:
        results.add(name, system.name, timings, changes=scale.changes, statements=counts)
        results.add(name, "spark_changes", floors)
        results.judge([name], system.name, _is_right(workshop, table, system))
    system.drop(table)
    drop_tables(workshop, [table.raw])


def _next(workshop: Workshop, scale: Scale, table: Table) -> Path:
    return data.next_batch(workshop.spark, table, Changes(scale.changes), workshop.changes)


def _version(workshop: Workshop, table: Table, system: Exporting) -> int:
    newest = workshop.spark.sql(f"describe history {system.delta_tables(table)[0]} limit 1").first()
    assert newest is not None
    return int(newest["version"])


def _read_changes(workshop: Workshop, table: Table, system: Exporting, first: int) -> None:
    """The least that a consumer does: one bare read of the same changes."""
    name = system.delta_tables(table)[0]
    workshop.spark.sql(f"select * from table_changes('{name}', {first})").toArrow()


def _is_right(workshop: Workshop, table: Table, system: Exporting) -> bool:
    """The oracle: the changes add up to the living rows, and each event is in a file."""
    sign = F.when(F.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
    changes = system.changes(table)
    added = changes.groupBy(*COLUMNS).agg(F.sum(sign).alias("times")).where("times <> 0")
    expected = data.fingerprint(data.living_rows(workshop.spark, table))
    if data.fingerprint(added.where("times = 1").select(*COLUMNS)) != expected:
        return False
    lines = workshop.spark.read.text(f"{system.folder(table)}/*.jsonl").count()
    return (
        added.where("times <> 1").isEmpty() and lines == changes.where("_row_kind <> '-U'").count()
    )
