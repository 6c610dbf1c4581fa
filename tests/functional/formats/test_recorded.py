"""Events that Debezium 3.5 wrote, as the topics' raw table has them: what they mean, and described.

They were recorded from servers as in tests/e2e/test_debezium.py: PostgreSQL 15 without schemas in
the messages, decimals and times as text; MariaDB 10.11 with schemas. Long texts were
shortened.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from pyarrow import parquet

from dbt_spark_cdc.cli import main
from tests.functional.formats.decoding import Decoding, events, reasons, source_yaml

RECORDED = Path(__file__).parent / "recorded"
HEADER = "get(filter(headers, h -> h.key = '__debezium.oldkey'), 0).value"
TYPES = {
    **{"id": "bigint", "balance": "decimal(12,2)", "big": "decimal(38,9)", "uid": "string"},
    **{"doc": "string", "at": "timestamp", "local": "timestamp_ntz", "day": "date"},
    **{"raw": "binary", "tags": "array<string>", "nrs": "array<int>"},
    **{"amounts": "array<decimal(8,2)>", "days": "array<date>", "ats": "array<timestamp>"},
    **{"locals": "array<timestamp_ntz>", "ok": "boolean", "m": "string", "ratio": "double"},
    **{"iv": "string", "raws": "array<binary>", "docs": "array<string>"},
}
ITEMS = {
    **{"warehouse": "int", "sku": "string", "v": "bigint", "price": "decimal(12,2)"},
    **{"pieces": "bigint", "sold": "boolean", "at": "timestamp", "local": "timestamp_ntz"},
    **{"day": "date", "raw": "binary", "doc": "string", "kind": "string", "ratio": "double"},
    "level": "int",
}
LANDED = {"format": "debezium", "landed": True, "message_key": "key", "old_key": HEADER}


def messages(name: str) -> list[dict[str, Any]]:
    """The messages of a file, as rows of the raw table."""
    rows = []
    for line in (RECORDED / f"debezium_{name}.jsonl").read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        row = {name: message[name] for name in ("value", "key", "topic", "offset", "headers")}
        row |= {"_table": message["topic"].rpartition(".")[2], "_file": message["topic"]}
        rows.append(row | {"_row": message["offset"], "_batch": 0, "_problem": None})
    return rows


def select(name: str) -> str:
    """The same as a SELECT."""
    table = "substring_index(topic, '.', -1)"
    headers = "transform(headers, h -> struct(h.key as key, cast(h.value as binary) as value))"
    return (
        f"select value, key, topic, offset, {headers} as headers, {table} as _table,"
        " topic as _file, offset as _row, 0L as _batch, cast(null as string) as _problem"
        f" from json.`{RECORDED}/debezium_{name}.jsonl`"
    )


class TestRecorded(Decoding):
    sources: ClassVar[dict[str, Any]] = {
        "declared_documents": {
            **LANDED,
            "raw": "postgresql",
            "where": "_table = 'documents'",
            "keys": ["id"],
            "columns": {"id": "int", "title": "string", "body": "string", "added": "int"},
        },
        "declared_types": {
            **LANDED,
            "raw": "postgresql",
            "where": "_table = 'types'",
            "keys": ["id"],
            "columns": TYPES,
            "encodings": dict.fromkeys(("balance", "big", "amounts"), "number"),
        },
        "declared_items": {
            **LANDED,
            "raw": "mariadb",
            "where": "_table = 'items'",
            "keys": ["warehouse", "sku"],
            "columns": ITEMS,
        },
    }
    raw: ClassVar[dict[str, Any]] = {name: select(name) for name in ("postgresql", "mariadb")}
    described: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(scope="class")
    def models(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        for name in self.raw:
            path = tmp_path_factory.mktemp("recorded") / f"{name}.parquet"
            parquet.write_table(pa.Table.from_pylist(messages(name)), path)
            said = CliRunner().invoke(main, ["describe", str(path), "--yaml"]).output
            for source in yaml.safe_load(said)["sources"]:
                for table in source["tables"]:
                    columns = {c["name"]: c["data_type"] for c in table["columns"]}
                    options = table["config"]["meta"]["cdc"] | {"columns": columns, "raw": name}
                    self.described[table["name"]] = options
        sources = self.sources | self.described
        models = {"sources.yml": source_yaml(sources)}
        for name in sources:
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            models[f"{name}_quarantine.sql"] = f"{{{{ cdc.quarantine(source('app', '{name}')) }}}}"
        return models

    def test_a_table_of_documents(self, built: Any) -> None:
        rows = built("stg_declared_documents")
        names = ("id", "_old_id", "title", "body", "added", "_unset")
        assert not built("declared_documents_quarantine")
        first, second = "xyz" * 5, "abc" * 5
        # The transaction that was open during the snapshot is placed before it.
        assert events(rows, *names) == [
            ("U", 2, None, "in flight", None, None, ["body", "added"]),
            ("I", 1, None, "first", first, None, ["added"]),
            ("I", 2, None, "second", second, None, ["added"]),
            ("U", 1, None, "toast kept", None, None, ["body", "added"]),
            ("U", 11, 1, "toast kept", None, None, ["body", "added"]),
            ("D", 1, None, None, None, None, []),
            ("D", 11, None, None, None, None, []),
            ("I", 11, None, "again", None, None, ["added"]),
            ("U", 2, None, "toast kept again", None, 5, ["body"]),
            ("I", 11, None, "again", None, 5, []),
            ("I", 2, None, "toast kept again", second, 5, []),
        ]

    def test_types_of_postgresql(self, built: Any) -> None:
        day, at = dt.date(2020, 2, 3), dt.datetime(2020, 2, 3, 2, 5, 6)
        local = dt.datetime(2020, 2, 3, 4, 5, 6)
        found = events(built("stg_declared_types"), *TYPES)
        assert found[0] == (
            *("I", 1, Decimal("12.50"), Decimal("12345678901234567890.123456789")),
            *("0e37df36-f698-11e6-8dd4-cb9ced3df976", '{"a": [1, null], "ü": 1.50}'),
            *(at.replace(microsecond=123456), local.replace(microsecond=123456), day),
            *(b"\x00\xff", ["a", None, "b,c"], [1, None, 3], [Decimal("1.50"), None], [day]),
            *([at], [local], True, "ok", 0.1, "P0Y1M2DT3H4M5S", [b"\x00\xff"], ['{"a": 1}']),
        )
        assert [row[1] for row in found] == [1, 5]
        assert found[1][8] == dt.date(1, 1, 1)
        # Infinity, years before Christ and behind 9999 have no place in a table.
        assert [
            reason.split(" is ")[0] for reason in reasons(built("declared_types_quarantine"))
        ] == [
            "column at: +12020-01-01T00:00:00.000000Z",
            "column at: -0043-03-15T00:00:00.000000Z",
            'column balance: "NAN"',
        ]

    def test_types_of_mariadb(self, built: Any) -> None:
        assert not built("declared_items_quarantine")
        found = events(built("stg_declared_items"), *ITEMS, "_unset")
        at = dt.datetime(2020, 2, 3, 4, 5, 6, 123456)
        local = dt.datetime(2020, 3, 29, 2, 30, 0, 1)
        day, gone = dt.date(2020, 2, 29), dt.datetime(1000, 1, 1)
        first = (1, "ä", 11, Decimal("1234.00"), 2**63 - 1, None, None, local, day, None, "null")
        last = (0, "", 32, None, 0, True, at, gone, None, None, '{"ü": [1.50, null]}', None, 1e300)
        assert found == [
            ("I", *first, "b", 1e300, None, ["level"]),
            ("U", *first[:2], 13, Decimal("617.00"), *first[4:], "b", 1e300, None, ["level"]),
            ("D", *first[:2], 13, Decimal("617.00"), *first[4:], "b", 1e300, None, []),
            ("I", *last, None, ["level"]),
            ("I", *last, 1, []),
        ]

    def test_what_is_described_reads_all_events(self, built: Any) -> None:
        selected = {
            name: (options["keys"], options.get("where"), options.get("sequence_by"))
            for name, options in self.described.items()
        }
        assert selected == {
            "odd_table": (["Id"], "_table = 'Odd_Table'", None),
            "documents": (["id"], None, None),
            "debezium_signal": (["id"], None, None),
            "types": (["id"], None, None),
            "items": (["warehouse", "sku"], None, None),
            "notes": (["id"], None, None),
        }
        counts = {name: len(built(f"stg_{name}")) for name in self.described}
        expected = {"odd_table": 3, "documents": 11, "debezium_signal": 1, "types": 5}
        assert counts == expected | {"items": 5, "notes": 2}
        for name in self.described:
            assert not built(f"{name}_quarantine"), name
