"""`cdc describe`: formats recognised, keys, types and order proposed, from small samples."""

import csv
import gzip
import io
import json
import tempfile
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.generate.config_table import read_config
from dbt_spark_cdc.samples.describe import csv_rows, propose, report
from dbt_spark_cdc.samples.recognise import recognise
from dbt_spark_cdc.samples.records import Sample, Unreadable, read_sample
from dbt_spark_cdc.samples.source_types import of_database, of_debezium, of_values

ROOT = Path(__file__).resolve().parents[3]


def jsonl(path: Path, *events: object) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def run(path: object, *arguments: str, code: int = 0) -> str:
    ran = CliRunner().invoke(main, ["describe", str(path), *arguments])
    assert ran.exit_code == code, ran.output
    return ran.output


def declared(path: object, *arguments: str) -> dict:
    """The first table of the proposed source."""
    said = run(path, "--yaml", *arguments)
    if said.startswith("# To be completed"):  # what is not complete is a comment
        assert yaml.safe_load(said) is None
        said = "".join(line[2:] for line in said.splitlines(keepends=True)[1:])
    (source,) = yaml.safe_load(said)["sources"]
    table = source["tables"][0]
    return {
        "source": source["name"],
        "table": table["name"],
        **table["config"]["meta"]["cdc"],
        "columns": {column["name"]: column["data_type"] for column in table["columns"]},
    }


POSITION = {"lsn": "0/1580AB8", "timestamp": "2026-01-01 00:00:00+00"}


def wal2json(action: str, columns: dict | None = None, identity: dict | None = None) -> dict:
    types = {"id": "integer", "price": "numeric(12,2)", "at": "timestamp with time zone"}

    def listed(values: dict) -> list[dict]:
        return [{"name": n, "type": types.get(n, "text"), "value": v} for n, v in values.items()]

    event = {"action": action, "schema": "shop", "table": "items", **POSITION}
    if columns:
        event["columns"] = listed(columns)
    if identity:
        event["identity"] = listed(identity)
    return event


ROW = {"id": 1, "price": 2.5, "at": "2026-01-01 00:00:00+00", "note": "x"}
COLUMNS = {"id": "int", "price": "decimal(12,2)", "at": "timestamp", "note": "string"}
DEBEZIUM = {
    "before": None,
    "after": {"id": 1, "name": "a"},
    "source": {
        "connector": "mysql",
        "db": "inventory",
        "table": "products",
        "file": "bin.000003",
        "pos": 1,
    }
    | {"ts_ms": 1},
    "op": "c",
    "ts_ms": 1,
}


def document(fields: dict) -> dict:
    """An event of MongoDB's connector."""
    source = {"connector": "mongodb", "db": "inventory", "collection": "customers"}
    return {
        "after": json.dumps(fields),
        "source": {**source, "ts_ms": 1558965508000, "ord": 1},
        "op": "u",
    }


