"""Avro schemas: as Spark reads them, and as Kafka Connect would write them beside JSON.

Debezium's values become the JSON that Connect's own converter writes: numbers and bytes as they are
stored, and beside them a schema that says what they mean. So nothing is rounded, and what a column
holds need not be declared. In all other values Spark reads the logical types that it knows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

PRIMITIVES = {
    "null": "null",
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
}
OTHERS = {"record": "struct", "enum": "string", "fixed": "bytes", "array": "array", "map": "map"}
NAMED = ("record", "enum", "fixed")
SPARKS_DIGITS = 38
TIMES = ("date", "timestamp-", "local-timestamp-")
# What a logical type means where Connect has not said it.
CONNECT = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
}
# What a value is called that Spark reads: a record of one field has the same bytes as the field.
PAYLOAD = "payload"


class AvroSchema:
    """A schema with all that it refers to."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self.named: dict[str, tuple[dict[str, Any], str]] = {}
        for other in references.values():
            self._collect(json.loads(other), "")
        self.root = json.loads(text)
        self._collect(self.root, "")

    def for_spark(self, is_plain: bool) -> str:
        """Returns a schema of the same bytes, whose types have names that any reader accepts.

        Args:
            is_plain: Whether numbers and bytes stay what they are, without their logical type.
        """
        field = {"name": PAYLOAD, "type": self._for_spark(self.root, "", {}, is_plain)}
        return json.dumps({"type": "record", "name": "message", "fields": [field]})

    def is_debezium(self) -> bool:
        """Whether it describes events of Debezium, flattened or not."""
        names = {field["name"] for field in self._fields(self.root, "")[0]}
        return {"op", "source"} <= names or bool({"__op", "__deleted"} & names)

    def for_connect(self) -> str:
        """Returns what Connect would say of the values: names, types and their parameters.

        Of an event it describes the row alone. Nobody reads the rest, which is as long.
        """
        fields, space = self._fields(self.root, "")
        images = [field for field in fields if field["name"] in ("before", "after")]
        described = [self._for_connect(field, space, depth=1) for field in images[:1] or fields]
        return json.dumps({"type": "struct", "fields": described}, separators=(",", ":"))

    def _collect(self, schema: Any, space: str) -> None:
        """Finds the types that have names."""
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch, space)
        elif isinstance(schema, dict):
            kind = schema.get("type")
            if kind in NAMED:
                name, space = _full_name(schema, space)
                self.named.setdefault(name, (schema, space))
            for field in schema.get("fields", []):
                self._collect(field["type"], space)
            for inner in (kind, schema.get("items"), schema.get("values")):
                if not isinstance(inner, str):
                    self._collect(inner, space)

    def _found(self, schema: Any, space: str) -> tuple[Any, str]:
        """A schema itself where it is named only, or wrapped in another mapping."""
        if isinstance(schema, str) and schema not in PRIMITIVES:
            full = f"{space}.{schema}"
            name = full if "." not in schema and full in self.named else schema
            if name not in self.named:
                raise ValueError(f"there is no type {schema}")
            return self.named[name]
        if isinstance(schema, dict) and not isinstance(schema["type"], str):
            return self._found(schema["type"], space)
        if isinstance(schema, dict) and schema["type"] not in {*PRIMITIVES, *OTHERS}:
            return self._found(schema["type"], space)
        if isinstance(schema, dict) and schema["type"] in NAMED:
            return schema, _full_name(schema, space)[1]
        return ({"type": schema} if isinstance(schema, str) else schema), space

    def _one(self, schema: Any, space: str) -> tuple[Any, str]:
        """A schema without the union that makes it optional."""
        if isinstance(schema, list):
            schema = next((branch for branch in schema if branch != "null"), "null")
        return self._found(schema, space)

    def _fields(self, schema: Any, space: str) -> tuple[list[dict[str, Any]], str]:
        found, space = self._one(schema, space)
        return found.get("fields", []), space

    def _for_spark(self, schema: Any, space: str, known: dict[str, str], is_plain: bool) -> Any:
        if isinstance(schema, list):
            return [self._for_spark(branch, space, known, is_plain) for branch in schema]
        found, space = self._found(schema, space)
        kind = found["type"]
        more: dict[str, Any] = {}
        if kind in NAMED:
            name = _full_name(found, space)[0]
            if name in known:
                return known[name]
            more["name"] = known[name] = f"type_{len(known)}"
        if kind == "record":
            more["fields"] = [
                {
                    "name": field["name"],
                    "type": self._for_spark(field["type"], space, known, is_plain),
                }
                for field in found["fields"]
            ]
        for part in ("items", "values"):
            if part in found:
                more[part] = self._for_spark(found[part], space, known, is_plain)
        kept = ["symbols", "size"]
        if not is_plain and _spark_knows(found):
            kept += ["logicalType", "precision", "scale"]
        return {"type": kind, **more, **{name: found[name] for name in kept if name in found}}

    def _for_connect(self, field: Mapping[str, Any], space: str, depth: int) -> dict[str, Any]:
        found, space = self._one(field["type"], space)
        kind = {**PRIMITIVES, **OTHERS}[found["type"]]
        said: dict[str, Any] = {"field": field["name"], "type": kind}
        logical = found.get("logicalType")
        if name := found.get("connect.name") or CONNECT.get(str(logical)):
            said["name"] = name
        parameters = found.get("connect.parameters")
        if logical == "decimal" and not parameters:
            parameters = {"scale": str(found.get("scale", 0))}
        if parameters:
            said["parameters"] = parameters
        if found["type"] == "record" and depth:
            said["fields"] = [self._for_connect(one, space, depth - 1) for one in found["fields"]]
        return said


def _full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The name of a type with its namespace, and the namespace."""
    name = schema["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    space = schema.get("namespace", space)
    return (f"{space}.{name}" if space else name), space


def _spark_knows(schema: Mapping[str, Any]) -> bool:
    logical = str(schema.get("logicalType"))
    if logical == "decimal":
        return bool(schema.get("precision", 0) <= SPARKS_DIGITS)
    return logical.startswith(TIMES) and not logical.endswith("-nanos")
