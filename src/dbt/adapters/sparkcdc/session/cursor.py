"""A database cursor over a Spark session."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

Row = tuple[Any, ...]


class Cursor:
    """Runs statements of one session; commands at once and once, queries when rows are wanted."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frame: DataFrame | None = None
        self._rows: list[Row] | None = None

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Runs a command, or prepares a query.

        Args:
            sql: One statement; with bindings, `%s` stands for each value.
            bindings: The values, written into the statement as literals.
        """
        statement = sql.strip().removesuffix(";")
        if bindings is not None:
            statement %= tuple(literal(value) for value in bindings)
        self.close()
        self._frame = self._spark.sql(statement)

    @property
    def frame(self) -> DataFrame:
        """The statement's result, not yet computed if it is a query."""
        assert self._frame is not None
        return self._frame

    def run(self) -> None:
        """Runs a query for its effect alone, for instance `select assert_true(...)`."""
        if self._frame is not None and self._rows is None and not self._is_command():
            self._frame.write.format("noop").mode("overwrite").save()

    @property
    def description(self) -> list[tuple[Any, ...]]:
        """Name, type and nullability of each column, as DB-API 2.0 orders them."""
        if self._frame is None:
            return []
        return [
            (field.name, field.dataType.simpleString(), None, None, None, None, field.nullable)
            for field in self._frame.schema.fields
        ]

    @property
    def rows_affected(self) -> int | None:
        """Rows that the statement changed, where Spark tells it."""
        if self._frame is None or "num_affected_rows" not in self._frame.columns:
            return None
        if not self._is_command():
            return None
        position = self._frame.columns.index("num_affected_rows")
        return next((row[position] for row in self.fetchall()), None)

    def fetchall(self) -> list[Row]:
        """Returns all rows as plain Python values."""
        if self._rows is None:
            self._rows = [] if self._frame is None else self._plain(self._frame.collect())
        return self._rows

    def fetchmany(self, size: int) -> list[Row]:
        """Returns the first rows.

        Args:
            size: How many at most.
        """
        if self._rows is None and self._frame is not None and not self._is_command():
            return self._plain(self._frame.take(size))
        return self.fetchall()[:size]

    def fetchone(self) -> Row | None:
        """Returns the first row, or None where there is none."""
        return next(iter(self.fetchall()), None)

    def close(self) -> None:
        """Lets go of the result."""
        self._frame = self._rows = None

    def _is_command(self) -> bool:
        """Whether Spark has run the statement already, so that its result is at hand."""
        frame = self._frame
        assert frame is not None
        if not hasattr(frame, "_jdf"):  # Connect holds on to the result of a command
            return type(frame._plan).__name__ == "CachedRelation"
        plan = frame._jdf.queryExecution().commandExecuted()
        return bool(plan.getClass().getSimpleName() == "CommandResult")

    def _plain(self, rows: Sequence[Row]) -> list[Row]:
        assert self._frame is not None
        convert = [converter(field.dataType) for field in self._frame.schema.fields]
        return [tuple(f(v) for f, v in zip(convert, row, strict=True)) for row in rows]


def literal(value: Any) -> str:
    """Returns a value as a literal of Spark SQL that reads back as the same value.

    Args:
        value: None, text, number, boolean, date or timestamp.

    Raises:
        TypeError: A value of another type.
    """
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case float():
            return f"double('{value!r}')"
        case str():
            # Spark puts variables into the text of a statement before it reads it.
            escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
            return f"'{escaped}'"
        case dt.datetime():
            return f"timestamp'{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"date'{value.isoformat()}'"
    raise TypeError(f"No Spark literal for {value!r} of type {type(value).__name__}")


def converter(kind: DataType) -> Callable[[Any], Any]:
    """Returns the function that makes plain values of a Spark type's values.

    Args:
        kind: Type of a column, or of what it holds.
    """
    from pyspark.sql import types

    if isinstance(kind, types.TimestampType):
        return _utc
    if isinstance(kind, types.BinaryType):
        return _nullable(lambda value: bytes(value).hex())
    if isinstance(kind, types.ArrayType):
        item = converter(kind.elementType)
        return _nullable(lambda values: [item(value) for value in values])
    if isinstance(kind, types.MapType):
        key, item = converter(kind.keyType), converter(kind.valueType)
        return _nullable(lambda pairs: {key(k): item(v) for k, v in pairs.items()})
    if isinstance(kind, types.StructType):
        fields = [(field.name, converter(field.dataType)) for field in kind.fields]
        return _nullable(lambda row: {name: f(v) for (name, f), v in zip(fields, row, strict=True)})
    if isinstance(kind, types.VariantType):
        return _nullable(lambda value: value.toJson())
    return lambda value: value


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _utc(value: dt.datetime | None) -> dt.datetime | None:
    """Spark hands timestamps over in the machine's zone, and without saying so."""
    return value and value.astimezone(dt.timezone.utc).replace(tzinfo=None)