COMMITTED = {"_commit_timestamp": "2026-01-01T00:00:00Z"}
UNWRAPPED = {"__lsn": 5, "__source_ts_ms": 1}
DEBEZIUM_SCHEMA = {
    "type": "struct",
    "fields": [
        {
            "field": "after",
            "type": "struct",
            "fields": [
                {"field": "id", "type": "int32"},
                {
                    "field": "price",
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "2", "connect.decimal.precision": "10"},
                },
                {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
            ],
        }
    ],
}
FORMATS = {
    "wal2json_v2": (
        [
            {"action": "B"},
            wal2json("I", ROW),
            wal2json("U", ROW, {"id": 1}),
            wal2json("D", None, {"id": 1}),
            {"action": "T", "schema": "shop", "table": "items", **POSITION},
            {"action": "C"},
        ],
        {"source": "shop", "table": "items", "keys": ["id"], "columns": COLUMNS},
    ),
    "wal2json_v1": (
        [
            {"change": []},
            {
                "nextlsn": "0/1580AB8",
                "timestamp": "2026-01-01 00:00:00+00",
                "change": [
                    {
                        "kind": "update",
                        "schema": "shop",
                        "table": "items",
                        "columnnames": ["id", "nr", "n"],
                        "columntypes": ["bigint", "smallint", "character varying(9)"],
                        "columnvalues": [1, 2, "a"],
                        "oldkeys": {"keynames": ["id", "nr"], "keyvalues": [1, 1]},
                    }
                ],
            },
        ],
        {"keys": ["id", "nr"], "columns": {"id": "bigint", "nr": "smallint", "n": "string"}},
    ),
    "debezium": (
        [DEBEZIUM, DEBEZIUM | {"op": "u", "before": {"id": 1, "name": "b"}}],
        {
            "source": "inventory",
            "table": "products",
            "keys": ["id"],
            "columns": {"id": "bigint", "name": "string"},
        },
    ),
    "debezium with schema": (
        [
            {
                "schema": DEBEZIUM_SCHEMA,
                "payload": DEBEZIUM | {"after": {"id": 1, "price": "AfQ=", "day": 20000}},
            },
            {"schema": None, "payload": None},
        ],
        {"columns": {"id": "int", "price": "decimal(10,2)", "day": "date"}},
    ),
    "debezium with message key": (
        [
            {"key": {"nr": 1}, "value": DEBEZIUM | {"after": {"id": 1, "nr": 1}}},
            {"key": {"nr": 1}, "value": None},
        ],
        {"keys": ["nr"]},
    ),
    "debezium of mongodb": (
        [
            document(
                {"_id": {"$oid": "5f"}, "n": {"$numberLong": "1"}, "sum": {"a": {"$oid": "6"}}}
            ),
            document({"_id": {"$oid": "5f"}, "at": {"$date": 1558965508123}, "tags": ["x"]}),
            document({"_id": {"$oid": "6a"}, "at": {"$date": {"$numberLong": "0"}}}),
            document({"_id": {"$oid": "6a"}, "at": {"$date": "2026-01-01T00:00:00Z"}, "ok": True}),
        ],
        {
            "source": "inventory",
            "table": "customers",
            "keys": ["_id"],
            "columns": {
                "_id": "string",
                "n": "bigint",
                "sum": "string",
                "at": "timestamp",
                "tags": "string",
                "ok": "boolean",
            },
        },
    ),
    "debezium unwrapped": (
        [
            {"id": 1, "name": "a", "__op": "c", "__deleted": "false"} | UNWRAPPED,
            {"id": 1, "name": "a", "__op": "d", "__deleted": "true"} | UNWRAPPED,
        ],
        {"keys": ["id"], "columns": {"id": "bigint", "name": "string"}},
    ),
    "goldengate": (
        [
            {
                "table": "OGG.ITEMS",
                "op_type": "I",
                "op_ts": "2026-01-01 00:00:00.000000",
                "pos": "0000143",
                "primary_keys": ["ID"],
                "after": {"ID": 1, "W": 3.25},
            }
        ],
        {
            "source": "ogg",
            "table": "items",
            "keys": ["ID"],
            "columns": {"ID": "bigint", "W": "double"},
        },
    ),
    "maxwell": (
        [
            {"database": "test", "table": "e", "type": "table-create", "ts": 1, "def": {}},
            {
                "database": "test",
                "table": "e",
                "type": "insert",
                "ts": 1,
                "data": {"id": 1, "n": 2**63},
            },
            {
                "database": "test",
                "table": "e",
                "type": "update",
                "ts": 2,
                "data": {"id": 1, "n": 3},
                "old": {"n": 2},
                "primary_key_columns": ["id"],
            },
        ],
        {
            "source": "test",
            "table": "e",
            "keys": ["id"],
            "columns": {"id": "bigint", "n": "decimal(38,0)"},
        },
    ),
    "canal": (
        [
            {
                "database": "d",
                "table": "t",
                "type": "ALTER",
                "isDdl": True,
                "data": None,
                "sql": "x",
            },
            {
                "database": "d",
                "table": "t",
                "type": "INSERT",
                "isDdl": False,
                "es": 1,
                "id": 1,
                "pkNames": ["id"],
                "mysqlType": {"id": "bigint(20) unsigned", "at": "datetime(3)"},
                "data": [
                    {"id": "1", "at": "2026-01-01 00:00:00", "free": "1.50"},
                    {"id": "2", "at": None, "free": "2.25"},
                ],
                "old": None,
            },
        ],
        {
            "keys": ["id"],
            "columns": {"id": "decimal(20,0)", "at": "timestamp_ntz", "free": "decimal(18,2)"},
        },
    ),
    "dms": (
        [
            {"metadata": {"record-type": "control", "operation": "create-table"}},
            {
                "data": {"id": 77, "n": "x"},
                "metadata": {
                    "record-type": "data",
                    "operation": "insert",
                    "commit-timestamp": "2026-01-01T00:00:00Z",
                    "partition-key-type": "primary-key",
                    "partition-key-value": "s.t.77",
                    "schema-name": "s",
                    "table-name": "t",
                },
            },
        ],
        {"source": "s", "table": "t", "keys": ["id"]},
    ),
    "change_event": (
        [
            {
                "changeType": "update",
                "timestamp": "1",
                "columnNames": ["id", "n"],
                "columnValues": ["7", "x"],
                "oldKeyNames": ["id"],
                "oldKeyValues": ["6"],
            }
        ],
        {"keys": ["id"], "columns": {"id": "bigint", "n": "string"}},
    ),
    "delta_cdf": (
        [
            {"id": 1, "n": "a", "_change_type": "insert", "_commit_version": 1} | COMMITTED,
            {"id": 1, "n": "a", "_change_type": "update_preimage", "_commit_version": 2}
            | COMMITTED,
            {"id": 1, "n": "b", "_change_type": "update_postimage", "_commit_version": 2}
            | COMMITTED,
        ],
        {"keys": ["id"], "columns": {"id": "bigint", "n": "string"}},
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_recognised(tmp_path, name):
    events, expected = FORMATS[name]
    path = jsonl(tmp_path / "sample.jsonl", *events)
    found = declared(path)
    assert found["format"] == name.partition(" ")[0]
    assert found.get("payload") == (None if name == "delta_cdf" else "value")
    assert {key: found[key] for key in expected} == expected
    assert run(path).startswith(f"# sample.jsonl: {found['format']}, sure\n#   100% of ")


def test_rows_keep_options_that_have_no_cell_of_their_own(tmp_path):
    events = [
        {"op": "c", "ts_ms": 1, "after": {"id": 1, "Line No": 2}, "source": source}
        for source in ({"schema": "a", "table": name, "lsn": 1} for name in ("orders", "items"))
    ]
    row = tmp_path / "cdc_tables.csv"
    row.write_text(run(jsonl(tmp_path / "topic.jsonl", *events), "--row"))
    for config in read_config(row):
        assert config.declaration["source_table"] == f"a.{config.table}"
        assert config.declaration["renames"] == {"line_no": "Line No"}
        assert config.declaration["payload"] == "value"


@pytest.mark.parametrize("limit", ["0", "-1"])
@pytest.mark.parametrize("command", [["describe", "a.csv"], ["init", "shop", "--events", "a.csv"]])
def test_a_limit_is_at_least_1(tmp_path, monkeypatch, command, limit):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("op,id,seq\nI,1,1\nU,1,2\n")
    ran = CliRunner().invoke(main, [*command, "--limit", limit])
    assert ran.exit_code == 2 and f"{limit} is not in the range x>=1" in ran.output
    ran = CliRunner().invoke(main, [*command, "--limit", "1"])
    assert ran.exit_code == 0 and "1 change: I 1" in ran.output


@pytest.mark.parametrize("name", FORMATS)
def test_each_proposal_is_a_sound_row(tmp_path, name):
    path = jsonl(tmp_path / "sample.jsonl", *FORMATS[name][0])
    row = tmp_path / "cdc_tables.csv"
    row.write_text(run(path, "--row"))
    (config,) = read_config(row)
    found = declared(path)
    assert config.table == found.pop("table")
    assert config.system == found.pop("source")
    assert {column.name: column.data_type for column in config.columns} == found.pop("columns")
    assert dict(config.declaration) == found


def test_rows_with_a_flag_are_flagged(tmp_path):
    path = tmp_path / "employees.csv"
    path.write_text(
        "flag;emp_no;salary;hired;changed_at\n"
        " i;7;10.50;2020-02-29;2026-01-01 10:00:00Z\n"
        "U;7;11.00;2020-02-29;2026-01-02 10:00:00Z\n"
        "D;7;;;2026-01-03 10:00:00Z\n"
    )
    assert declared(path) == {
        "source": "raw",
        "table": "employees",
        "format": "flagged",
        "keys": ["emp_no"],
        "sequence_by": "try_cast(changed_at as timestamp)",
        "event_time": "try_cast(changed_at as timestamp)",
        "operation": "flag",
        "columns": {"emp_no": "bigint", "salary": "decimal(18,2)", "hired": "date"},
    }
    said = run(path)
    assert "# employees.csv: flagged, likely" in said
    assert "column `flag` holds I, U, D or T in 100% of 3 rows" in said
    assert "keys: emp_no, a guess" in said


def test_rows_in_any_order_are_put_in_order_before_they_are_judged(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("op,id,state,seq\nU,1,paid,10\nI,1,new,9\nI,2,new,8\n")
    assert declared(path)["keys"] == ["id"]


def test_an_order_that_is_not_there_is_asked_for(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("op,id\nI,1\nD,1\n")
    assert "order: no column found" in run(path)
    assert declared(path)["sequence_by"] == "TODO"


def test_local_time_is_no_order(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "op,id,changed_at\nI,1,2026-10-25 02:59:00\nU,1,2026-10-25 02:01:00\nU,2,2026-10-26 00:00\n"
    )
    found = declared(path)
    assert found["sequence_by"] == "TODO"
    assert found["columns"] == {"id": "bigint", "changed_at": "timestamp_ntz"}
    assert "order: not changed_at, whose times have no zone" in run(path)


def test_a_position_is_a_number_where_the_raw_table_has_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("op,id,seq,SCN no\nI,1,9,0009\nD,1,10,0010\n")
    assert declared(path)["sequence_by"] == "try_cast(seq as decimal(38,0))"


def without(events: object, *names: str) -> object:
    """Events without these fields, at any depth."""
    if isinstance(events, list):
        return [without(event, *names) for event in events]
    if isinstance(events, dict):
        return {k: without(v, *names) for k, v in events.items() if k not in names}
    return events


POSITIONS = {
    "wal2json_v2": (["lsn"], ["try_cast(_message.timestamp as timestamp)"]),
    "wal2json_v1": (["nextlsn"], ["try_cast(_message.timestamp as timestamp)"]),
    "debezium": (["pos"], ["try_cast(_message.source.ts_ms as bigint)"]),
    "debezium with schema": (["pos"], ["try_cast(_message.payload.source.ts_ms as bigint)"]),
    "debezium unwrapped": (
        ["__lsn"],
        ["try_cast(get_json_object(value, '$.__source_ts_ms') as bigint)"],
    ),
    "canal": (
        [],
        [
            "try_cast(_message.es as bigint)",
            "try_cast(get_json_object(value, '$.id') as bigint)",
        ],
    ),
    "goldengate": (["pos"], "TODO"),
    "maxwell": (["ts"], "TODO"),
    "change_event": (["timestamp"], "TODO"),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_events_without_a_position_are_not_said_to_have_one(tmp_path, name):
    missing, order = POSITIONS[name]
    path = jsonl(tmp_path / "sample.jsonl", *without(FORMATS[name][0], *missing))
    found = declared(path)
    assert found["sequence_by"] == order
    assert found.get("event_time") is (False if name == "maxwell" else None)
    assert "the events carry no position" in run(path)
    # Beside the events something may stand that orders them.
    lines = [json.dumps(event) for event in without(FORMATS[name][0], *missing)]
    table = pa.table({"offset": list(range(len(lines))), "value": lines})
    parquet.write_table(table, tmp_path / "raw.parquet")
    assert declared(tmp_path / "raw.parquet")["sequence_by"] == "offset"


def test_events_without_a_time_get_none(tmp_path):
    events = without(FORMATS["wal2json_v1"][0], "timestamp")
    assert declared(jsonl(tmp_path / "sample.jsonl", *events))["event_time"] is False


def test_before_images_of_dms_files_are_no_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("Op,id,BI_id,seq\nI,1,,1\nU,2,1,2\n")
    assert declared(path)["columns"] == {"id": "bigint"}


def test_names_that_no_column_can_have_are_left_out(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("op,id,a b,back`tick,_op,seq\nI,1,2,3,4,1\nU,1,3,4,5,2\n")
    assert declared(path)["columns"] == {"id": "bigint"}
    for name in ("a b", "back`tick", "_op"):
        assert f"{name} is left out: Delta or the package does not take the name" in run(path)


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("op,id\nI,1\n".encode("utf-16"), "UTF-16. Convert it: iconv -f utf-16 -t utf-8"),
        (b"\xfe\xff" + "op,id\nI,1\n".encode("utf-16-be"), "iconv -f utf-16 -t utf-8"),
        (bytes(range(256)), "is not a text file (it holds NUL bytes), and not Parquet"),
        ("op,name\nI,Zoé\n".encode("latin1"), "(byte 12). Convert it: iconv -f latin1 -t utf-8"),
    ],
)
def test_files_in_other_encodings_are_refused_with_the_right_advice(tmp_path, content, advice):
    (tmp_path / "a.csv").write_bytes(content)
    assert advice in run(tmp_path / "a.csv", code=2)


def test_a_table_is_looked_for_in_a_project_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run("raw.t", code=2)
    assert (
        said == f"cdc: There is no dbt_project.yml in {tmp_path}. Name its folder: --project-dir\n"
    )


@pytest.mark.parametrize("name", ["public.user", "user", "USER"])
def test_a_table_is_named_with_or_without_its_schema(tmp_path, name):
    events = [
        {"op": "c", "after": {"id": 1}, "source": {"schema": schema, "table": table}}
        for schema, table in (("public", "user"), ("public", "users"), ("old", "item"))
    ]
    path = jsonl(tmp_path / "a.jsonl", *events)
    said = run(path, "--table", name)
    assert "# public.user\n" in said and "users" not in said and "item" not in said
    assert "The tables are old.item, public.user, public.users." in run(
        path, "--table", "item.old", code=2
    )


def test_a_list_in_the_place_of_a_key_stops_nothing(tmp_path):
    events = [
        {"op": "c", "after": {"id": 1}, "source": {"table": "t"}},
        {"op": "u", "before": {"id": []}, "after": {"id": 1}, "source": {"table": "t"}},
    ]
    assert "keys: id, a guess" in run(jsonl(tmp_path / "a.jsonl", *events))


def test_dms_files_have_no_header(tmp_path):
    path = tmp_path / "LOAD1.csv"
    path.write_text("I,101,Smith\nU,101,Smith\nD,101,Smith\n")
    found = declared(path)
    assert (found["format"], found["table"]) == ("dms", "load1")
    assert found["columns"] == {"_c1": "bigint", "_c2": "string"}
    assert "the file has no line of column names" in run(path)


def test_keys_are_found_by_what_rows_share(tmp_path):
    rows = [
        {"op": op, "order_id": order, "line_no": line, "state": state, "seq": seq}
        for seq, (op, order, line, state) in enumerate(
            [("I", 1, 1, "a"), ("I", 1, 2, "a"), ("I", 2, 1, "a"), ("U", 1, 2, "b")]
        )
    ]
    path = jsonl(tmp_path / "lines.jsonl", *rows)
    assert declared(path)["keys"] == ["order_id", "line_no"]
    assert declared(path)["sequence_by"] == "seq"
    # Deletes that carry the key and nothing else say which it is.
    bare = [{"op": "D", "order_id": None, "line_no": None, "state": "a", "seq": 9}]
    assert declared(jsonl(path, *rows, *bare))["keys"] == ["state"]


def test_an_image_of_all_columns_is_no_key(tmp_path):
    path = jsonl(tmp_path / "f.jsonl", wal2json("I", ROW), wal2json("U", ROW, ROW))
    assert declared(path)["keys"] == ["id"]
    assert "a guess: no event names its key" in run(path)


def test_many_tables_in_one_file_are_told_apart(tmp_path):
    other = wal2json("I", {"id": 2}) | {"table": "carts"}
    path = jsonl(tmp_path / "topic.jsonl", wal2json("I", ROW), other, {"action": "C"})
    (source,) = yaml.safe_load(run(path, "--yaml"))["sources"]
    named = {t["name"]: t["config"]["meta"]["cdc"]["source_table"] for t in source["tables"]}
    assert named == {"items": "shop.items", "carts": "shop.carts"}
    assert declared(path, "--table", "shop.carts", "--system", "web")["source"] == "web"
    assert "The tables are shop.carts, shop.items" in run(path, "--table", "none", code=2)
    assert "and so for the other 1" in run(path)


def test_parquet_gives_its_own_types(tmp_path):
    table = pa.table(
        {
            "Op": ["I", "U"],
            "id": pa.array([1, 1], pa.int32()),
            "price": pa.array([Decimal("1.50")] * 2, pa.decimal128(9, 2)),
            "at": pa.array([datetime(2026, 1, 1)] * 2, pa.timestamp("us")),
            "zoned": pa.array([datetime(2026, 1, 1)] * 2, pa.timestamp("us", "UTC")),
            "more": pa.array([{"a": [1]}] * 2, pa.struct([("a", pa.list_(pa.int64()))])),
        }
    )
    parquet.write_table(table, tmp_path / "part-0.parquet")
    (tmp_path / "_SUCCESS").touch()
    found = declared(tmp_path)  # the folder
    assert (found["format"], found["keys"]) == ("dms", ["id"])
    assert found["columns"] == {
        "id": "int",
        "price": "decimal(9,2)",
        "at": "timestamp_ntz",
        "zoned": "timestamp",
        "more": "struct<a:array<bigint>>",
    }


def test_events_in_a_column_of_text_are_found(tmp_path):
    lines = [json.dumps(wal2json("I", ROW)), json.dumps(wal2json("U", ROW, {"id": 1}))]
    parquet.write_table(pa.table({"_file": ["a", "a"], "line": lines}), tmp_path / "raw.parquet")
    found = declared(tmp_path / "raw.parquet")
    assert (found["format"], found["payload"], found["table"]) == ("wal2json_v2", "line", "items")
    assert found["columns"] == COLUMNS


def test_a_landed_table_is_known_by_its_columns(tmp_path):
    events = [wal2json("I", ROW), wal2json("D", None, {"id": 1})]
    lines = [*map(json.dumps, events), "{cut", None]
    rows = {name: ["x"] * 4 for name in ("_table", "_file", "_row", "_batch", "_problem")}
    parquet.write_table(pa.table({"value": lines, **rows}), tmp_path / "raw.parquet")
    found = declared(tmp_path / "raw.parquet")
    assert found["landed"] is True
    assert "payload" not in found
    assert found["columns"] == COLUMNS


def test_a_table_of_landed_messages_has_their_keys(tmp_path):
    lines = [json.dumps(event) for event in FORMATS["debezium"][0]] + [None]
    names = ("_table", "_file", "_row", "_batch", "_problem", "topic", "headers")
    rows = {name: ["x"] * len(lines) for name in names}
    keys = ['{"id": 1}'] * len(lines)
    parquet.write_table(pa.table({"value": lines, "key": keys, **rows}), tmp_path / "raw.parquet")
    found = declared(tmp_path / "raw.parquet")
    assert (found["landed"], found["message_key"]) == (True, "key")
    assert "__debezium.oldkey" in found["old_key"]
    assert "payload" not in found


def test_landed_messages_are_selected_by_topic_and_table(tmp_path):
    """The message key names the key; a topic may be named otherwise than its table."""

    def event(table: str, **row: object) -> str:
        source = {"schema": "public", "table": table, "lsn": 1, "ts_ms": 1}
        return json.dumps({"op": "c", "before": None, "after": row, "source": source})

    rows = [
        ("Odd_Table", '{"Nr": 1}', event("Odd Table", other=1, Nr=1)),
        ("Odd_Table", None, event("Odd Table", other=1, Nr=2)),
        ("all", '{"id": 1}', event("items", id=1)),
        ("all", '{"id": 1}', event("all", id=1)),
        ("o'r\\s", '{"id": 1}', event("o'r\\s", id=1)),
        ("plain", '{"id": 1}', event("plain", id=1)),
    ]
    names = ("_file", "_row", "_batch", "_problem", "topic", "headers")
    columns = {name: ["x"] * len(rows) for name in names}
    for number, name in enumerate(("_table", "key", "value")):
        columns[name] = [row[number] for row in rows]
    parquet.write_table(pa.table(columns), tmp_path / "raw.parquet")
    printed = yaml.safe_load(run(tmp_path / "raw.parquet", "--yaml"))
    [source] = printed["sources"]
    found = {}
    for table in source["tables"]:
        cdc = table["config"]["meta"]["cdc"]
        found[table["name"]] = (cdc["keys"], cdc.get("where"), cdc.get("source_table"))
    assert found == {
        "odd_table": (["Nr"], "_table = 'Odd_Table'", "public.Odd Table"),
        "items": (["id"], "_table = 'all'", "public.items"),
        "all": (["id"], "_table = 'all'", "public.all"),
        "o_r_s": (["id"], r"_table = 'o\'r\\s'", r"public.o'r\s"),
        "plain": (["id"], None, None),
    }


@pytest.mark.parametrize("layout", ["lines", "array", "pretty", "joined", "gzip", "marked"])
def test_json_is_read_in_every_layout(tmp_path, layout):
    events = FORMATS["wal2json_v2"][0]
    path = tmp_path / "f.json"
    if layout in ("lines", "gzip", "marked"):
        jsonl(path, *events)
    elif layout == "joined":
        path.write_text("".join(json.dumps(event) for event in events))
    else:
        path.write_text(json.dumps(events, indent=None if layout == "array" else 2))
    if layout == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))
    if layout == "marked":
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert declared(path)["columns"] == COLUMNS
    ill = "are not on one line each" in run(path)
    assert ill == (layout in ("array", "pretty", "joined"))


def test_bad_lines_and_damage_are_told_and_the_rest_is_read(tmp_path):
    path = jsonl(tmp_path / "f.jsonl", *FORMATS["wal2json_v2"][0])
    path.write_text(path.read_text() + '{"action": "I", \n')
    assert "1 of 7 lines are no JSON objects" in run(path)
    path.write_bytes(gzip.compress(path.read_bytes() * 50)[:-9])
    assert "the gzip file is damaged" in run(path)


def test_a_text_may_hold_unicodes_ends_of_lines(tmp_path):
    event = wal2json("I", ROW | {"note": "a\u2028b\x85c"})
    path = tmp_path / "f.jsonl"
    path.write_text(json.dumps(event, ensure_ascii=False) + "\n", encoding="utf-8")
    assert "no JSON" not in run(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\x1f\x8bnonsense", "damaged gzip file"),
        (b"PAR1nonsense", "damaged Parquet file"),
        (b"Obj\x01\x02", "of kind Avro"),
        (b"PK\x03\x04", "of kind zip"),
        ("op,id\nI,größe\n".encode("latin-1"), "text in UTF-8 (byte 10)"),
        (b"hello\nworld\n", "neither Parquet, JSON nor CSV"),
        (b"\x00\x01\x02,\x00", "neither Parquet, JSON nor CSV"),
        (b"{not json}\n", "begins like JSON but is not valid JSON"),
        (b"op,id\n", "holds no records"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, content, said):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert said in run(path, code=2)


def test_no_file_and_no_table(tmp_path):
    assert "neither a file nor the name of a table" in run(tmp_path / "gone.jsonl", code=2)
    assert "neither a file nor the name of a table" in run("gone.jsonl", code=2)
    assert "is a folder without files" in run(tmp_path, code=2)


def test_an_unknown_format_is_told_with_what_it_holds(tmp_path):
    path = jsonl(tmp_path / "f.jsonl", {"id": 1, "name": "a"})
    said = run(path, code=1)
    assert "no change format fits f.jsonl (1 records, the first with id, name)" in said
    assert "declare the format flagged" in said


def test_events_without_rows_are_described_without_a_declaration(tmp_path):
    path = jsonl(tmp_path / "f.jsonl", {"action": "B"}, {"action": "C"})
    said = run(path)
    assert "wal2json_v2, likely" in said
    assert "No event holds a row" in said


def test_the_captured_changes_are_described_as_they_are_declared():
    shop = yaml.safe_load((ROOT / "models/sources/shop.yml").read_text())["sources"][0]
    for table in shop["tables"]:
        found = declared(ROOT / "data" / table["name"] / "batch_0001.jsonl.gz")
        assert found["format"] == "wal2json_v2"
        assert found["keys"] == table["config"]["meta"]["cdc"]["keys"]
        wanted = {column["name"]: column["data_type"] for column in table["columns"]}
        assert found["columns"] == wanted


@pytest.mark.parametrize(
    ("name", "mysql", "spark"),
    [
        ("character varying(30)", False, "string"),
        ("numeric(12,2)", False, "decimal(12,2)"),
        ("numeric(50,2)", False, "string"),
        ("numeric", False, "decimal(38,10)"),
        ("timestamp(3) without time zone", False, "timestamp_ntz"),
        ("timestamp with time zone", False, "timestamp"),
        ("integer[]", False, "string"),
        ("int(10) unsigned", True, "bigint"),
        ("timestamp", True, "timestamp"),
        ("decimal(10,3) unsigned", True, "decimal(10,3)"),
        ("decimal", True, "decimal(10,0)"),
        ("mediumint(9)", True, "int"),
        ("serial", False, "int"),
        ("SERIAL", True, "decimal(20,0)"),
        ("real", False, "float"),
        ("real", True, "double"),
        ("float unsigned", True, "float"),
        ("double(10,2) unsigned zerofill", True, "double"),
        ("varbinary(16)", True, "binary"),
        ("longblob", True, "binary"),
        ("bool", True, "tinyint"),
        ("bit(8)", True, "string"),
        ("enum('a','b')", True, "string"),
    ],
)
def test_types_of_databases(name, mysql, spark):
    assert of_database(name, mysql) == spark


def test_types_of_debezium():
    assert of_debezium({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}) == (
        "timestamp_ntz"
    )
    assert of_debezium({"type": "string", "name": "io.debezium.data.Json"}) == "string"
    assert of_debezium({"type": "int64", "name": "io.debezium.time.MicroTime"}) == "bigint"
    assert of_debezium({"type": "bytes", "name": "io.debezium.data.Bits"}) == "binary"
    assert of_debezium({"type": "array"}) == "string"


@pytest.mark.parametrize(
    ("values", "texts", "spark"),
    [
        ([True, None], False, "boolean"),
        ([1, 2], False, "bigint"),
        ([1, Decimal("2.5")], False, "double"),
        ([{"a": 1}], False, "string"),
        ([None], False, ""),
        (["1", "2"], False, "string"),
        (["1", "-20"], True, "bigint"),
        (["01", "02"], True, "string"),
        (["12345678901234567890"], True, "decimal(38,0)"),
        (["1e3", "2"], True, "double"),
        (["1.5", "2.25"], True, "double"),
        (["true", "FALSE"], True, "boolean"),
        (["2026-01-01T00:00:00Z"], False, "timestamp"),
        (["2026-01-01 00:00:00.5"], False, "timestamp_ntz"),
        (["2026-01-01"], False, "date"),
        (["2026-01-01", "x"], True, "string"),
    ],
)
def test_types_of_values(values, texts, spark):
    assert of_values(values, texts) == spark


def test_the_share_of_quarantined_events_is_tested_by_default(tmp_path):
    said = run(jsonl(tmp_path / "sample.jsonl", *FORMATS["wal2json_v2"][0]))
    assert said.count("cdc.quarantined_share: {arguments: {max_share: 0.1}}") == 1


def test_rows_quote_what_has_to_be_quoted(tmp_path):
    path = jsonl(tmp_path / "f.jsonl", *FORMATS["wal2json_v2"][0])
    (row,) = csv.DictReader(io.StringIO(run(path, "--row")))
    assert row["columns"] == "id int, price decimal(12,2), at timestamp, note string"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(Decimal("1.5")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
EVENTS = [event for events, _ in FORMATS.values() for event in events]


@st.composite
def damaged_events(draw):
    """An event of some format in which one part, at any depth, is something else."""
    event = json.loads(json.dumps(draw(st.sampled_from(EVENTS))))
    at = event
    while True:
        part = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not at[part] or not isinstance(at[part], (dict, list)) or draw(st.booleans()):
            at[part] = draw(VALUES)
            return event
        at = at[part]


@given(st.lists(damaged_events(), min_size=1, max_size=4))
def test_no_event_stops_the_description(events):
    sample = Sample("sample", "json", events)
    found = recognise(sample)
    if found is not None:
        proposals = propose(sample, found)
        assert list(report(sample, found, proposals))
        csv_rows(proposals)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_file_stops_the_description(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        try:
            sample = read_sample(path)
        except Unreadable:
            return
        found = recognise(sample)
        if found is not None:
            assert list(report(sample, found, propose(sample, found)))


def test_positions_with_a_fraction_are_compared_as_numbers(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("op,id,seq\nI,1,9.5\nU,1,10.5\n")
    assert declared(file)["sequence_by"] == "try_cast(seq as decimal(18,1))"
