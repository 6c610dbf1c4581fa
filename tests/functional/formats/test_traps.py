"""Traps of ChangeEvents, flagged rows, wal2json and Debezium that no other test here sets."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any, ClassVar

from tests.functional.formats.decoding import Decoding, events, reasons
from tests.functional.formats.test_debezium import change
from tests.functional.formats.test_messages import transaction, wal2json

COLUMNS = {"id": "int", "name": "string"}


def change_event(kind: Any, time: Any, row: Any = None, old: Any = None) -> dict[str, Any]:
    found = {"changeType": kind, "timestamp": time}
    if row is not None:
        found |= {"columnNames": [*row], "columnValues": [*row.values()]}
    if old is not None:
        found |= {"oldKeyNames": [*old], "oldKeyValues": [*old.values()]}
    return found


def wal2json_2(action: str, lsn: str, row: Any = None, old: Any = None, **values: Any) -> dict:
    found: dict[str, Any] = {
        "action": action,
        "xid": 1,
        "timestamp": "2020-01-01 00:00:00+00",
        "lsn": lsn,
        "schema": "public",
        "table": "t",
    }
    for name, image in (("columns", row), ("identity", old)):
        if image is not None:
            found[name] = [{"name": k, "type": "text", "value": v} for k, v in image.items()]
    return {**found, "pk": [{"name": "id", "type": "integer"}], **values}


def codes(text: str) -> list[int]:
    return [ord(letter) for letter in text]


class TestTraps(Decoding):
    sources: ClassVar[dict[str, Any]] = {
        "change": {
            "format": "change_event",
            "payload": "value",
            "keys": ["id"],
            "columns": {**COLUMNS, "mail": "string"},
        },
        "numbers": {
            "format": "change_event",
            "payload": "value",
            "keys": ["id"],
            "columns": {"id": "decimal(20,0)", "price": "decimal(20,2)", "doc": "string"},
        },
        "topic": {
            "format": "change_event",
            "payload": "event",
            "keys": ["id"],
            "sequence_by": ["try_cast(timestamp as bigint)", "offset"],
            "event_time": "try_cast(written as timestamp)",
            "columns": COLUMNS,
        },
        "flagged": {
            "format": "flagged",
            "keys": ["id"],
            "operation": "flag",
            "sequence_by": ["at", "nr"],
            "event_time": "at",
            "columns": COLUMNS,
        },
        "conditions": {
            "format": "flagged",
            "raw": "flagged",
            "keys": ["id"],
            "apply_as_deletes": "trim(lower(flag)) = 'd'",
            "apply_as_truncates": "flag = 'T'",
            "sequence_by": "nr",
            "columns": COLUMNS,
        },
        "bare": {
            "format": "wal2json_v1",
            "keys": ["id"],
            "sequence_by": "offset",
            "event_time": False,
            "columns": COLUMNS,
        },
        "v2": {"format": "wal2json_v2", "keys": ["id"], "columns": {**COLUMNS, "doc": "string"}},
        "digits": {
            "format": "wal2json_v2",
            "keys": ["id"],
            "columns": {"id": "int", "wei": "string", "ratio": "double", "rate": "decimal(38,24)"},
        },
        "placeholder": {
            "format": "debezium",
            "keys": ["id"],
            "unavailable_value": "it's ~gone~",
            "columns": {
                **COLUMNS,
                "bytes": "binary",
                "longs": "array<bigint>",
                "days": "array<date>",
                "texts": "array<string>",
                "pairs": "string",
            },
        },
        "snapshot": {"format": "debezium", "keys": ["id"], "columns": COLUMNS},
        "order": {"format": "debezium", "keys": ["id"], "columns": COLUMNS},
    }
    raw: ClassVar[dict[str, Any]] = {
        "change": [
            change_event("insert", "1", {"id": "1", "name": "a", "mail": "m"}),
            # Another order of columns, one of them missing, the operation in capitals.
            change_event("UPDATE", 2, {"mail": None, "id": 1}, {"id": "1"}),
            # Keys by another set of names: the declared key is in the row, or nowhere.
            change_event("update", "3", {"id": "1", "mail": "n"}, {"mail": "m"}),
            change_event("update", "4", {"id": "2", "mail": "n"}, {"id": "1", "mail": "n"}),
            change_event("delete", "5", None, {"mail": "n", "id": "2"}),
            change_event("delete", "6", None, {"mail": "n"}),
            change_event("truncate", "10"),
            change_event("insert", "9", {"id": "3"}),
            change_event("insert", "later", {"id": "3"}),
            {**change_event("insert", "7", {"id": "3"}), "columnValues": ["3", "4"]},
            {**change_event("insert", "7", {"id": "3"}), "columnNames": [None]},
            {**change_event("insert", "7", {"id": "3"}), "oldKeyNames": ["id", "id"]},
            change_event("upsert", "7", {"id": "3"}),
        ],
        # Numbers as numbers, with more digits than a double has.
        "numbers": [
            '{"changeType":"update","timestamp":1,"columnNames":["id","price","doc"],'
            '"columnValues":[18446744073709551615,12345678901234567.89,{"b":[1],"a":true}],'
            '"oldKeyNames":["id"],"oldKeyValues":["18446744073709551615"]}',
        ],
        # The raw table has columns of its own by names of the event.
        "topic": f"""
            select event, offset, timestamp, '2020-01-01' as written, 'x' as changeType
            from values
                ('{json.dumps(change_event("update", "1", {"id": "1", "name": "b"}))}', 2, 0),
                ('{json.dumps(change_event("insert", "1", {"id": "1", "name": "a"}))}', 1, 9),
                ('{json.dumps(change_event("update", "2", {"id": "1", "name": "c"}))}', 0, 9)
                as t (event, offset, timestamp)
        """,
        "flagged": """
            select flag, id, name, timestamp(at) as at, nr
            from values
                ('I', 1, 'a', '2020-01-01', 2), (' u ', 1, null, '2020-01-01', 10),
                ('insert', 2, 'b', '2020-01-01', 11), ('d', 1, null, '2020-01-02', 1),
                ('T', null, null, '2020-01-03', 1), ('x', 3, 'c', '2020-01-03', 2),
                (null, 3, 'c', '2020-01-03', 3), ('I', 3, 'c', null, 4),
                ('I', 3, 'c', '2020-01-03', null), ('I', null, 'c', '2020-01-04', 5)
            as t (flag, id, name, at, nr)
        """,
        "bare": [
            # Without positions and times, as the plugin writes by default.
            {"change": [wal2json("insert", 1, "a"), wal2json("insert", 2, "b")]},
            {"change": [wal2json("truncate"), wal2json("insert", 3, "c")]},
            {k: v for k, v in transaction("0/1").items() if k == "change"},
        ],
        "v2": [
            wal2json_2("B", "0/9"),
            wal2json_2("I", "0/9", {"id": 1, "name": "a", "doc": "long"}),
            wal2json_2("U", "0/10", {"id": 1, "name": None}, {"id": 1}),
            # The whole old row (REPLICA IDENTITY FULL) has what the new one leaves out.
            wal2json_2("U", "0/11", {"id": 1, "name": "b"}, {"id": 1, "name": "a", "doc": "long"}),
            wal2json_2("U", "0/12", {"id": 2, "name": "b"}, {"id": 1}),
            wal2json_2("I", "0/13", {"id": 3, "name": "c", "doc": None}),
            wal2json_2("T", "0/14"),
            wal2json_2("I", "0/15", {"id": 4, "name": "d", "doc": None}),
            wal2json_2("D", "0/16", None, {"id": 2}),
            wal2json_2("D", "1/0", None, {"name": "no key"}),
            wal2json_2("M", "1/1", content="x"),
            wal2json_2("C", "1/2"),
            wal2json_2("I", "1/3", {"id": 5}, timestamp=None),
            wal2json_2("I", "1/4", {"id": "five"}),
        ],
        # VARIANT reads numbers of more than 38 digits, and those with an exponent, as doubles.
        "digits": [
            f'{{"action":"I","lsn":"0/{number}","timestamp":"2020-01-01 00:00:00+00","table":"t",'
            f'"columns":[{{"name":"id","value":{number}}},{{"name":"{name}","value":{text}}}]}}'
            for number, (name, text) in enumerate(
                [
                    ("wei", str(2**256 - 1)),
                    ("rate", "0." + "3" * 40),
                    ("rate", "1.2345678901234567890123E-8"),
                    ("wei", f'"{2**256 - 1}"'),
                    ("wei", "12345678901234567890123456789012345678"),
                    ("rate", "12345678901234.50000000000000000000"),
                    ("rate", "1.5E-7"),
                    ("ratio", "0." + "3" * 40),
                    ("rate", "1.2345678901234567890123e3"),
                    # Two numbers that begin alike, and are what they are.
                    ("rate", '1234567890.12345},{"name":"wei","value":1234567890.12345678'),
                ]
            )
        ],
        "placeholder": [
            change(
                "u",
                1,
                after={
                    "id": 1,
                    "name": "it's ~gone~",
                    "bytes": "aXQncyB+Z29uZX4=",
                    "longs": codes("it's ~gone~"),
                    "days": codes("it's ~gone~"),
                    "texts": ["it's ~gone~"],
                    "pairs": {"it's ~gone~": "it's ~gone~"},
                },
            ),
            # Debezium's own word is a value here.
            change("u", 2, after={"id": 1, "name": "__debezium_unavailable_value", "longs": [1]}),
        ],
        "snapshot": [
            change("r", 5, after={"id": number, "name": "read"}, snapshot=mark)
            for number, mark in enumerate(["first", "true", True, "last", "incremental", "false"])
        ],
        "order": [
            {
                **change("u", lsn, after={"id": 1, "name": name}, sequence=sequence),
                "transaction": {"id": "1:1", "total_order": total, "data_collection_order": 1},
            }
            for name, lsn, sequence, total in (
                # Committed later though written earlier.
                ("d", 90, '["200","90"]', 1),
                ("a", 95, '["90","95"]', 2),
                ("b", 100, '["99","100"]', 9),
                ("c", 100, '["99","100"]', 10),
            )
        ],
    }

    def test_change_events(self, built: Any) -> None:
        assert events(built("stg_change"), "id", "name", "mail", "_old_id", "_unset") == [
            ("I", 1, "a", "m", None, []),
            ("U", 1, None, None, None, ["name"]),
            ("U", 1, None, "n", None, ["name"]),
            ("U", 2, None, "n", 1, ["name"]),
            ("D", 2, None, "n", None, []),
            ("I", 3, None, None, None, ["name", "mail"]),
            ("T", None, None, None, None, []),
        ]
        assert reasons(built("change_quarantine")) == [
            "column names and values do not pair",
            "column names and values do not pair",
            "no sequence",
            "no value for key column id",
            "old key names and values do not pair",
            "unknown operation upsert",
        ]

    def test_numbers_of_change_events_are_exact(self, built: Any) -> None:
        assert events(built("stg_numbers"), "id", "price", "doc", "_old_id") == [
            (
                "U",
                Decimal(18446744073709551615),
                Decimal("12345678901234567.89"),
                '{"a":true,"b":[1]}',
                None,
            )
        ]
        assert not built("numbers_quarantine")

    def test_columns_beside_a_change_event_can_order_it(self, built: Any) -> None:
        rows = built("stg_topic")
        assert events(rows, "name") == [("I", "a"), ("U", "b"), ("U", "c")]
        assert {row["_ts"] for row in rows} == {dt.datetime(2020, 1, 1)}
        assert not built("topic_quarantine")

    def test_flagged(self, built: Any) -> None:
        rows = built("stg_flagged")
        assert events(rows, "id", "name") == [
            ("I", 1, "a"),
            ("U", 1, None),
            ("I", 2, "b"),
            ("D", 1, None),
            ("T", None, None),
        ]
        assert max(row["_ts"] for row in rows) == dt.datetime(2020, 1, 3)
        assert reasons(built("flagged_quarantine")) == [
            "no operation",
            "no sequence",
            "no sequence; no event time",
            "no value for key column id",
            "unknown operation x",
        ]
        found = events(built("stg_conditions"), "id")
        assert [op for op, _ in found].count("D") == 1
        assert [op for op, _ in found].count("T") == 1

    def test_wal2json_v1_as_written_by_default(self, built: Any) -> None:
        assert events(built("stg_bare"), "id", "name") == [
            ("I", 1, "a"),
            ("I", 2, "b"),
            ("T", None, None),
            ("I", 3, "c"),
        ]
        assert not built("bare_quarantine")

    def test_wal2json_v2(self, built: Any) -> None:
        assert events(built("stg_v2"), "id", "name", "doc", "_old_id", "_unset") == [
            ("I", 1, "a", "long", None, []),
            ("U", 1, None, None, None, ["doc"]),
            ("U", 1, "b", "long", None, []),
            ("U", 2, "b", None, 1, ["doc"]),
            ("I", 3, "c", None, None, []),
            ("T", None, None, None, None, []),
            ("I", 4, "d", None, None, []),
            ("D", 2, None, None, None, []),
        ]
        assert reasons(built("v2_quarantine")) == [
            "column id: five is not a int",
            "no sequence; no event time",
            "no value for key column id",
        ]

    def test_numbers_of_too_many_digits_are_not_rounded(self, built: Any) -> None:
        assert reasons(built("digits_quarantine")) == [
            "column rate: its number has more digits than can be read",
            "column rate: its number has more digits than can be read",
            "column rate: its number has more digits than can be read",
            "column wei: its number has more digits than can be read",
        ]
        found = [
            next(value for value in row[2:] if value is not None)
            for row in events(built("stg_digits"), "id", "wei", "rate", "ratio")
        ]
        assert found == [
            str(2**256 - 1),
            "12345678901234567890123456789012345678",
            Decimal("12345678901234.5"),
            Decimal("1.5E-7"),
            1 / 3,
            "1234567890.12345678",
        ]

    def test_a_placeholder_of_ones_own(self, built: Any) -> None:
        names = ["name", "bytes", "longs", "days", "texts", "pairs"]
        assert events(built("stg_placeholder"), "name", "longs", "_unset") == [
            ("U", None, None, names),
            ("U", "__debezium_unavailable_value", [1], ["bytes", "days", "texts", "pairs"]),
        ]

    def test_snapshot_reads_are_inserts(self, built: Any) -> None:
        assert events(built("stg_snapshot"), "id") == [("I", number) for number in range(6)]

    def test_debezium_orders_by_commit_and_place_in_the_transaction(self, built: Any) -> None:
        assert [name for _, name in events(built("stg_order"), "name")] == ["a", "b", "c", "d"]
