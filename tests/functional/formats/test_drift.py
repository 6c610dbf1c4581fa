"""What a source became since it was declared: renamed columns, and those nobody declared."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tests.functional.formats.decoding import Decoding, events

COLUMNS = {"id": "bigint", "mail": "string", "size": "int"}
# `mail` was `email`, and first of all `address`; nobody has declared `color`, nothing has `size`.
DECLARED = {"columns": COLUMNS, "keys": ["id"], "renames": {"mail": ["email", "address"]}}
META = {"schema-name": "s", "table-name": "t", "commit-timestamp": "2020-01-01T00:00:00Z"}
FIELDS = [
    {"field": "id", "type": "int64"},
    {"field": "mail", "type": "string"},
    {"field": "color", "type": "int32", "name": "io.debezium.time.Date"},
]
WAL = {"schema": "public", "table": "t"}


class TestDrift(Decoding):
    views = ("schema_drift",)
    sources: ClassVar[dict[str, dict[str, Any]]] = {
        "wal2json_v1": {**DECLARED, "format": "wal2json_v1"},
        "wal2json_v2": {**DECLARED, "format": "wal2json_v2"},
        "debezium": {**DECLARED, "format": "debezium", "event_time": False},
        "dms": {**DECLARED, "format": "dms", "payload": "value"},
        "maxwell": {**DECLARED, "format": "maxwell", "event_time": False},
        "canal": {**DECLARED, "format": "canal", "sequence_by": "offset"},
        "flagged": {
            **DECLARED,
            "columns": {"id": "bigint", "mail": "string", "gone": "string"},
            "except_columns": ["gone"],
            "format": "flagged",
            "sequence_by": "seq",
            "operation": "op",
        },
        "change_event": {**DECLARED, "format": "change_event", "payload": "value"},
        "goldengate": {**DECLARED, "format": "goldengate"},
    }
    raw: ClassVar[dict[str, Any]] = {
        "wal2json_v1": [
            {
                "timestamp": f"2020-01-01 00:00:0{n}+00",
                "nextlsn": f"0/{n}",
                "change": [
                    {
                        "kind": "insert",
                        "columnnames": ["id", name, "color"],
                        "columntypes": ["bigint", "text", "integer"],
                        "columnvalues": [n, "x", 1],
                        **WAL,
                    }
                ],
            }
            for n, name in enumerate(["address", "email", "mail"])
        ],
        "wal2json_v2": [
            {
                "action": "I",
                "timestamp": "2020-01-01 00:00:00+00",
                "lsn": f"0/{n}",
                "columns": [
                    {"name": "id", "type": "bigint", "value": n},
                    {"name": name, "type": "text", "value": "x"},
                    {"name": "color", "type": "integer", "value": 1},
                ],
                **WAL,
            }
            for n, name in enumerate(["address", "email", "mail"])
        ],
        "debezium": [
            {
                "schema": {"fields": [{"field": "after", "fields": FIELDS}]},
                "payload": {
                    "op": "c",
                    "after": {"id": 0, "mail": "x", "color": 18262},
                    "source": {"lsn": 1},
                },
            },
            {"payload": {"op": "c", "after": {"id": 1, "email": "x"}, "source": {"lsn": 2}}},
            {"op": "c", "after": {"id": 2, "address": "x", "color": "red"}, "source": {"lsn": 3}},
            {"ddl": "ALTER TABLE t ADD COLUMN color int", "databaseName": "d"},
        ],
        "dms": [
            {
                "control": {"table-def": {"columns": {"color": {"type": "INT32"}}}},
                "metadata": {"record-type": "control", "operation": "add-column", **META},
            },
            *(
                {
                    "data": {"id": n, name: "x"},
                    "metadata": {
                        "record-type": "data",
                        "operation": "insert",
                        "transaction-id": n,
                        **META,
                    },
                }
                for n, name in enumerate(["address", "email", "mail"])
            ),
        ],
        "maxwell": [
            {
                "type": "table-alter",
                "database": "d",
                "table": "t",
                "ts": 1,
                "sql": "ALTER TABLE t ADD COLUMN color int",
                "def": {"columns": [{"name": "color", "type": "int"}]},
            },
            *(
                {
                    "type": "insert",
                    "database": "d",
                    "table": "t",
                    "ts": n,
                    "data": {"id": n, name: "x"},
                }
                for n, name in enumerate(["address", "email", "mail"])
            ),
        ],
        "canal": [
            {
                "type": "INSERT",
                "isDdl": False,
                "es": 1000,
                "mysqlType": {
                    name: "int" if name == "color" else "text" for row in rows for name in row
                },
                "data": rows,
            }
            for rows in (
                [{"id": "0", "address": "x", "color": "1"}],
                # The types stand once in a message of several rows.
                [{"id": "1", "email": "x", "color": "1"}, {"id": "2", "mail": "x", "color": "1"}],
            )
        ]
        + [{"type": "ALTER", "isDdl": True, "es": 1000, "data": None, "sql": "ALTER TABLE t"}],
        "flagged": "select id, seq, op, address, mail, color from values"
        " (0, 1, 'I', 'x', null, 1), (1, 2, 'I', 'x', null, 1), (2, 3, 'I', null, 'x', 1)"
        " as t (id, seq, op, address, mail, color)",
        "change_event": [
            {
                "changeType": "insert",
                "timestamp": n,
                "columnNames": ["id", name, "color"],
                "columnValues": [str(n), "x", "1"],
            }
            for n, name in enumerate(["address", "email", "mail"])
        ],
        "goldengate": [
            {
                "table": "s.t",
                "op_type": "I",
                "op_ts": "2020-01-01 00:00:00",
                "pos": f"0{n}",
                "after": {"id": n, name: "x", "color": 1},
            }
            for n, name in enumerate(["address", "email", "mail"])
        ],
    }

    @pytest.mark.parametrize("name", list(sources))
    def test_former_names_are_read(self, built: Any, name: str) -> None:
        found = events(built(f"stg_{name}"), "id", "mail")
        assert sorted(found) == [("I", 0, "x"), ("I", 1, "x"), ("I", 2, "x")]

    @pytest.mark.parametrize(
        ("name", "kind", "ddl"),
        [
            ("wal2json_v1", "integer", None),
            ("wal2json_v2", "integer", None),
            ("debezium", "io.debezium.time.Date", "ALTER TABLE t ADD COLUMN color int"),
            ("dms", "INT32", '"operation": "add-column"'),
            ("maxwell", "int", "ALTER TABLE t ADD COLUMN color int"),
            ("canal", "int", "ALTER TABLE t"),
            ("flagged", "int", None),
            ("change_event", None, None),
            ("goldengate", "BIGINT", None),
        ],
    )
    def test_drift_is_seen(self, built: Any, name: str, kind: str | None, ddl: str | None) -> None:
        rows = built(f"{name}_schema_drift")
        found: dict[str, set[str]] = {}
        for row in rows:
            found.setdefault(row["finding"], set()).add(row["column_name"])
        assert "color" in found["not declared"]
        assert "color" in {r["column_name"] for r in rows if r["source_type"] == kind}
        if name == "canal":
            assert {r["source_type"] for r in rows if r["column_name"] == "color"} == {"int"}
        assert {"id", "mail"} == found["declared"]
        assert "address" in found["former name of mail"]
        if name == "flagged":
            assert "size" not in str(found) and "left out" not in found
        else:
            assert found["declared, and no event has it"] == {"size"}
        texts = [row["ddl"] for row in rows if row["finding"] == "DDL"]
        assert len(texts) == (ddl is not None)
        assert ddl is None or ddl in texts[0]
