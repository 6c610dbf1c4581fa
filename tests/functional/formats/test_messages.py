"""wal2json, Maxwell, Canal, DMS, GoldenGate: operations, order, key changes, routing, replays."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from tests.functional.formats.decoding import Decoding, events, reasons


def wal2json(kind: str, *values: Any, old: list[Any] | None = None, table: str = "t") -> dict:
    """A change of format version 1; columns id, name, big, tags from left to right."""
    change = {"kind": kind, "schema": "public", "table": table}
    if values:
        change["columnnames"] = ["id", "name", "big", "at"][: len(values)]
        change["columnvalues"] = list(values)
    if old:
        change["oldkeys"] = {"keynames": ["id"], "keyvalues": old}
    return change


def transaction(lsn: str | None, *changes: dict, **values: Any) -> dict[str, Any]:
    return {
        "timestamp": "2018-03-27 11:58:28.988414-03",
        "nextlsn": lsn,
        "change": list(changes),
        **values,
    }


def maxwell(kind: str, ts: int | None, data: Any, **values: Any) -> dict[str, Any]:
    return {"database": "d", "table": "t", "type": kind, "ts": ts, "data": data, **values}


# The types that a message of Canal states.
LABELLED = {
    "id": "int",
    "label": "enum('it''s','new, ok','paid')",
    "marks": "set('a','b c','d')",
    "signs": "set('a','b c','d')",
}


def canal(kind: str, data: Any, old: Any = None, **values: Any) -> dict[str, Any]:
    message = {"database": "d", "table": "t", "type": kind, "isDdl": False, "id": 1}
    return {**message, "es": 1589373515000, "ts": 1, "data": data, "old": old, **values}


def dms(
    operation: str, data: Any, record: int, kind: str = "data", **values: Any
) -> dict[str, Any]:
    metadata = {
        "timestamp": f"2019-10-31T23:00:{record:02}.000000Z",
        "record-type": kind,
        "operation": operation,
        "schema-name": "s",
        "table-name": "t",
    }
    if operation != "load" and kind == "data":
        metadata["commit-timestamp"] = "2019-10-31T22:53:55.000000Z"
        metadata |= {"transaction-id": 9324410911751, "transaction-record-id": record}
    return {"data": data, "metadata": {**metadata, **values}}


def ogg(op: str, pos: Any, before: Any = None, after: Any = None, **values: Any) -> dict[str, Any]:
    return {
        "table": "S.T",
        "op_type": op,
        "op_ts": "2020-05-13 15:40:06.000000",
        "current_ts": "2020-05-13T13:39:35.766000",
        "pos": pos,
        "before": before,
        "after": after,
        **values,
    }


COLUMNS = {"id": "int", "name": "string"}


class TestMessages(Decoding):
    sources: ClassVar[dict[str, Any]] = {
        "v1": {
            "format": "wal2json_v1",
            "keys": ["id"],
            "source_table": "public.t",
            "columns": {**COLUMNS, "big": "bigint", "at": "timestamp"},
        },
        "v2": {
            "format": "wal2json_v2",
            "keys": ["id"],
            "source_table": "public.t",
            "columns": COLUMNS,
        },
        "maxwell": {
            "format": "maxwell",
            "keys": ["id", "part"],
            "source_table": "d.t",
            "columns": {
                **COLUMNS,
                "part": "int",
                "big": "decimal(20,0)",
                "blob": "binary",
                "set": "array<string>",
                "doc": "string",
                "at": "timestamp_ntz",
            },
        },
        "canal": {
            "format": "canal",
            "keys": ["id"],
            "source_table": ["d.t"],
            "sequence_by": "offset",
            "columns": {**COLUMNS, "price": "decimal(6,2)", "blob": "binary"},
        },
        "labels": {
            "format": "canal",
            "keys": ["id"],
            "sequence_by": "offset",
            "columns": {
                **{"id": "int", "state": "string", "flags": "int"},
                **dict.fromkeys(("label", "marks"), "string"),
            },
            "encodings": {"label": "labels", "marks": "labels"},
            "renames": {"marks": "signs"},
        },
        "dms": {
            "format": "dms",
            "keys": ["id"],
            "payload": "value",
            "source_table": "s.t",
            "columns": COLUMNS,
        },
        "dms_rows": {
            "format": "dms",
            "keys": ["id"],
            "sequence_by": "cast(seq as decimal(38, 0))",
            "columns": {**COLUMNS, "price": "decimal(6,2)", "at": "timestamp", "bytes": "binary"},
        },
        "goldengate": {
            "format": "goldengate",
            "keys": ["id"],
            "source_table": "S.T",
            "columns": {**COLUMNS, "city": "string"},
        },
        "renamed": {
            "format": "goldengate",
            "keys": ["id"],
            "operation": "case _message.op_type when 'neu' then 'I' when 'weg' then 'D' end",
            "columns": COLUMNS,
        },
    }
    raw: ClassVar[dict[str, Any]] = {
        "v1": [
            transaction(
                "0/10",
                wal2json("insert", 1, "a", 2**63 - 1, "2020-01-01 00:00:00+02"),
                wal2json("update", 1, None),
                wal2json("insert", 9, "elsewhere", table="other"),
                wal2json("truncate"),
                wal2json("insert", 2, "b"),
            ),
            transaction("0/9", wal2json("insert", 0, "first")),
            # Delivered again.
            transaction(
                "0/9", wal2json("insert", 0, "first"), timestamp="2018-03-27 11:58:28.988414-03"
            ),
            transaction("1/0", wal2json("update", 3, old=[2]), wal2json("delete", old=[3])),
            transaction("1/1"),
            transaction("1/2", {"kind": "message", "transactional": True, "content": "x"}),
            transaction(None, wal2json("insert", 5)),
            transaction("zz/1", wal2json("insert", 5)),
            transaction("FFFFFFFF/FFFFFFFF", wal2json("insert", 5)),
            transaction("1/3", wal2json("insert", 5), timestamp=None),
            transaction("1/4", {**wal2json("insert", 5), "columnnames": ["id", "name"]}),
            transaction("1/5", {**wal2json("insert", 5, "x"), "columnnames": ["id", "id"]}),
            transaction("1/6", wal2json("upsert", 5), wal2json("insert", 6, "x", "big")),
            {"nextlsn": "1/7"},
            "{",
            None,
        ],
        "v2": [
            {
                "action": "I",
                "schema": "public",
                "table": name,
                "lsn": "0/1",
                "timestamp": "2020-01-01 00:00:00+00",
                "columns": [{"name": "id", "value": 1}],
            }
            for name in ("t", "other")
        ],
        "maxwell": [
            maxwell(
                "insert",
                100,
                {
                    "id": 1,
                    "part": 1,
                    "name": "a",
                    "big": 2**64 - 1,
                    "blob": "AAE=",
                    "set": ["x"],
                    "at": "2020-01-01 01:02:03.5",
                },
                xid=7,
                xoffset=0,
            ),
            maxwell(
                "update",
                100,
                {"id": 1, "part": 1, "name": "b"},
                old={"name": "a"},
                xid=7,
                xoffset=10,
            ),
            maxwell(
                "update", 100, {"id": 1, "part": 1, "doc": {"b": [1], "a": 2}}, xid=7, xoffset=9
            ),
            maxwell(
                "update",
                100,
                {"id": 1, "part": 2, "name": None},
                old={"part": 1},
                xid=7,
                commit=True,
            ),
            maxwell("insert", 101, {"id": 2, "part": 1}, position="bin.000002:123"),
            maxwell("update", 101, {"id": 2, "part": 1, "name": "c"}, position="bin.000010:4"),
            maxwell("bootstrap-start", 101, {}),
            maxwell("bootstrap-insert", 101, {"id": 3, "part": 1, "name": "z"}),
            maxwell("bootstrap-complete", 101, {}),
            maxwell("delete", 102, {"id": 3, "part": 1, "name": "z"}),
            {
                "type": "table-alter",
                "database": "d",
                "table": "t",
                "ts": 1477053308000,
                "sql": "...",
            },
            {"type": "database-create", "database": "d", "ts": 1477053308000, "sql": "..."},
            {**maxwell("insert", 1, {"id": 1}), "database": "maxwell", "table": "bootstrap"},
            maxwell("insert", None, {"id": 1, "part": 1}),
            maxwell("insert", 10**18, {"id": 1, "part": 1}),
            maxwell("insert", 103, None),
            maxwell("replace", 103, {"id": 1, "part": 1}),
            maxwell("insert", 103, {"id": 1, "part": 1, "at": "0000-00-00 00:00:00"}),
            "no json",
        ],
        "canal": [
            canal(
                "INSERT",
                [
                    {"id": "1", "name": "a", "price": "3.140", "blob": "\u0000ÿ"},
                    {"id": "2", "name": None, "price": "8.1"},
                ],
            ),
            canal(
                "UPDATE",
                [{"id": "1", "name": "b"}, {"id": "3", "name": "c"}],
                [{"name": None}, {"id": "2"}],
            ),
            canal("DELETE", [{"id": "3", "name": "c"}]),
            canal("CREATE", None, isDdl=True, sql="create table"),
            canal("QUERY", None, isDdl=False),
            canal("TRUNCATE", None, isDdl=True),
            canal("INSERT", [{"id": "9"}], table="other"),
            canal(
                "INSERT", [{"id": "A1"}, {"id": "4", "price": "1.005"}, {"id": "5", "blob": "ł"}]
            ),
            canal("INSERT", None),
            canal("WHAT", None),
            "[1]",
        ],
        "labels": [
            canal(
                "INSERT",
                [{"id": str(n), "state": state, "flags": str(n)} for n, state in enumerate("012")],
                mysqlType={"id": "int", "state": "enum('new','paid')", "flags": "set('a','b')"},
            ),
            # Several rows, and one: their payloads differ.
            canal(
                "INSERT",
                [
                    {"id": "3", "label": "0", "marks": "0"},
                    {"id": "4", "label": "1", "marks": "3"},
                    {"id": "5", "label": "2", "marks": None},
                    {"id": "6", "label": "4", "marks": "5"},
                    {"id": "7", "label": "3", "marks": "8"},
                ],
                mysqlType=LABELLED,
            ),
            canal("INSERT", [{"id": "8", "label": "3", "signs": "4"}], mysqlType=LABELLED),
            canal(
                "INSERT",
                [{"id": "9", "label": None, "marks": str(2**63 + 1)}],
                mysqlType={"MARKS": "SET(" + ",".join(f"'{n}'" for n in range(64)) + ")"},
            ),
            canal("INSERT", [{"id": "10", "label": "1"}]),
            canal("INSERT", [{"id": "11", "label": "x", "marks": "1"}], mysqlType=LABELLED),
        ],
        "dms": [
            dms("load", {"id": 1, "name": "loaded"}, 50),
            dms("insert", {"id": 2, "name": "x"}, 10),
            dms("update", {"id": 2}, 9, **{"commit-timestamp": "2019-10-31T22:53:56.000000Z"}),
            {**dms("update", {"id": 3, "name": "y"}, 11), "before-image": {"id": 2, "name": "x"}},
            dms("update", {"id": 4, "name": "y", "BI_id": 3}, 12),
            dms("delete", {"id": 4, "name": "y"}, 13),
            dms("add-column", None, 14, kind="control"),
            dms("insert", {"id": 9}, 14, **{"table-name": "other"}),
            dms("insert", {"id": 5}, 15, **{"commit-timestamp": None}),
            dms("merge", {"id": 5}, 16),
            dms("insert", None, 17),
            {"control": {}, "metadata": None},
        ],
        "dms_rows": """
            select *, if(id = '1', timestamp'2020-01-01 00:00:00.123456', null) as at,
                if(id = '1', cast('a' as binary), null) as bytes
            from values
                (null, '1', 'full load', null, '1.50', null),
                ('I', '2', 'x', '20201117153046030000000000000000010', '2', null),
                ('u', '2', null, '20201117153046030000000000000000011', '3', null),
                ('U', '3', 'key', '20201117153046030000000000000000012', '3', '2'),
                ('D', '3', 'key', '20201117153046030000000000000000013', '3', null),
                ('X', '3', 'key', '20201117153046030000000000000000014', '3', null),
                ('I', '4', 'key', null, '3', null)
                as t (Op, id, name, seq, price, BI_id)
        """,
        "goldengate": [
            ogg("I", "00000000000000000000009", after={"id": 1, "name": "a", "city": "x"}),
            ogg("U", "00000000000000000000010", {}, {"id": 1, "name": None}),
            ogg(
                "U",
                "00000000000000000000010",
                {},
                {"id": 1, "name": None},
                current_ts="2021-01-01T00:00:00",
            ),
            ogg(
                "u",
                "00000000000000000000011",
                {"id": 1},
                {
                    "id": 2,
                    "name": None,
                    "name_isMissing": True,
                    "city": None,
                    "city_isMissing": False,
                },
            ),
            ogg("D", "99999999999999999999999", {"id": 2}),
            {
                "table": "S.T",
                "op_type": "I",
                "op_ts": "2020-05-13T15:40:06.000000",
                "pos": "12",
                "id": 5,
                "name": "row",
            },
            ogg("T", "00000000000000000000013"),
            ogg("I", "14", after={"id": 9}, table="S.OTHER"),
            ogg("I", "15"),
            ogg("X", "16", after={"id": 9}),
            ogg("I", "1x", after={"id": 9}),
            ogg("I", "17", after={"id": 9}, op_ts=None),
            "{}",
        ],
        "renamed": [ogg("neu", "1", after={"id": 1}), ogg("weg", "2", {"id": 1}), ogg("I", "3")],
    }

    def test_wal2json_v1(self, built: Any) -> None:
        rows = built("stg_v1")
        at = dt.datetime(2019, 12, 31, 22)
        assert events(rows, "id", "name", "big", "at", "_old_id", "_unset") == [
            ("I", 0, "first", None, None, None, ["big", "at"]),
            ("I", 0, "first", None, None, None, ["big", "at"]),
            ("I", 1, "a", 2**63 - 1, at, None, []),
            ("U", 1, None, None, None, None, ["big", "at"]),
            ("T", None, None, None, None, None, []),
            ("I", 2, "b", None, None, None, ["big", "at"]),
            ("U", 3, None, None, None, 2, ["name", "big", "at"]),
            ("D", 3, None, None, None, None, []),
        ]
        assert len({row["_event_id"] for row in rows}) == len(rows) - 1
        assert rows[0]["_ts"] == dt.datetime(2018, 3, 27, 14, 58, 28, 988414)
        assert reasons(built("v1_quarantine")) == [
            "column big: big is not a bigint",
            "column names and values do not pair",
            "column names and values do not pair",
            "no event time",
            *["no sequence"] * 3,
            "unknown operation upsert",
            *["unreadable payload"] * 3,
        ]

    def test_wal2json_v2_of_one_table(self, built: Any) -> None:
        assert len(built("stg_v2")) == 1

    def test_maxwell(self, built: Any) -> None:
        rows = built("stg_maxwell")
        columns = ("id", "part", "name", "_old_id", "_old_part")
        assert events(rows, *columns) == [
            ("I", 1, 1, "a", None, None),
            ("U", 1, 1, None, None, None),
            ("U", 1, 1, "b", None, None),
            ("U", 1, 2, None, 1, 1),
            ("I", 3, 1, "z", None, None),
            ("I", 2, 1, None, None, None),
            ("U", 2, 1, "c", None, None),
            ("D", 3, 1, "z", None, None),
        ]
        first, second, *_ = sorted(rows, key=lambda row: row["_seq"])
        values = [first[name] for name in ("big", "blob", "set", "at")]
        at = dt.datetime(2020, 1, 1, 1, 2, 3, 500000)
        assert values == [Decimal(2**64 - 1), b"\x00\x01", ["x"], at]
        assert (second["doc"], "name" in second["_unset"]) == ('{"a":2,"b":[1]}', True)
        assert first["_ts"] == dt.datetime(1970, 1, 1, 0, 1, 40)
        assert reasons(built("maxwell_quarantine")) == [
            "column at: 0000-00-00 00:00:00 is not a timestamp_ntz",
            "no event time",
            "no row",
            "no sequence; no event time",
            "unknown operation replace",
            "unreadable payload",
        ]

    def test_canal(self, built: Any) -> None:
        columns = ("id", "name", "price", "blob", "_old_id", "_unset")
        assert events(built("stg_canal"), *columns) == [
            ("I", 1, "a", Decimal("3.14"), b"\x00\xff", None, []),
            ("I", 2, None, Decimal("8.10"), None, None, ["blob"]),
            ("U", 1, "b", None, None, None, ["price", "blob"]),
            ("U", 3, "c", None, None, 2, ["price", "blob"]),
            ("D", 3, "c", None, None, None, []),
            ("T", None, None, None, None, None, []),
        ]
        assert reasons(built("canal_quarantine")) == [
            "column blob: ł is not a binary",
            "column id: A1 is not a int",
            "column price: 1.005 is not a decimal(6,2)",
            "no row",
            "unknown operation WHAT",
            "unreadable payload",
        ]

    def test_canal_gives_numbers_for_labels(self, built: Any) -> None:
        """What docs/formats/canal.md says: the labels stand in `mysqlType` alone."""
        assert events(built("stg_labels"), "id", "state", "flags") == [
            ("I", 0, "0", 0),
            ("I", 1, "1", 1),
            ("I", 2, "2", 2),
            *(("I", n, None, None) for n in (3, 4, 5, 8, 9)),
        ]

    def test_canal_numbers_become_labels_where_that_is_declared(self, built: Any) -> None:
        assert events(built("stg_labels"), "id", "label", "marks")[3:] == [
            ("I", 3, "", ""),
            ("I", 4, "it's", "a,b c"),
            ("I", 5, "new, ok", None),
            ("I", 8, "paid", "d"),
            ("I", 9, None, "0,63"),
        ]
        assert reasons(built("labels_quarantine")) == [
            "column label: 1 has no label in mysqlType",
            "column label: 4 has no label in mysqlType",
            "column label: x has no label in mysqlType",
            "column marks: 8 has no label in mysqlType",
        ]

    def test_dms(self, built: Any) -> None:
        assert events(built("stg_dms"), "id", "name", "_old_id", "_unset") == [
            ("I", 1, "loaded", None, []),
            ("I", 2, "x", None, []),
            ("U", 3, "y", 2, []),
            ("U", 4, "y", 3, []),
            ("D", 4, "y", None, []),
            ("U", 2, None, None, []),
        ]
        assert reasons(built("dms_quarantine")) == [
            "no operation",
            "no row",
            "no sequence; no event time",
            "unknown operation merge",
        ]

    def test_dms_rows(self, built: Any) -> None:
        columns = ("id", "name", "price", "at", "bytes", "_old_id")
        at = dt.datetime(2020, 1, 1, 0, 0, 0, 123456)
        assert events(built("stg_dms_rows"), *columns) == [
            ("I", 1, "full load", Decimal("1.50"), at, b"a", None),
            ("I", 2, "x", Decimal("2.00"), None, None, None),
            ("U", 2, None, Decimal("3.00"), None, None, None),
            ("U", 3, "key", Decimal("3.00"), None, None, 2),
            ("D", 3, "key", Decimal("3.00"), None, None, None),
        ]
        assert reasons(built("dms_rows_quarantine")) == ["no sequence", "unknown operation X"]

    def test_goldengate(self, built: Any) -> None:
        rows = built("stg_goldengate")
        assert events(rows, "id", "name", "city", "_old_id", "_unset") == [
            ("I", 1, "a", "x", None, []),
            ("U", 1, None, None, None, ["city"]),
            ("U", 1, None, None, None, ["city"]),
            ("U", 2, None, None, 1, ["name"]),
            ("I", 5, "row", None, None, ["city"]),
            ("T", None, None, None, None, []),
            ("D", 2, None, None, None, []),
        ]
        assert len({row["_event_id"] for row in rows}) == len(rows) - 1
        assert {row["_ts"] for row in rows} == {dt.datetime(2020, 5, 13, 15, 40, 6)}
        assert reasons(built("goldengate_quarantine")) == [
            "no after image",
            "no event time",
            "no operation",
            "no sequence",
            "unknown operation X",
        ]
        assert events(built("stg_renamed"), "id") == [("I", 1), ("D", 1)]
        assert reasons(built("renamed_quarantine")) == ["no operation"]

    def test_a_payload_is_parsed_once(self, built: Any, project: Any) -> None:
        for name in ("v1", "v2", "maxwell", "canal", "dms"):
            plan = f"explain select * from {project.test_schema}.stg_{name} where id > 1"
            assert project.run_sql(plan, fetch="one")[0].count("columnNameOfCorruptRecord") == 1


@pytest.mark.extended
class TestLargeMessages(Decoding):
    """A statement over a whole table is one message: cost must not grow with its square."""

    ROWS = 10_000
    sources: ClassVar[dict[str, Any]] = {
        "v1": {"format": "wal2json_v1", "keys": ["id"], "columns": COLUMNS},
        "canal": {"format": "canal", "keys": ["id"], "sequence_by": "offset", "columns": COLUMNS},
    }
    raw: ClassVar[dict[str, Any]] = {
        "v1": [
            transaction("0/1", *(wal2json("insert", n, "x" * 50) for n in range(ROWS))),
            transaction("0/2", wal2json("insert", 1, "y"), wal2json("upsert", 2, "z")),
        ],
        "canal": [
            canal(
                "UPDATE",
                [{"id": str(n), "name": "x" * 50} for n in range(ROWS)],
                [{"name": "w"}] * ROWS,
            ),
            canal("INSERT", [{"id": "1", "name": "y"}, {"name": "z"}]),
        ],
    }

    def test_every_row_is_read(self, built: Any) -> None:
        for name in self.sources:
            assert len(built(f"stg_{name}")) == self.ROWS + 1

    def test_a_bad_change_is_kept_without_the_others(self, built: Any) -> None:
        (bad,) = built("v1_quarantine")
        assert bad["_reason"] == "unknown operation upsert"
        (change,) = json.loads(bad["_payload"])["change"]
        assert change["columnvalues"] == [2, "z"]
        (bad,) = built("canal_quarantine")
        assert bad["_reason"] == "no value for key column id"
        message = json.loads(bad["_payload"])
        assert (message["type"], message["data"]) == ("INSERT", [{"name": "z"}])
