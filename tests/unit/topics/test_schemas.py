"""Schemas as Spark reads them and as Connect writes them, and which message of a file is meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dbt_spark_cdc.messages.avro_schema import AvroSchema
from dbt_spark_cdc.messages.decoding import descriptors, message_name, message_path
from dbt_spark_cdc.messages.registry import PROTOBUF, Schema
from tests.registry import varint


def avro(schema: Any, **references: Any) -> AvroSchema:
    texts = {name: json.dumps(other) for name, other in references.items()}
    return AvroSchema(json.dumps(schema), texts)


def read(schema: Any, is_plain: bool = False, **references: Any) -> Any:
    [field] = json.loads(avro(schema, **references).for_spark(is_plain))["fields"]
    return field["type"]


def record(name: str, **fields: Any) -> dict[str, Any]:
    pairs = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": pairs}


DECIMAL = {
    "type": "bytes",
    "logicalType": "decimal",
    "precision": 12,
    "scale": 2,
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "connect.parameters": {"scale": "2"},
}
MICROS = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}


def test_names_that_avro_would_refuse_do_not_matter() -> None:
    row = {**record("Value", id="int"), "namespace": "my-shop.public"}
    event = {
        **record("Envelope", before=["null", row], after=["null", "Value"]),
        "namespace": "my-shop.public",
    }
    assert read(event) == {
        "type": "record",
        "name": "type_0",
        "fields": [
            {
                "name": "before",
                "type": [
                    {"type": "null"},
                    {
                        "type": "record",
                        "name": "type_1",
                        "fields": [{"name": "id", "type": {"type": "int"}}],
                    },
                ],
            },
            {"name": "after", "type": [{"type": "null"}, "type_1"]},
        ],
    }


def test_references_are_put_in() -> None:
    money = {**DECIMAL, "type": "fixed", "name": "shop.Money", "size": 8}
    found = read(record("a.Row", price="shop.Money"), Money=money)
    kept = {"size": 8, "logicalType": "decimal", "precision": 12, "scale": 2}
    assert found["fields"][0]["type"] == {"type": "fixed", "name": "type_1", **kept}
    with pytest.raises(ValueError, match=r"there is no type shop\.Money"):
        read(record("a.Row", price="shop.Money"))


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        (DECIMAL, True),
        ({**DECIMAL, "precision": 64}, False),
        ({"type": "long", "logicalType": "timestamp-micros"}, True),
        ({"type": "long", "logicalType": "timestamp-nanos"}, False),
        ({"type": "int", "logicalType": "date"}, True),
        ({"type": "int", "logicalType": "time-millis"}, False),
        ({"type": {"type": "string", "logicalType": "uuid"}}, False),
    ],
)
def test_logical_types_that_spark_reads(schema: Any, kept: bool) -> None:
    assert ("logicalType" in read(schema)) == kept
    assert "logicalType" not in read(schema, is_plain=True)


def test_events_of_debezium_say_what_their_columns_are() -> None:
    row = record(
        "Value",
        id="int",
        price=["null", DECIMAL],
        at=MICROS,
        day={"type": "int", "logicalType": "date"},
        tags={"type": "array", "items": "string"},
    )
    event = record(
        "Envelope", before=["null", row], after=["null", "Value"], source=record("S"), op="string"
    )
    assert avro(event).is_debezium()
    assert json.loads(avro(event).for_connect()) == {
        "type": "struct",
        "fields": [
            {
                "field": "before",
                "type": "struct",
                "fields": [
                    {"field": "id", "type": "int32"},
                    {
                        "field": "price",
                        "type": "bytes",
                        "name": "org.apache.kafka.connect.data.Decimal",
                        "parameters": {"scale": "2"},
                    },
                    {"field": "at", "type": "int64", "name": MICROS["connect.name"]},
                    {"field": "day", "type": "int32", "name": "org.apache.kafka.connect.data.Date"},
                    {"field": "tags", "type": "array"},
                ],
            }
        ],
    }
    flat = record("Value", id="int", __op="string")
    assert avro(flat).is_debezium()
    assert [one["field"] for one in json.loads(avro(flat).for_connect())["fields"]] == [
        "id",
        "__op",
    ]
    assert not avro(row).is_debezium()
    assert not avro("string").is_debezium()


@pytest.mark.parametrize("path", [[0], [1], [0, 1], [2, 0, 3], [70], [1, 300]])
def test_the_numbers_before_a_protobuf_message(path: list[int]) -> None:
    written = b"".join(varint(number) for number in [len(path), *path])
    assert message_path(written) == path
    assert message_path(b"\x00") == [0]


@pytest.mark.parametrize(
    "place", [b"", b"\x02", b"\x04\x02", b"\x02\x80", b"\x01\x00", b"\x02\x02\x02"]
)
def test_numbers_that_name_no_message(place: bytes) -> None:
    with pytest.raises(ValueError, match="does not say which message"):
        message_path(place)


PROTO = """
syntax = "proto3";
package shop;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
import "google/protobuf/timestamp.proto";
import "money/money.proto";
message First { google.type.Date day = 1; }
message Second {
  message Inside { money.Money price = 1 [(confluent.field_meta) = {doc: "x"}]; }
  Inside inside = 1;
  confluent.type.Decimal decimal = 2;
}
"""
MONEY = 'syntax = "proto3"; package money; message Money { int64 cents = 1; }'


def test_a_schema_is_compiled_with_all_that_it_imports() -> None:
    described = descriptors(Schema(PROTOBUF, PROTO, {"money/money.proto": MONEY}))
    assert message_name(described, b"\x00") == "shop.First"
    assert message_name(described, b"\x02\x02") == "shop.Second"
    assert message_name(described, b"\x04\x02\x00") == "shop.Second.Inside"
    for place in (b"\x02\x04", b"\x04\x00\x00", b"\x02\x01"):
        with pytest.raises(ValueError, match="it has no message"):
            message_name(described, place)
    assert descriptors(Schema(PROTOBUF, described, {})) == described


@pytest.mark.parametrize(
    ("text", "imports", "said"),
    [
        (PROTO, {}, r"^money/money.proto: File not found"),
        ("message", {}, r"message.proto:1:"),
        (PROTO, {"../../money.proto": MONEY}, "outside of its folder"),
    ],
)
def test_a_schema_that_cannot_be_compiled(text: str, imports: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        descriptors(Schema(PROTOBUF, text, imports))
