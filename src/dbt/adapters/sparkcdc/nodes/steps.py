"""Intermediate results of a node: rows in the session, and what they tell without a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from dbt.adapters.sparkcdc.session import remote
from dbt.adapters.sparkcdc.session.cursor import literal
from dbt_common.exceptions import DbtRuntimeError

from dbt_spark_cdc.words import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# More keys make a statement longer than the rows that they exclude are worth.
MOST_LISTED = 2000
MOST_LITERAL_CHARS = 100_000
# Each group of keys is a condition of its own.
MOST_GROUPS = 50
# Types whose values are the same key to Spark only if they are the same value. Decimals are such.
BY_VALUE = frozenset(
    [
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "string",
        "binary",
        "boolean",
        "date",
        "timestamp",
        "timestamp_ntz",
    ]
)
# A long text as the border of a range only makes a statement longer.
MOST_BORDER_CHARS = 100

# Delta parses the condition of REPLACE WHERE once more, from a text in which Spark leaves keywords
# without backticks. These words are no names there.
NOT_NAMES = frozenset(["false", "from", "not", "null", "select", "true", "values"])

_numbers = count(1)


@dataclass(frozen=True)
class Step:
    """An intermediate result.

    Attributes:
        relation: The temporary view that reads it, unique in the process.
        rows: Its rows, where there are few; None where Spark keeps them.
    """

    relation: str
    rows: pa.Table | None

    def __str__(self) -> str:
        return self.relation


def keep(spark: SparkSession, name: str, frame: DataFrame, few: bool) -> Step:
    """Computes a query once, and shows the result as a temporary view.

    Args:
        spark: The session of the node.
        name: What the rows are, for people who read plans.
        frame: The query.
        few: Whether it has few rows: they go through this process's memory, and the statements that
            read them are planned for what they are. Otherwise Spark keeps them, and spills.
    """
    frame = _with_nulls(frame) if few else frame
    rows = frame.toArrow() if few else None
    if rows is not None and remote.is_remote(spark):
        rows = with_all_buffers(rows)
    kept = frame.localCheckpoint() if rows is None else spark.createDataFrame(rows, frame.schema)
    return show(name, kept, rows)


def planned_apart(spark: SparkSession, name: str, frame: DataFrame) -> Step:
    """Shows a query as rows that are planned already, and computed when somebody reads them.

    Delta plans no scan inside a write to a table of another catalog, and refuses to read a table
    there that has deletion vectors. The query as a plan of its own has such scans.

    Args:
        spark: The session of the node, inside this process.
        name: What the rows are.
        frame: The query.
    """
    return show(name, of_plan(spark, frame), None)


def of_plan(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Returns the rows of a query that is planned already, as a frame of a session.

    Args:
        spark: The session, inside this process.
        frame: The query, of this or another session.
    """
    from pyspark.sql import DataFrame

    plan = frame._jdf.queryExecution()
    session = spark._jsparkSession
    rows = session.internalCreateDataFrame(plan.toRdd(), frame._jdf.schema(), False)
    return DataFrame(rows, spark)


def with_all_buffers(rows: pa.Table) -> pa.Table:
    """Copies rows that came from a server.

    Java writes no offsets for a list inside a list where there are none. Arrow reads them where it
    counts bytes, as a session of a server does before it sends rows back, and the process crashes.

    Args:
        rows: The rows.
    """
    # What is put together of two parts is copied, with all offsets.
    return pa.concat_tables([rows, rows.slice(0, 0)]).combine_chunks()


def _with_nulls(frame: DataFrame) -> DataFrame:
    """Arrow takes no NULL for a struct whose fields have none, as a NOT NULL column makes it."""
    wanted = _nullable(frame.schema)
    return frame if wanted == frame.schema else frame.to(wanted)


def _nullable(kind: Any, inside: bool = False) -> Any:
    from pyspark.sql.types import ArrayType, StructField, StructType

    if isinstance(kind, StructType):
        return StructType(
            [
                StructField(f.name, _nullable(f.dataType, True), f.nullable or inside)
                for f in kind.fields
            ]
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), kind.containsNull)
    return kind


def show(name: str, frame: DataFrame, rows: pa.Table | None) -> Step:
    """Shows a computed result as a temporary view.

    Args:
        name: What the rows are.
        frame: The result.
        rows: Its rows, where this process has them.
    """
    step = Step(f"cdc_{name}_{next(_numbers)}", rows)
    frame.createOrReplaceTempView(step.relation)
    return step


