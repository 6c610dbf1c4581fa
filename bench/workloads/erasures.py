"""W11: one person leaves a table with a history and a year of raw files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.sql import functions as F

from bench import data
from bench.data import Changes, Table
from bench.results import Results
from bench.scales import Scale
from bench.session import Workshop
from bench.systems.base import drop_tables, timed
from bench.systems.in_dbt import Cdc

NAMES = ("W11",)
DAYS = 365
BATCHES = 3


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: How large.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    table = Table("erased", scale.erasure_rows)
    name = f"W11 {table.rows:,} rows"
    system = Cdc(workshop, [table], history=True)
    arrived = data.first_load(workshop.spark, table, workshop.changes, files=DAYS)
    system.load([table], {table.name: arrived})
    system.lay_out(table, scale.files)
    for _ in range(BATCHES):
        arrived = data.next_batch(workshop.spark, table, Changes(scale.changes), workshop.changes)
        system.apply([table], {table.name: arrived})
    names = [table.raw, *system.delta_tables(table)]
    # Two of those with the most events: rows that have been updated.
    often = f"select id from {table.raw} group by id order by count(*) desc, id limit 2"
    person, other = (row.id for row in workshop.spark.sql(often).collect())

    before = {one: _files(workshop, one) for one in names}
    holding = {one: _holding(workshop, one, person) for one in names}
    timing = timed(partial(system.erase, table, person))
    after = {one: _files(workshop, one) for one in names}
    rewritten = {one: before[one] - after[one] for one in names}
    results.add(
        name,
        system.name,
        [timing],
        files_of={one: len(before[one]) for one in names},
        files_with_the_person={one: len(holding[one]) for one in names},
        files_rewritten={one: len(rewritten[one]) for one in names},
        files_rewritten_without_the_person=sum(len(rewritten[n] - holding[n]) for n in names),
    )
    gone = all(not _holding(workshop, one, person) for one in names)
    rest = data.living_rows(workshop.spark, table)
    right = data.fingerprint(system.current(table)) == data.fingerprint(rest)
    results.judge([name], system.name, gone and right)

    # The least that removes another person's rows and files, with no list and no search.
    results.add(name, "spark_delete", [timed(partial(_delete, workshop, names, other))])
    system.drop(table)
    drop_tables(workshop, [table.raw])


def _files(workshop: Workshop, name: str) -> frozenset[str]:
    """The names of a table's data files, each of which is unique."""
    return frozenset(map(_name, workshop.spark.table(name).inputFiles()))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _holding(workshop: Workshop, name: str, key: int) -> frozenset[str]:
    """The files of a table that hold a key, in rows that deletion vectors hide as well."""
    plain = workshop.spark.read.parquet(*workshop.spark.table(name).inputFiles())
    found = plain.where(F.col("id") == key).select(F.input_file_name()).distinct().collect()
    return frozenset(_name(row[0]) for row in found)


def _delete(workshop: Workshop, names: Sequence[str], key: int) -> None:
    spark = workshop.spark
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(check, "false")
    for name in names:
        spark.sql(f"delete from {name} where id = {int(key)}")
        spark.sql(f"reorg table {name} apply (purge)")
        spark.sql(f"vacuum {name} retain 0 hours")
    spark.conf.unset(check)
