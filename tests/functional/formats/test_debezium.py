"""Debezium: envelopes, flattened rows, tombstones, key changes, placeholders, positions, types."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from typing import Any, ClassVar

from tests.functional.formats.decoding import Decoding, events, reasons

GONE = "__debezium_unavailable_value"
CODES = [ord(letter) for letter in GONE]
GONE_BYTES = base64.b64encode(GONE.encode()).decode()


def change(op: str, lsn: int | None, before: Any = None, after: Any = None, **source: Any) -> dict:
    """An event of the PostgreSQL connector; its own clock runs on."""
    return {
        "before": before,
        "after": after,
        "source": {
            "connector": "postgresql",
            "db": "shop",
            "schema": "public",
            "table": "t",
            "ts_ms": 1559033904863,
            "lsn": lsn,
            **source,
        },
        "op": op,
        "ts_ms": 1559033904000 + (lsn or 0),
    }


def row(number: int, **values: Any) -> dict[str, Any]:
    return {"id": number, "name": "n", "tags": ["a"], "nrs": [1], **values}


ENVELOPE = {
    "type": "struct",
    "fields": [
        {
            "field": "after",
            "type": "struct",
            "fields": [
                {"field": "id", "type": "int32"},
                {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
                {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
                {"field": "local", "type": "int64", "name": "io.debezium.time.Timestamp"},
                {
                    "field": "price",
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "2"},
                },
            ],
        }
    ],
}


def b64(number: int, size: int) -> str:
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def typed(number: int, **values: Any) -> dict[str, Any]:
    return change("c", number, after={"id": number, **values})


class TestDebezium(Decoding):
    columns: ClassVar[dict[str, Any]] = {
        "id": "bigint",
        "name": "string",
        "tags": "array<string>",
        "nrs": "array<int>",
    }
    types: ClassVar[dict[str, Any]] = {
        "id": "bigint",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "price": "decimal(20,2)",
        "bytes": "binary",
        "ok": "boolean",
        "days": "array<date>",
        "big": "bigint",
    }
    sources: ClassVar[dict[str, Any]] = {
        "t": {
            "format": "debezium",
            "keys": ["id"],
            "columns": columns,
            "source_table": "public.t",
            "message_key": "get_json_object(value, '$.key')",
        },
        "keyed": {
            "format": "debezium",
            "keys": ["id"],
            "columns": columns,
            "payload": "value",
            "message_key": "key",
            "old_key": "get(filter(headers, h -> h.key = '__debezium.oldkey'), 0).value",
        },
        "types": {"format": "debezium", "keys": ["id"], "columns": types},
        "declared": {
            "format": "debezium",
            "keys": ["id"],
            "columns": types,
            "raw": "types",
            "encodings": {"at": "epoch_micros", "local": "epoch_millis", "price": "base64"},
        },
        "flat": {
            "format": "debezium",
            "keys": ["id"],
            "columns": {"id": "int", "source": "string"},
        },
        "columns": {
            "format": "debezium",
            "keys": ["id"],
            "payload": None,
            "columns": {"id": "int", "price": "decimal(6,2)", "at": "timestamp", "note": "string"},
        },
        "stored": {
            "format": "debezium",
            "keys": ["id"],
            "columns": {"id": "int", "bits": "binary", "text": "string", "time": "bigint"},
        },
        "mysql": {"format": "debezium", "keys": ["id"], "columns": {"id": "int"}},
        "sqlserver": {"format": "debezium", "keys": ["id"], "columns": {"id": "int"}},
        "oracle": {"format": "debezium", "keys": ["id"], "columns": {"id": "int"}},
    }
    raw: ClassVar[dict[str, Any]] = {
        "t": [
            change("r", 50, after=row(1), snapshot="true"),
            change("c", 100, after=row(2)),
            {"schema": {"type": "struct"}, "payload": change("u", 110, after=row(2, name=None))},
            # The same change, delivered again by a connector that read it later.
            {**change("u", 110, after=row(2, name=None)), "ts_ms": 1},
            change("u", 120, after={"id": 2, "name": GONE, "tags": [GONE], "nrs": CODES}),
            change("u", 121, after={"id": 2, "name": GONE_BYTES, "tags": [GONE_BYTES], "nrs": [1]}),
            change(
                "u",
                122,
                after={
                    "id": 2,
                    "name": {GONE: GONE},
                    "tags": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
                    "nrs": [],
                },
            ),
            # REPLICA IDENTITY FULL has the value; an identity of index columns has NULL.
            change("u", 123, before=row(2, name="old"), after=row(2, name=GONE)),
            change("u", 124, before=row(2, name=None), after=row(2, name=GONE)),
            change("d", 130, before={"id": 2, "name": None, "tags": None, "nrs": None}),
            None,
            {"schema": None, "payload": None},
            {**change("d", 140), "key": {"id": 1}},
            change("d", 150),
            change("t", 160),
            change("c", 170, after=row(3), table="other"),
            change("m", 180, schema="", table=""),
            {"ts_ms": 1565262586341},
            {"schema": {"type": "struct"}, "payload": {"ts_ms": 1565262586341}},
            {"status": "BEGIN", "id": "571:53195829", "ts_ms": 1, "event_count": None},
            {"source": {"table": "t"}, "databaseName": "shop", "ddl": "alter table t ..."},
            change("c", None, after=row(4)),
            change("c", 190),
            change("x", 191, after=row(4)),
            {**change("c", 192, after=row(5)), "op": None},
            "{broken",
            "",
            "[]",
            '"text"',
            change("c", 200, after="text"),
            '{"op":"c","after":{"id":1,"name":{"a":1,"a":2}}}',
        ],
        "keyed": """
            select
                cast(key as binary) as key,
                cast(value as binary) as value,
                array(struct(header as key, cast('{"id":1}' as binary) as value)) as headers
            from values
                (
                    '{"schema":null,"payload":{"id":1}}',
                    '{"before":null,"after":null,"op":"d","source":{"lsn":10,"ts_ms":1}}',
                    '__debezium.newkey'
                ),
                (
                    '{"id":2}',
                    '{"before":null,"after":{"id":2,"name":"__debezium_unavailable_value",
                        "tags":[],"nrs":[]},"op":"c","source":{"lsn":10,"ts_ms":1}}',
                    '__debezium.oldkey'
                ),
                ('{"id":1}', null, null) as t (key, value, header)
        """,
        "types": [
            {
                "schema": ENVELOPE,
                "payload": typed(
                    1, day=18000, at=1559033904863123, local=1559033904863, price=b64(-12345, 2)
                ),
            },
            typed(2, day=-1, at="2019-05-28T08:58:24.863+02:00", price=b64(12345, 9), ok=True),
            typed(3, price="12.50", bytes="AAEC/w==", days=[18000, None], big=9223372036854775807),
            typed(4, price=12.5, days=["2020-02-29"], ok=1, big=None),
            typed(5, price={"scale": 1, "value": b64(125, 1)}, local="2019-05-28T08:58:24.863123"),
            typed(6, at=1559033904863123),
            typed(7, price="1234"),
            typed(8, day="2020-01-01T12:00:00Z", at="2020-01-01T00:00:00.123456789Z", price=1.005),
            typed(9, big=9223372036854775808, days=[1, "soon"], bytes="?", ok="maybe"),
            typed(11, price={"scale": -(2**31), "value": "AA=="}, day=2**62, days={"a": 1}),
            typed(12, price={"scale": "x"}, at="9" * 30, bytes="[]", ok=[1]),
            {**typed(13), "source": {"lsn": 1, "ts_ms": 2**63 - 1}},
            typed(10, at="now", local="2020", price=b64(2**100, 16)),
        ],
        "flat": [
            {"id": 1, "source": "web", "__op": "c", "__lsn": 9, "__source_ts_ms": 1000},
            {"id": 1, "source": "app", "__deleted": "false", "__lsn": 10, "__source_ts_ms": 2000},
            {"id": 1, "source": None, "__deleted": "true", "__lsn": 11, "__source_ts_ms": 3000},
            {"id": 1, "source": "no operation", "__lsn": 12, "__source_ts_ms": 3000},
        ],
        "columns": """
            select
                'c' as op,
                cast(null as struct<id: int, price: decimal(6,2), note: string>) as before,
                struct(
                    1 as id,
                    cast(1.50 as decimal(6,2)) as price,
                    timestamp'2020-01-01 00:00:00.123456' as at,
                    cast(null as string) as note
                ) as after,
                struct(5L as lsn, 1559033904863L as ts_ms) as source
        """,
        # BIT(64) b'100000010' of MySQL is two bytes, the lowest one first, and six of zero.
        "stored": [
            typed(1, bits="AgEAAAAAAAA=", text="AgEAAAAAAAA=", time=45_296_789_012),
            typed(2, bits=None, text=None, time=-3_600_000_000),
        ],
        "mysql": [
            change("c", None, after={"id": n}, file=file, pos=pos, row=index, ts_ms=0)
            for n, (file, pos, index) in enumerate(
                [
                    ("bin.000002", 23, 0),
                    ("bin.000002", 123, 0),
                    ("bin.000002", 123, 1),
                    ("bin.000010", 4, 0),
                ]
            )
        ],
        "sqlserver": [
            change(
                "c", None, after={"id": n}, commit_lsn=commit, change_lsn=lsn, event_serial_no=nr
            )
            for n, (commit, lsn, nr) in enumerate(
                [
                    ("00000027:00000ac0:0002", None, None),
                    ("00000027:00000ac0:0003", "00000027:00000ac0:0002", 1),
                    ("00000027:00000ac0:0003", "00000027:00000ac0:0002", 2),
                    ("00000027:00000ac0:000a", "00000027:00000ac0:0001", 1),
                    ("00000100:00000001:0001", "00000100:00000001:0001", 1),
                ]
            )
        ],
        "oracle": [
            change("c", None, after={"id": n}, scn=scn, commit_scn=commit, rs_id=rs, ssn=ssn)
            for n, (commit, scn, rs, ssn) in enumerate(
                [
                    (None, "999", None, None),
                    ("1001", "900", " 0x00000b.00001f3b.0010 ", 0),
                    ("1001", "900", " 0x00000b.00001f3b.0010 ", 1),
                    ("1001", "900", " 0x00000b.00001f3c.0001 ", 0),
                    ("10000", "1", " 0x000001.00000001.0001 ", 0),
                ]
            )
        ],
    }

    def test_changes(self, built: Any) -> None:
        rows = built("stg_t")
        assert events(rows, "id", "name", "tags", "nrs", "_unset") == [
            ("I", 1, "n", ["a"], [1], []),
            ("I", 2, "n", ["a"], [1], []),
            ("U", 2, None, ["a"], [1], []),
            ("U", 2, None, ["a"], [1], []),
            ("U", 2, None, None, None, ["name", "tags", "nrs"]),
            ("U", 2, None, None, [1], ["name", "tags"]),
            ("U", 2, None, None, [], ["name", "tags"]),
            ("U", 2, "old", ["a"], [1], []),
            ("U", 2, None, ["a"], [1], ["name"]),
            ("D", 2, None, None, None, []),
            ("D", 1, None, None, None, []),
            ("T", None, None, None, None, []),
        ]
        # Eleven events, one of them twice.
        assert len({row["_event_id"] for row in rows}) == len(rows) - 1
        assert {row["_ts"] for row in rows} == {dt.datetime(2019, 5, 28, 8, 58, 24, 863000)}
        assert reasons(built("t_quarantine")) == [
            "no after image",
            "no operation",
            "no sequence",
            "no value for key column id",
            "unknown operation x",
            *["unreadable payload"] * 6,
        ]

    def test_key_change(self, built: Any) -> None:
        assert events(built("stg_keyed"), "id", "_old_id", "_unset") == [
            ("U", 2, 1, ["name"]),
            ("D", 1, None, []),
        ]
        assert not built("keyed_quarantine")

    def test_types(self, built: Any) -> None:
        names = ("id", "day", "at", "local", "price", "bytes", "ok", "days", "big")
        at = dt.datetime(2019, 5, 28, 8, 58, 24, 863123)
        assert events(built("stg_types"), *names) == [
            (
                "I",
                1,
                dt.date(2019, 4, 14),
                at,
                at.replace(microsecond=863000),
                Decimal("-123.45"),
                *[None] * 4,
            ),
            (
                "I",
                2,
                dt.date(1969, 12, 31),
                dt.datetime(2019, 5, 28, 6, 58, 24, 863000),
                None,
                Decimal("123.45"),
                None,
                True,
                None,
                None,
            ),
            (
                "I",
                3,
                *[None] * 3,
                Decimal("12.50"),
                b"\x00\x01\x02\xff",
                None,
                [dt.date(2019, 4, 14), None],
                2**63 - 1,
            ),
            ("I", 4, *[None] * 3, Decimal("12.50"), None, True, [dt.date(2020, 2, 29)], None),
            ("I", 5, None, None, at, Decimal("12.50"), *[None] * 4),
        ]
        assert reasons(built("types_quarantine")) == [
            "column at: 1559033904863123 is not a timestamp",
            f"column at: {'9' * 30} is not a timestamp;"
            ' column price: {"scale":"x"} is not a decimal(20,2);'
            " column bytes: [] is not a binary; column ok: [1] is not a boolean",
            "column at: now is not a timestamp; column local: 2020 is not a timestamp_ntz;"
            ' column price: "AAAAEAAAAAAAAAAAAAAAAA==" is not a decimal(20,2)',
            "column bytes: ? is not a binary; column ok: maybe is not a boolean;"
            ' column days: [1,"soon"] is not a array<date>;'
            " column big: 9223372036854775808 is not a bigint",
            "column day: 2020-01-01T12:00:00Z is not a date;"
            " column at: 2020-01-01T00:00:00.123456789Z is not a timestamp;"
            " column price: 1.005 is not a decimal(20,2)",
            "column day: 4611686018427387904 is not a date;"
            ' column price: {"scale":-2147483648,"value":"AA=="} is not a decimal(20,2);'
            ' column days: {"a":1} is not a array<date>',
            'column price: "1234" is not a decimal(20,2)',
            "no event time",
        ]

    def test_bits_and_times_are_what_the_page_says(self, built: Any) -> None:
        assert events(built("stg_stored"), "id", "bits", "text", "time") == [
            ("I", 1, (0b100000010).to_bytes(8, "little"), "AgEAAAAAAAA=", 45_296_789_012),
            ("I", 2, None, None, -3_600_000_000),
        ]
        assert not built("stored_quarantine")

    def test_declared_encodings(self, built: Any) -> None:
        found = {row["id"]: row for row in built("stg_declared")}
        assert found[6]["at"] == dt.datetime(2019, 5, 28, 8, 58, 24, 863123)
        assert found[7]["price"] == Decimal(0xD76DF8 - 2**24) / 100

    def test_flattened(self, built: Any) -> None:
        assert events(built("stg_flat"), "id", "source", "_ts") == [
            ("I", 1, "web", dt.datetime(1970, 1, 1, 0, 0, 1)),
            ("U", 1, "app", dt.datetime(1970, 1, 1, 0, 0, 2)),
            ("D", 1, None, dt.datetime(1970, 1, 1, 0, 0, 3)),
        ]
        assert reasons(built("flat_quarantine")) == ["unreadable payload"]

    def test_typed_columns(self, built: Any) -> None:
        assert events(built("stg_columns"), "id", "price", "at", "note", "_unset") == [
            ("I", 1, Decimal("1.50"), dt.datetime(2020, 1, 1, 0, 0, 0, 123456), None, [])
        ]

    def test_positions(self, built: Any) -> None:
        for name, count in (("mysql", 4), ("sqlserver", 5), ("oracle", 5)):
            rows = built(f"stg_{name}")
            assert events(rows, "id") == [("I", number) for number in range(count)]
            assert len({tuple(row["_seq"]) for row in rows}) == count
