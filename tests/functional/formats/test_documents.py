"""Events of Debezium's connector for MongoDB, and rows that say which columns they changed."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any, ClassVar

from tests.functional.formats.decoding import Decoding, events, reasons

OID = {"$oid": "596e275826f08b2730779e1f"}
# Values as MongoDB writes them in its strict mode, and in its newer one.
STRICT = {
    "big": {"$numberLong": "12345678901"},
    "price": {"$numberDecimal": "12.50"},
    "at": {"$date": 1558965508123},
    "bytes": {"$binary": "aGk=", "$type": "00"},
    "tags": ["a", "b"],
    "address": {"city": "Bonn", "since": {"$date": 1558965508123}},
}
RELAXED = {
    "big": 12345678901,
    "price": {"$numberDouble": "12.5"},
    "at": {"$date": "2019-05-27T13:58:28.123Z"},
    "bytes": {"$binary": {"base64": "aGk=", "subType": "00"}},
    "tags": [],
    "address": None,
}
CANONICAL = {"big": {"$numberInt": "7"}, "at": {"$date": {"$numberLong": "1558965508123"}}}


def document(fields: Any) -> str | None:
    return None if fields is None else json.dumps(fields)


def change(op: str, order: int, after: Any = None, before: Any = None, **more: Any) -> dict:
    """An event with its message key beside it."""
    key = more.pop("key", {"id": json.dumps(OID)})
    source = {
        "connector": "mongodb",
        "db": "inventory",
        "collection": more.pop("collection", "customers"),
        "ts_ms": 1558965508000,
        "ord": order,
    }
    value = {
        "before": document(before),
        "after": document(after),
        "source": source,
        "op": op,
        "ts_ms": 1558965515240,
        **more,
    }
    return {**value, "key": key}


def updated(
    order: int, fields: Any = None, removed: Any = None, cut: Any = None, **more: Any
) -> dict:
    """An update that carries what it changed, and not the whole document."""
    description = {
        "removedFields": removed,
        "updatedFields": document(fields),
        "truncatedArrays": cut and [{"field": name, "size": 1} for name in cut],
    }
    return change("u", order, updateDescription=description, **more)


class TestDocuments(Decoding):
    columns: ClassVar[dict[str, str]] = {
        "_id": "string",
        "name": "string",
        "big": "bigint",
        "price": "decimal(10,2)",
        "at": "timestamp",
        "bytes": "binary",
        "tags": "array<string>",
        "address": "string",
    }
    sources: ClassVar[dict[str, Any]] = {
        "customers": {
            "format": "debezium",
            "keys": ["_id"],
            "source_table": "inventory.customers",
            "message_key": "get_json_object(value, '$.key')",
            "columns": columns,
        },
        "numbered": {
            "format": "debezium",
            "keys": ["_id"],
            "source_table": "numbered",
            "message_key": "get_json_object(value, '$.key')",
            "columns": {"_id": "bigint", "name": "string"},
        },
        "stated": {
            "format": "flagged",
            "keys": ["id"],
            "sequence_by": "nr",
            "operation": "flag",
            "changed_columns": "changed",
            "renames": {"b": "old_b"},
            "columns": {"id": "int", "A": "string", "b": "string"},
        },
    }
    raw: ClassVar[dict[str, Any]] = {
        "customers": [
            change("r", 1, {"_id": OID, "name": "a", **STRICT, "unknown": 1}),
            change("u", 2, {"_id": OID, "name": "b", **RELAXED}, {"_id": OID, "name": "a"}),
            # A whole document without a field has none, though the one before it had.
            change("u", 3, {"_id": OID, **CANONICAL}, {"_id": OID, "name": "b"}),
            # In an envelope.
            {
                "schema": None,
                "payload": updated(4, {"name": "c", "other.x": 1}, ["price", "other.y"]),
                "key": {"payload": {"id": json.dumps(OID)}},
            },
            change("u", 5, filter=json.dumps({"_id": OID}), updateDescription={}, key=None),
            change("d", 6),
            change("d", 7, None, {"_id": OID, "name": "c"}, key=None),
            change("d", 8, key=None),
            updated(9, {"address.city": "Ulm"}),
            updated(9, None, ["address.city"]),
            updated(9, {"name": "d"}, cut=["tags"]),
            change("u", 9),
            change("c", 9, {"_id": OID, "at": {"$date": {"$numberLong": "9" * 19}}}),
            {**change("c", 9), "after": "{"},
            {**change("c", 9), "after": 5},
            change("c", 9, {"_id": OID}, collection="orders"),
        ],
        "numbered": [
            change("c", 1, {"_id": 7, "name": "a"}, collection="numbered"),
            change("c", 2, {"_id": {"$numberLong": "8"}}, collection="numbered"),
            updated(3, {"name": "b"}, key={"id": "7"}, collection="numbered"),
            change("d", 4, key={"id": '{"$numberLong":"8"}'}, collection="numbered"),
        ],
        "stated": """
            select * from values
                ('I', 1, 1, 'a', 'b', null), ('U', 1, 2, 'c', 'x', 'A, id'),
                ('U', 1, 3, 'x', 'd', 'OLD_B'),
                ('U', 1, 4, 'x', 'x', ''), ('U', 1, 5, 'e', 'f', null), ('I', 2, 6, 'a', 'b', 'A'),
                ('D', 1, 7, null, null, 'A')
            as t (flag, id, nr, a, old_b, changed)
        """,
    }

    def test_documents(self, built: Any) -> None:
        at = dt.datetime(2019, 5, 27, 13, 58, 28, 123000)
        found = built("stg_customers")
        columns = [name for name in self.columns if name != "_id"]
        assert {row["_id"] for row in found} == {OID["$oid"]}
        nested = json.dumps(STRICT["address"], separators=(",", ":"))
        nothing = (None,) * 7
        assert [row[:-1] for row in events(found, *columns, "_unset")] == [
            ("I", "a", 12345678901, Decimal("12.50"), at, b"hi", ["a", "b"], nested),
            ("U", "b", 12345678901, Decimal("12.50"), at, b"hi", [], None),
            ("U", None, 7, None, at, None, None, None),
            ("U", "c", *nothing[1:]),
            ("U", *nothing),
            ("D", *nothing),
            ("D", "c", *nothing[1:]),
        ]
        unset = [row["_unset"] for row in sorted(found, key=lambda row: row["_seq"])]
        kept = ["big", "at", "bytes", "tags", "address"]
        assert unset == [[], [], [], kept, ["name", "big", "price", *kept[1:]], [], []]

    def test_what_documents_do_not_say_is_quarantined(self, built: Any) -> None:
        part = "a part of column {} changed, and the event does not have the whole"
        number = "9" * 19
        assert reasons(built("customers_quarantine")) == sorted(
            [
                part.format("address"),
                part.format("address"),
                part.format("tags"),
                "no after image",
                "no after image",
                "no after image",
                "no value for key column _id",
                f"column at: {number} is not a timestamp",
            ]
        )

    def test_keys_that_are_numbers(self, built: Any) -> None:
        assert events(built("stg_numbered"), "_id", "name", "_unset") == [
            ("I", 7, "a", []),
            ("I", 8, None, []),
            ("U", 7, "b", []),
            ("D", 8, None, []),
        ]
        assert built("numbered_quarantine") == []

    def test_columns_that_a_row_says_it_changed(self, built: Any) -> None:
        found = events(built("stg_stated"), "id", "_unset")
        assert [(op, unset) for op, _, unset in found] == [
            ("I", []),
            ("U", ["b"]),
            ("U", ["A"]),
            ("U", ["A", "b"]),
            ("U", []),
            ("I", []),
            ("D", []),
        ]
        assert built("stated_quarantine") == []
