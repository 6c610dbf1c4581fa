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
        repeats: Measured batches of W1 and W2; the median of them is told.
        few_repeats: Those of the smaller tables of W4, and measured builds of W3 and W8.
        sizes: Rows of W4's tables; the last one is the table of W1, W2, W5, W6 and W7.
        files: Files that each Delta table is laid out in.
        changes: Changes of a batch.
        bulk_changes: Further sizes of a batch, for W5.
        age_batches: Batches of W6.
        large_tables: Number of large tables of W3 and W8.
        large_rows: Rows of each.
        small_tables: Number of small tables.
        small_rows: Rows of the smallest and the largest small table.
        threads: dbt's threads in W3 and W8.
        messages: Events of each format in the decoding workloads.
        decode_repeats: Times that each format is decoded.
    """

    repeats: int = 3
    few_repeats: int = 1
    sizes: tuple[int, ...] = (100_000, 1_000_000)
    files: int = 16
    changes: int = 1_000
    bulk_changes: tuple[int, ...] = (10_000, 100_000)
    age_batches: int = 6
    large_tables: int = 2
    large_rows: int = 200_000
    small_tables: int = 4
    small_rows: tuple[int, int] = (2_000, 2_000)
    threads: int = 4
    messages: int = 300_000
    decode_repeats: int = 3


SCALES = {
    "small": Scale(),
    "full": Scale(
        few_repeats=3,
        sizes=(1_000_000, 5_000_000, 100_000_000, 20_000_000),
        bulk_changes=(10_000, 100_000, 1_000_000, 5_000_000),
        age_batches=1_000,
        large_tables=6,
        large_rows=50_000_000,
        small_tables=59,
        small_rows=(100_000, 5_000_000),
        messages=2_000_000,
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
    values: dict[str, int | tuple[int, ...]] = {}
    for change in changed:
        field, _, text = change.partition("=")
        if field not in {known.name for known in dataclasses.fields(Scale)}:
            raise click.BadParameter(f"{field} is no size; see bench/scales.py.")
        try:
            numbers = tuple(int(part) for part in text.split(","))
        except ValueError as exc:
            raise click.BadParameter(f"{change}: not a whole number.") from exc
        several = isinstance(getattr(scale, field), tuple)
        values[field] = numbers if several else numbers[0]
    return dataclasses.replace(scale, **values)  # type: ignore[arg-type]