def event_facts(rows: pa.Table, key: str, end: str | None) -> dict[str, Any]:
    """Counts new events, and finds where their keys are.

    Args:
        rows: New events, as the fold reads them.
        key: The first key column.
        end: What literals of its type end with: `L`, say, or `'` for text. None for types whose
            literals do not mean the same under all settings.

    Returns:
        `good`: events without the ends of moved keys. `truncates`: rows. `truncate_events`:
        different ones. `partial`: whether an event leaves columns unset. `relabeled`: rows that are
        events which were of another row of the source before. `bounds`: `key`, `low`, `high` and
        `listed` as literals; None where the keys cannot be listed.
    """
    operation = rows["_op"]
    is_good = pc.not_equal(operation, "M")
    relabeled = 0
    if "_former_entity_ids" in rows.column_names:
        is_relabeled = pc.greater(pc.list_value_length(rows["_former_entity_ids"]), 0)
        is_good = pc.and_(is_good, pc.invert(is_relabeled))
        relabeled = _count(is_relabeled)
    is_truncate = pc.equal(operation, "T")
    truncates = rows.filter(is_truncate)["_event_id"]
    unset = pc.list_value_length(rows["_unset"])
    return {
        "good": _count(is_good),
        "truncates": len(truncates),
        "truncate_events": len(truncates.unique()),
        "partial": bool(pc.any(pc.greater(unset, 0)).as_py()),
        "relabeled": relabeled,
        "bounds": key_bounds(rows[key], key, end),
    }


def has_single_events(rows: pa.Table, keys: Mapping[str, str]) -> bool:
    """Whether no two events have the same key.

    Args:
        rows: New events, as the fold reads them.
        keys: The key columns with their types in SQL.

    Returns:
        False as well where Spark may take keys for the same that are different values: texts with
        a collation or a fixed length, and floating-point numbers.
    """
    if not all(kind in BY_VALUE or kind.startswith("decimal(") for kind in keys.values()):
        return False
    # Arrow takes a name that begins with a dot for a path.
    numbered = [str(number) for number in range(len(keys))]
    found = rows.select(list(keys)).rename_columns(numbered).group_by(numbered).aggregate([])
    return found.num_rows == rows.num_rows


def key_bounds(values: pa.ChunkedArray, key: str, end: str | None) -> dict[str, Any] | None:
    """Returns where keys are, as literals: their range, and a list where they are few.

    Args:
        values: The keys; NULL is none.
        key: The column's name.
        end: See `event_facts`.

    Returns:
        None where there are no keys, or a condition cannot name them.
    """
    keys = values.drop_null().unique()
    if end is None or not len(keys) or not _is_readable(keys) or not _can_name(key):
        return None
    # Spark compares texts by their bytes.
    texts = sorted(keys.to_pylist(), key=lambda v: v.encode() if isinstance(v, str) else v)
    if max(len(str(texts[0])), len(str(texts[-1]))) > MOST_BORDER_CHARS:
        return None
    listed = _literals(texts, end) if len(texts) <= MOST_LISTED else []
    low, high = _literals([texts[0], texts[-1]], end)
    return {
        "key": quoted(key),
        "low": low,
        "high": high,
        "listed": listed if sum(map(len, listed)) <= MOST_LITERAL_CHARS else [],
    }


def change_facts(rows: pa.Table, kind: str) -> dict[str, Any]:
    """Counts changes, and what the new events did.

    Args:
        rows: Changes of a table.
        kind: The column that says what a change is.

    Returns:
        `kinds`: how many of each. `effects`: sums of the fields of `_effects`.
    """
    kinds = {pair["values"]: pair["counts"] for pair in pc.value_counts(rows[kind]).to_pylist()}
    effects: dict[str, int] = {}
    column = rows["_effects"].drop_null()
    for field in column.type:
        values = [pc.struct_field(chunk, field.name) for chunk in column.chunks]
        effects[field.name] = sum(int(pc.sum(chunk).as_py() or 0) for chunk in values)
    return {"kinds": kinds, "effects": effects}


def current_facts(rows: pa.Table) -> dict[str, int]:
    """Counts the changes of a final table: all of them, and those of known rows.

    Args:
        rows: Rows with `_current_op`, NULL where nothing changes, and `_is_known`.
    """
    changed = rows.filter(rows["_current_op"].is_valid())
    return {"changed": len(changed), "touched": _count(changed["_is_known"])}


