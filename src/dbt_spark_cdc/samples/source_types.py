"""Spark types for the types that sources name, and for values where they name none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

WIDEST_DECIMAL = 38
BIGINT_DIGITS = 18
# PostgreSQL's numeric without precision holds anything; what does not fit is quarantined.
UNBOUNDED_NUMERIC = "decimal(38,10)"

# Names of PostgreSQL.
_NAMED = {
    "smallint": "smallint",
    "int2": "smallint",
    "smallserial": "smallint",
    "int": "int",
    "integer": "int",
    "int4": "int",
    "serial": "int",
    "bigint": "bigint",
    "int8": "bigint",
    "bigserial": "bigint",
    "oid": "bigint",
    "real": "float",
    "float4": "float",
    "double precision": "double",
    "float": "double",
    "float8": "double",
    "boolean": "boolean",
    "bool": "boolean",
    "date": "date",
    "timestamp with time zone": "timestamp",
    "timestamptz": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
    "bytea": "binary",
}
# Names of MySQL. REAL is a double there, SERIAL an unsigned bigint, and BOOLEAN a tinyint.
_MYSQL = {
    "tinyint": "tinyint",
    "tinyint unsigned": "smallint",
    "bool": "tinyint",
    "boolean": "tinyint",
    "smallint": "smallint",
    "smallint unsigned": "int",
    "mediumint": "int",
    "mediumint unsigned": "int",
    "int": "int",
    "int unsigned": "bigint",
    "integer": "int",
    "integer unsigned": "bigint",
    "bigint": "bigint",
    "bigint unsigned": "decimal(20,0)",
    "serial": "decimal(20,0)",
    "year": "int",
    "float": "float",
    "float unsigned": "float",
    "double": "double",
    "double unsigned": "double",
    "double precision": "double",
    "double precision unsigned": "double",
    "real": "double",
    "real unsigned": "double",
    "date": "date",
    "datetime": "timestamp_ntz",
    "timestamp": "timestamp",
    "binary": "binary",
    "varbinary": "binary",
    "tinyblob": "binary",
    "blob": "binary",
    "mediumblob": "binary",
    "longblob": "binary",
}
_DEBEZIUM = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "boolean": "boolean",
    "bytes": "binary",
}
_DEBEZIUM_LOGICAL = {
    "io.debezium.time.Date": "date",
    "org.apache.kafka.connect.data.Date": "date",
    "io.debezium.time.Timestamp": "timestamp_ntz",
    "io.debezium.time.MicroTimestamp": "timestamp_ntz",
    "io.debezium.time.NanoTimestamp": "timestamp_ntz",
    "org.apache.kafka.connect.data.Timestamp": "timestamp_ntz",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.IsoDate": "date",
    "io.debezium.time.IsoTimestamp": "timestamp_ntz",
    "io.debezium.time.Year": "int",
    # Since midnight, in the unit of their name.
    "io.debezium.time.Time": "int",
    "org.apache.kafka.connect.data.Time": "int",
    "io.debezium.time.MicroTime": "bigint",
    "io.debezium.time.NanoTime": "bigint",
    "io.debezium.data.Bits": "binary",
}
_DATE = r"\d{4}-\d\d-\d\d"
_SHAPES = (
    ("boolean", re.compile(r"true|false", re.I)),
    # Digits behind a leading zero are a code, not a number.
    ("bigint", re.compile(rf"-?(0|[1-9]\d{{0,{BIGINT_DIGITS - 1}}})")),
    (f"decimal({WIDEST_DECIMAL},0)", re.compile(rf"-?[1-9]\d{{0,{WIDEST_DECIMAL - 1}}}")),
    ("decimal", re.compile(r"-?(0|[1-9]\d*)\.\d+")),
    ("double", re.compile(r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?")),
    ("date", re.compile(_DATE)),
    ("timestamp", re.compile(rf"{_DATE}[T ]\d\d:\d\d(:\d\d(\.\d+)?)? ?(Z|UTC|[-+]\d\d(:?\d\d)?)")),
    ("timestamp_ntz", re.compile(rf"{_DATE}[T ]\d\d:\d\d(:\d\d(\.\d+)?)?")),
)


def of_database(name: str, mysql: bool = False) -> str:
    """Returns the Spark type for a type of PostgreSQL or MySQL.

    Args:
        name: As the source writes it: `character varying(30)`, `numeric(12,2)`, `int(11)`.
        mysql: Whether the source is MySQL, whose `timestamp` has a time zone.
    """
    lowered = " ".join(name.lower().split())
    digits = re.search(r"\(\s*(\d+)\s*(?:,\s*(-?\d+)\s*)?\)", lowered)
    plain = re.sub(r"\s*\(.*?\)", "", lowered).replace(" zerofill", " ").strip()
    if mysql:
        plain = " ".join(plain.replace(" signed", "").split())
    if re.fullmatch(r"(numeric|decimal|dec|fixed)( unsigned)?", plain):
        if not digits:
            return "decimal(10,0)" if mysql else UNBOUNDED_NUMERIC
        precision, scale = int(digits[1]), max(int(digits[2] or 0), 0)
        return f"decimal({precision},{scale})" if precision <= WIDEST_DECIMAL else "string"
    if plain == "timestamp" and not mysql:
        return "timestamp_ntz"
    return (_MYSQL if mysql else _NAMED).get(plain, "string")


def of_debezium(field: Mapping[str, Any]) -> str:
    """Returns the Spark type for a field of a Debezium schema.

    Args:
        field: Its entry: `{type, name, parameters}`.
    """
    logical = str(field.get("name") or "")
    if logical == "org.apache.kafka.connect.data.Decimal":
        parameters = field.get("parameters") or {}
        scale = int(parameters.get("scale", 0))
        precision = int(parameters.get("connect.decimal.precision", WIDEST_DECIMAL))
        return f"decimal({min(precision, WIDEST_DECIMAL)},{scale})"
    if logical:
        return _DEBEZIUM_LOGICAL.get(logical, "string")
    return _DEBEZIUM.get(str(field.get("type")), "string")


def of_values(values: Iterable[Any], texts: bool) -> str:
    """Returns a Spark type that holds all values; empty without any.

    Args:
        values: Values of one column; None is passed over.
        texts: Whether the source writes everything as text, so that digits may be a number.
    """
    given = [value for value in values if value is not None]
    if not given:
        return ""
    if all(isinstance(value, bool) for value in given):
        return "boolean"
    if all(isinstance(value, int) and not isinstance(value, bool) for value in given):
        wide = any(abs(value) >= 2**63 for value in given)
        return f"decimal({WIDEST_DECIMAL},0)" if wide else "bigint"
    if all(isinstance(value, (int, float, Decimal)) for value in given):
        return "double"
    for kind, name in ((datetime, "timestamp"), (date, "date"), (bytes, "binary")):
        if all(isinstance(value, kind) for value in given):
            return name
    if not all(isinstance(value, str) for value in given):
        return "string"
    for name, shape in _SHAPES:
        if (texts or name in ("date", "timestamp", "timestamp_ntz")) and all(
            shape.fullmatch(value.strip()) for value in given
        ):
            return _decimal(given) if name == "decimal" else name
    return "string"


def _decimal(texts: Iterable[str]) -> str:
    scales = {len(text.strip().rpartition(".")[2]) for text in texts}
    return f"decimal(18,{scales.pop()})" if len(scales) == 1 and max(scales) <= 6 else "double"
