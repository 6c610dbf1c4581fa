"""How large each workload is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import click


@dataclass(frozen=True)
class Scale:
    """Sizes of all workloads.

    Attributes:
        repeats: Measured batches of W1 and W2; the median of them is reported.
        few_repeats: Those of the smaller tables of W4, and measured builds of W3 and W8.
        sizes: Rows of W4's tables; the last one is the table of W5, and W6 runs on the first one.
        main_sizes: Rows of the tables of W1 and W2, and W7; empty: W5's table.
        history_rows: Tables of more rows are measured without `cdc_history`.
        files: Files that each Delta table is laid out in.
        changes: Changes of a batch.
        bulk_changes: Further sizes of a batch, for W5.
        age_batches: Batches of W6.
        large_tables: Number of large tables of W3 and W8.
        large_rows: Rows of each.
        small_tables: Number of small tables.
        small_rows: Rows of the smallest and the largest small table.
        single_rows: Rows of the one small table that W3 builds alone.
        many_changes: Changes of each table of W3; 0 is a tenth of its rows, `changes` at most.
        schedule_warm_up: Batches of W3's many tables before the measured ones.
        threads: dbt's threads in W3 and W8.
        consumer_sizes: Rows of the tables whose changes W9's consumer reads.
        mode_rows: Rows of W10's tables.
        mode_batches: Batches after which W10's tables are read.
        erasure_rows: Rows of W11's table.
        key_events: Events of W12's first build.
        live_rates: Changes a second that W13 commits, one rate after the other.
        live_tables: Tables that they are spread over, in W13 and W14.
        live_rows: Rows of each that are updated.
        live_start: Seconds of the first rate before its warm-up: Java compiles what runs often, and
            takes minutes of load until it is done.
        live_warm_up: Seconds of each rate before those that are measured.
        live_seconds: Seconds that are measured.
        live_patience: Seconds after the last commit in which all changes have to arrive.
        landed_changes: Changes that W14 lands.
        messages: Events of each format in the decoding workloads.
        decode_repeats: Times that each format is decoded.
        rebuilds: Whether W7 rebuilds the table as well; 0 or 1.
        workloads: What is measured where no workload is asked for; empty: all.
        systems: What is measured, by name; empty: all.
    """

    repeats: int = 3
    few_repeats: int = 1
    sizes: tuple[int, ...] = (100_000, 1_000_000)
    main_sizes: tuple[int, ...] = ()
    history_rows: int = 10**9
    files: int = 16
    changes: int = 1_000
    bulk_changes: tuple[int, ...] = (10_000, 100_000)
    age_batches: int = 6
    large_tables: int = 2
    large_rows: int = 200_000
    small_tables: int = 4
    small_rows: tuple[int, int] = (2_000, 2_000)
    single_rows: int = 2_000
    many_changes: int = 0
    schedule_warm_up: int = 1
    threads: int = 4
    consumer_sizes: tuple[int, ...] = (100_000, 1_000_000)
    mode_rows: int = 1_000_000
    mode_batches: tuple[int, ...] = (1, 10, 30)
    erasure_rows: int = 1_000_000
    key_events: int = 300_000
    live_rates: tuple[int, ...] = (100, 1_000)
    live_tables: int = 3
    live_rows: int = 10_000
    live_start: int = 45
    live_warm_up: int = 15
    live_seconds: int = 15
    live_patience: int = 60
    landed_changes: int = 100_000
    messages: int = 300_000
    decode_repeats: int = 3
    rebuilds: int = 1
    workloads: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()

    def measures(self, system: str) -> bool:
        """Returns whether a system is measured, by its name."""
        return not self.systems or system in self.systems

    @property
    def main_tables(self) -> tuple[int, ...]:
        """Rows of the tables of W1 and W2."""
        return self.main_sizes or self.sizes[-1:]


SCALES = {
    # In a quarter of an hour: what needs neither large tables nor a database.
    "small": Scale(
        repeats=2,
        sizes=(100_000, 500_000),
        bulk_changes=(10_000,),
        large_tables=1,
        small_tables=5,
        messages=100_000,
        decode_repeats=2,
        workloads=("C", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "D"),
    ),
    "full": Scale(
        few_repeats=3,
        sizes=(1_000_000, 5_000_000, 100_000_000, 20_000_000),
        bulk_changes=(10_000, 100_000, 1_000_000, 5_000_000),
        age_batches=1_000,
        large_tables=6,
        large_rows=50_000_000,
        small_tables=59,
        small_rows=(100_000, 5_000_000),
        consumer_sizes=(1_000_000, 20_000_000),
        mode_rows=20_000_000,
        mode_batches=(1, 10, 100),
        erasure_rows=5_000_000,
        key_events=10_000_000,
        messages=2_000_000,
    ),
    # The sizes of the goals, in an hour on two cores: the peers that the goals name, few repeats,
    # and no table is loaded twice. The smallest table warms up what W7 measures.
    "medium": Scale(
        repeats=2,
        sizes=(50_000,),
        main_sizes=(5_000_000, 20_000_000),
        history_rows=5_000_000,
        large_tables=0,
        small_tables=65,
        many_changes=10,
        # The single table and the first load of all have warmed up Java.
        schedule_warm_up=0,
        rebuilds=0,
        workloads=("W1", "W2", "W3", "W7", "W8"),
        systems=(
            "cdc",
            "cdc_history",
            "dbt_recipe",
            "dbt_recipe_dv",
            "delta_rs",
            "spark_merge",
            "spark_replace",
            "spark_floor",
            "spark_write",
            "spark_load",
            "spark_load_history",
        ),
    ),
    # Changes out, table formats in either write mode while they age, and erasure, in an hour.
    "lake": Scale(
        repeats=2,
        consumer_sizes=(1_000_000, 20_000_000),
        mode_batches=(1, 10, 100),
        erasure_rows=5_000_000,
        workloads=("W9", "W10", "W11"),
    ),
    # First loads of what does not fit into memory, and keys that change at that size.
    "loads": Scale(
        repeats=2,
        sizes=(50_000,),
        main_sizes=(50_000_000,),
        key_events=10_000_000,
        rebuilds=0,
        workloads=("W7", "W12"),
        systems=("cdc_history", "spark_write", "spark_load_history", "article_000"),
    ),
    # A live database: five minutes of load, then each rate for a minute to warm up and another one.
    "live": Scale(
        live_rates=(10, 100, 1_000, 10_000),
        live_tables=10,
        live_rows=100_000,
        live_start=300,
        live_warm_up=60,
        live_seconds=60,
        live_patience=300,
        landed_changes=1_000_000,
        workloads=("W13", "W14"),
    ),
    # For trying out the bench itself.
    "tiny": Scale(
        repeats=1,
        sizes=(2_000, 10_000),
        files=4,
        changes=100,
        bulk_changes=(200,),
        age_batches=3,
        large_tables=1,
        large_rows=2_000,
        small_tables=1,
        small_rows=(200, 200),
        single_rows=200,
        consumer_sizes=(2_000, 10_000),
        mode_rows=2_000,
        mode_batches=(1, 3),
        erasure_rows=2_000,
        key_events=2_000,
        live_rates=(10, 100),
        live_tables=2,
        live_rows=200,
        live_start=0,
        live_warm_up=5,
        live_seconds=5,
        landed_changes=2_000,
        messages=500,
        decode_repeats=1,
    ),
}


def scale_of(name: str, changed: Iterable[str]) -> Scale:
    """Returns a scale, with some of its sizes replaced.

    Args:
        name: One of `SCALES`.
        changed: `field=value`; several values are parted by commas.

    Raises:
        click.BadParameter: There is no such field, or its value is no whole number.
    """
    scale = SCALES[name]
    values: dict[str, int | tuple[int, ...] | tuple[str, ...]] = {}
    for change in changed:
        field, _, text = change.partition("=")
        if field not in {known.name for known in dataclasses.fields(Scale)}:
            raise click.BadParameter(f"{field} is no size; see bench/scales.py.")
        if field in ("workloads", "systems"):
            values[field] = tuple(text.split(",")) if text else ()
            continue
        try:
            numbers = tuple(int(part) for part in text.split(","))
        except ValueError as exc:
            raise click.BadParameter(f"{change}: not a whole number.") from exc
        several = isinstance(getattr(scale, field), tuple)
        values[field] = numbers if several else numbers[0]
    return dataclasses.replace(scale, **values)  # type: ignore[arg-type]