def partition_condition(rows: pa.Table) -> str:
    """Returns a condition that is true of the rows of some partitions, and of no others.

    Args:
        rows: The values of the partition columns, a row a partition.

    Raises:
        DbtRuntimeError: A partition column has a name that such a condition cannot have.
    """
    for name in rows.column_names:
        if not _can_name(name):
            raise DbtRuntimeError(
                f"cdc: Delta cannot overwrite partitions of a column named `{name}`, a word of SQL."
                " Nothing was written. Rename the column, or use `incremental_strategy: merge`."
            )
    names = [quoted(name) for name in rows.column_names]
    partitions = []
    for values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        parts = [
            f"{name} is null" if value is None else f"{name} = {literal(value)}"
            for name, value in zip(names, values, strict=True)
        ]
        partitions.append(f"({' and '.join(parts)})")
    return f"({' or '.join(partitions) or 'false'})"


def partition_specs(rows: pa.Table) -> str:
    """Returns what names some partitions in ALTER TABLE, nothing where there are none.

    Args:
        rows: The values of the partition columns, a row a partition.
    """
    specs = []
    for partition in rows.to_pylist():
        values = ", ".join(
            f"{quoted(name)} = {literal(value)}" for name, value in partition.items()
        )
        specs.append(f"partition ({values})")
    return ", ".join(specs)


def has_any(rows: pa.Table, column: str, value: bool) -> bool:
    """Returns whether a boolean column has a value somewhere.

    Args:
        rows: Rows of a step.
        column: The column.
        value: True or False.
    """
    return bool(pc.any(pc.equal(rows[column], value)).as_py())


def rows_where(rows: pa.Table, column: str, values: Sequence[Any]) -> pa.Table:
    """Returns the rows whose column has one of some values.

    Args:
        rows: Rows of a step.
        column: The column.
        values: The values.
    """
    return rows.filter(pc.is_in(rows[column], value_set=pa.array(values)))


def listing(rows: pa.Table, columns: Sequence[tuple[str, str | None]]) -> str | None:
    """Returns a condition that is true of rows with one of these keys, and of no others.

    Args:
        rows: Rows of a step; no key is NULL.
        columns: Key columns, each with what its literals end with, as for `event_facts`.

    Returns:
        None where the keys are too many, or a condition cannot name them.
    """
    if len(rows) > MOST_LISTED:
        return None
    if any(end is None or not _can_name(name) for name, end in columns):
        return None
    if any(rows[name].null_count or not _is_readable(rows[name]) for name, _ in columns):
        return None
    names = [quoted(name) for name, _ in columns]
    values = [_literals(rows[name].to_pylist(), end) for name, end in columns]
    keys = _is_one_of(names, list(zip(*values, strict=True)))
    bounds = key_bounds(rows[columns[0][0]], *columns[0])
    if keys is None or len(keys) > MOST_LITERAL_CHARS:
        return None
    if bounds is None:
        return keys
    return f"{names[0]} between {bounds['low']} and {bounds['high']} and {keys}"


def _is_one_of(names: list[str], keys: list[tuple[str, ...]]) -> str | None:
    """Delta takes a list for one column only: further columns are grouped by their values."""
    if len(names) == 1:
        return f"{names[0]} in ({', '.join(key[0] for key in keys)})"
    fewest = min(range(len(names)), key=lambda place: len({key[place] for key in keys}))
    groups: dict[str, list[tuple[str, ...]]] = {}
    for key in keys:
        groups.setdefault(key[fewest], []).append(key[:fewest] + key[fewest + 1 :])
    if len(groups) > MOST_GROUPS:
        return None
    others = names[:fewest] + names[fewest + 1 :]
    conditions = []
    for value, rest in groups.items():
        inner = _is_one_of(others, rest)
        if inner is None:
            return None
        conditions.append(f"({names[fewest]} = {value} and {inner})")
    return f"({' or '.join(conditions)})"


def _can_name(column: str) -> bool:
    """Whether a condition of REPLACE WHERE can name a column."""
    return column.lower() not in NOT_NAMES


def _is_readable(values: pa.ChunkedArray | pa.Array) -> bool:
    """Whether texts are UTF-8. Spark keeps others as they are, and no literal can say them."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _literals(values: Sequence[Any], end: str | None) -> list[str]:
    return [literal(value) if end == "'" else f"{value}{end}" for value in values]


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(pc.cast(mask, pa.int64())).as_py() or 0)
