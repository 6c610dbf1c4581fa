"""The cases: which file of the conformance data is read how, and where its expected rows stand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("CDC_CONFORMANCE_DATA", ""))
Rows = list[dict[str, Any]]

PRODUCT = {"id": "int", "name": "string", "description": "string", "weight": "float"}
# Of streams without positions the order is that of their lines.
BY_LINE = {"sequence_by": "line", "event_time": False}


@dataclass
class Case:
    """A table that one file is run into.

    Attributes:
        files: Names below the data folder; their lines follow each other.
        options: The declaration.
        columns: Names and types.
        final: The rows that must be there in the end.
        changelog: The changes of rows that must have been made, in order, or None.
        history: Versions (row, position of begin, of end or None), or None.
        quarantined: How many events must not have been applied.
        lines: Turns the lines of the files into raw rows, where these are not one message each.
    """

    files: list[str]
    options: dict[str, Any]
    columns: dict[str, str]
    final: Callable[[], Rows]
    changelog: Callable[[], list[tuple[str, dict[str, Any]]]] | None = None
    history: Callable[[], list[tuple[dict[str, Any], Any, Any]]] | None = None
    quarantined: int = 0
    lines: Callable[[list[str]], Rows] = field(
        default=lambda lines: [{"line": n, "value": line} for n, line in enumerate(lines, 1)]
    )


def load(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def rows(*given: dict[str, Any]) -> Callable[[], Rows]:
    return lambda: list(given)


def messages(lines: list[str]) -> Rows:
    """Kafka messages (key, value, headers), each written as one JSON object."""

    def text(value: Any) -> str | None:
        return None if value is None else json.dumps(value)

    found = []
    for number, line in enumerate(lines, 1):
        message = json.loads(line)
        headers = {name: text(value) for name, value in message["headers"].items()}
        found.append(
            {
                "line": number,
                "key": text(message["key"]),
                "value": text(message["value"]),
                "old_key": headers.get("__debezium.oldkey"),
            }
        )
    return found


def documented(names: tuple[str, ...]) -> Callable[[list[str]], Rows]:
    """Events of Debezium's manual; several stand in one JSON file."""

    def read(lines: list[str]) -> Rows:
        events = {event["name"]: event["value"] for event in json.loads("\n".join(lines))}
        values = [
            value
            for name in names
            for value in (events[name] if isinstance(events[name], list) else [events[name]])
        ]
        return [{"line": n, "value": json.dumps(value)} for n, value in enumerate(values, 1)]

    return read


def csv(names: str) -> Callable[[list[str]], Rows]:
    def read(lines: list[str]) -> Rows:
        return [
            {"line": n, **dict(zip(names.split(), line.split(","), strict=True))}
            for n, line in enumerate(lines, 1)
        ]

    return read


def columns(lines: list[str]) -> Rows:
    return [json.loads(line) for line in lines]


def flink(name: str) -> dict[str, Any]:
    """Final table and changelog of a case from Flink's tests."""
    expected = f"flink_json/expected.{name}.json"
    return {
        "columns": PRODUCT,
        "final": lambda: list(load(expected)["final_table"].values()),
        "changelog": lambda: [
            (change["kind"], change["row"]) for change in load(expected)["changelog_rows"]
        ],
    }


def cases() -> dict[str, Case]:
    """All cases by name."""
    found: dict[str, Case] = {}
    for name in (
        "data-schema-include",
        "data-schema-exclude",
        "postgres-data-schema-include",
        "postgres-data-schema-exclude",
    ):
        found[f"flink_debezium_{name.replace('-', '_')}"] = Case(
            [f"flink_json/debezium-{name}.txt"],
            {"format": "debezium", "keys": ["id"], "source_table": "inventory.products"},
            **flink("debezium"),
        )
    identity = "flink_json/expected.debezium-postgres-replica-identity.json"
    found["flink_debezium_replica_identity"] = Case(
        ["flink_json/debezium-postgres-data-replica-identity.txt"],
        {"format": "debezium", "keys": ["id"]},
        PRODUCT,
        lambda: list(load(identity)["upsert_state_before_last_line"].values()),
        quarantined=1,
    )
    for name, table in (
        ("canal-data", "inventory.products2"),
        ("canal-data-filter-table", "mydb.product"),
    ):
        found[f"flink_{name.replace('-', '_')}"] = Case(
            [f"flink_json/{name}.txt"],
            {"format": "canal", "keys": ["id"], "sequence_by": "line", "source_table": table},
            **flink("canal"),
        )
    found["flink_maxwell"] = Case(
        ["flink_json/maxwell-data.txt"], {"format": "maxwell", "keys": ["id"]}, **flink("maxwell")
    )
    found["flink_ogg"] = Case(
        ["flink_json/ogg-data.txt"], {"format": "goldengate", "keys": ["id"]}, **flink("ogg")
    )
    found["canal_ddl"] = Case(
        ["canal/ddl_samples.jsonl"],
        {"format": "canal", "keys": ["id"], "sequence_by": "line"},
        {"id": "int"},
        rows(),
    )
    return found | debezium() | wal2json() | maxwell() | dms() | auto_cdc()


def debezium() -> dict[str, Case]:
    def stream(name: str, types: dict[str, str], **more: Any) -> Case:
        return Case(
            [f"debezium_docs/{name}.jsonl"],
            {"format": "debezium", "keys": ["pk"], "message_key": "key", "old_key": "old_key"},
            {"pk": "int", "text": "string", **types},
            lambda: list(
                load("debezium_docs/expected.json")["streams"][f"{name}.jsonl"]["final"].values()
            ),
            lines=messages,
            **more,
        )

    def versions() -> list[tuple[dict[str, Any], Any, Any]]:
        expected = load("debezium_docs/expected.json")["streams"]["pk_change.jsonl"]["scd2"]
        return [
            ({"pk": row["pk"], "text": row["text"]}, at(row["start"]), at(row["end"]))
            for row in expected
        ]

    def at(lsn: int | None) -> Any:
        return None if lsn is None else [lsn, lsn, 0]

    person = {name: "string" for name in ("first_name", "last_name", "email")}
    pg = "postgresql"
    return {
        "debezium_pk_change": stream("pk_change", {}, history=versions),
        "debezium_pk_swap": stream("pk_swap_same_transaction", {}),
        "debezium_toast": stream("toast", {"not_toast": "int", "mandatory_text": "string"}),
        "debezium_truncate": stream("truncate", {}),
        "debezium_manual_postgresql": Case(
            ["debezium_docs/doc_events.json"],
            {"format": "debezium", "keys": ["id"]},
            {"id": "int", **person},
            rows(),
            lines=documented(
                tuple(
                    f"{pg}_{name}"
                    for name in (
                        "transaction1",
                        "create1",
                        "update1",
                        "delete1",
                        "truncate1",
                        "message1",
                        "message2",
                    )
                )
            ),
        ),
        "debezium_manual_mysql": Case(
            ["debezium_docs/doc_events.json"],
            {"format": "debezium", "keys": ["id"]},
            {"id": "int", **person},
            rows(),
            lines=documented(("mysql_create1", "mysql_update1", "mysql_delete1")),
        ),
    }


def wal2json() -> dict[str, Case]:
    def table(
        file: str, name: str, keys: str, types: dict[str, str], *final: Any, **more: Any
    ) -> Case:
        version = "wal2json_v1" if ".v1" in file else "wal2json_v2"
        return Case(
            [f"wal2json/messages/{part}.jsonl" for part in file.split()],
            {"format": version, "keys": list(keys), "source_table": f"public.{name}", **BY_LINE},
            types,
            rows(*final),
            **more,
        )

    pk = {"a": "int", "b": "string", "c": "string", "d": "boolean", "e": "decimal(5,3)"}
    moment = "Sun Apr 26 16:23:59 2020"
    animal = {"a": 123, "b": moment, "c": "Melanosuchus Niger", "d": True, "e": 4.56}
    big_cat = {"a": 456, "b": moment, "c": "Panthera Onca", "d": False, "e": 4.56}
    # Both columns of the key are renamed while the events flow, a to g and d to f.
    renamed = [
        {"g": "int", "b": "string", "c": "string", "f": "boolean", "e": "decimal(5,3)"},
        {"g": 123, "b": moment, "c": "Melanosuchus Niger", "f": True, "e": 8.76},
        {"g": 456, "b": "Mon Dec 07 15:56:59 2020", "c": "Panthera Onca", "f": False, "e": 3.142},
        {
            "g": 789,
            "b": "Sun Apr 04 10:33:04 2021",
            "c": "Chrysocyon brachyurus",
            "f": True,
            "e": 20.3,
        },
        {
            "g": 790,
            "b": "Sat Apr 04 10:34:55 2020",
            "c": "Myrmecophaga tridactyla",
            "f": False,
            "e": 1.8,
        },
    ]
    numbers = {"a": "int", "b": "int", "c": "int", "d": "bigint", "f": "float", "h": "string"}
    row = {"a": 1, "b": 1, "c": 2, "d": 3, "f": -876.563, "h": "teste     "}
    pair = {"a": "int", "b": "string"}
    decimals = {"a": "float", "b": "double", "c": "decimal(38,19)"}
    digits = "1234567890987654321.1234567890987654321"
    people = ["john", "smith", "robert", "marie", "ernesto"]
    found = {
        "pk_v2": table(
            "pk.q2.v2",
            "w2j_pk_with_pk",
            "bde",
            pk,
            history=lambda: [(animal, 2, 5), (big_cat, 5, 8)],
        ),
        "pk_v1": table(
            "pk.q1.v1",
            "w2j_pk_with_pk",
            "bde",
            pk,
            history=lambda: [(animal, (1, 0), (2, 0)), (big_cat, (2, 0), (3, 0))],
        ),
        "pk_other_identity": table("pk.q2.v2", "w2j_pk_with_ri", "a", pk),
        "pk_none": table("pk.q2.v2", "w2j_pk_without_pk", "", pk, animal),
        "renamed_key_v1": table("rename_column.q1.v1", "w2j_rename_pk", "gf", *renamed),
        "renamed_key_v2": table("rename_column.q2.v2", "w2j_rename_pk", "gf", *renamed),
        "update_v1": table("update1.q1.v1", "table_with_pk", "bcd", numbers, row | {"b": -1}),
        "identity_nothing": table("update2.q2.v2 delete2.q2.v2", "table_with_pk", "bcd", numbers),
        "identity_full": table("update3.q2.v2", "table_with_pk", "bcd", numbers, row),
        "identity_index": table(
            "update4.q2.v2",
            "table_with_unique",
            "gn",
            {"g": "double", "n": "boolean", "a": "int", "c": "int"},
            {"g": 1.23, "n": False, "a": 1, "c": -2},
            {"g": -4.56, "n": True, "a": 2, "c": 5},
        ),
        "truncate_then_insert": table(
            "default.q2.v2", "w2j_truncate", "a", pair, {"a": 2, "b": "foo@bar.com"}
        ),
        "messages_v1": table("message.q1.v1", "none", "a", pair),
        "messages_v2": table("message.q2.v2", "none", "a", pair),
        "savepoints": table(
            "savepoint.q1.v1",
            "xpto",
            "a",
            pair,
            *[{"a": n, "b": name} for n, name in enumerate(people, 1)],
            {"a": 8, "b": "francisco"},
        ),
        "special_values": table(
            "specialvalue.q1.v1",
            "xpto",
            "a",
            {"a": "int", "b": "boolean", "c": "string", "d": "float"},
            {"a": 1, "b": True, "c": "test1", "d": None},
            {"a": 2, "b": False, "c": "test2", "d": None},
            {"a": 3, "b": None, "c": "null", "d": None},
            {
                "a": 4,
                "b": True,
                "c": "valid: ' \" \\ / \b \f \n \r \t \u207f \u967f invalid: \\g \\k end",
                "d": 123.456,
            },
        ),
        "integers": table(
            "numeric_data_types_as_string.q4.v2",
            "table_integer",
            "a",
            {"a": "smallint", "b": "smallint", "c": "int", "d": "bigint"},
            {"a": 1, "b": 32767, "c": 2147483647, "d": 2**63 - 1},
            {"a": 2, "b": -32768, "c": -2147483648, "d": -(2**63)},
        ),
        "decimals": table(
            "numeric_data_types_as_string.q4.v2",
            "table_decimal",
            "",
            decimals,
            *[{"a": None, "b": None, "c": None}] * 3,
            {"a": 123.456, "b": 123456789.012345, "c": digits},
            {"a": -123.456, "b": -123456789.012345, "c": f"-{digits}"},
        ),
        # The numeric NaN that a decimal cannot hold is kept out.
        "decimals_as_text": table(
            "numeric_data_types_as_string.q3.v2",
            "table_decimal",
            "",
            decimals,
            {"a": "inf", "b": "inf", "c": None},
            {"a": "-inf", "b": "-inf", "c": None},
            {"a": 123.456, "b": 123456789.012345, "c": digits},
            {"a": -123.456, "b": -123456789.012345, "c": f"-{digits}"},
            quarantined=1,
        ),
        "bytea": table("bytea.q2.v2", "xpto", "id", {"id": "int", "bincol": "binary"}),
        "dropped_column": table(
            "position.q4.v2",
            "w2j_position",
            "a",
            {"a": "int", "b": "int", "c": "int"},
            {"a": 1, "b": 3, "c": None},
            {"a": 5, "b": None, "c": 7},
        ),
        "array_of_enums": table(
            "include_domain_data_type.q5.v2",
            "test_wal2json_6",
            "a",
            pair,
            {"a": 1, "b": "{b,c}"},
        ),
    }
    found["bytea"].options["keys"] = ["id"]
    for version in ("v1", "v2"):
        found[f"renamed_key_{version}"].options["renames"] = {"g": "a", "f": "d"}
    found["quoted_names"] = Case(
        ["wal2json/messages/insert1.q2.v2.jsonl"],
        {
            "format": "wal2json_v2",
            "keys": ["id"],
            "source_table": "test \"schema.test \" with 'quotes'",
            **BY_LINE,
        },
        # `col spaces` is left out: docs/conformance.md.
        {"id": "int", 'col"quotes': "int"},
        rows({"id": 1, 'col"quotes': 3}),
    )
    for number, final in ((1, [(1, "test1")]), (2, []), (3, [(3, "test3")]), (5, []), (6, [])):
        found[f"truncate_{number}"] = table(
            "truncate.q2.v2",
            f"table_truncate_{number}",
            "a",
            pair,
            *[{"a": a, "b": b} for a, b in final],
        )
    return {f"wal2json_{name}": case for name, case in found.items()}


def maxwell() -> dict[str, Case]:
    def table(file: str, name: str, keys: list[str], types: str, *final: Any, **more: Any) -> Case:
        declared = dict(pair.split() for pair in types.split("; "))
        return Case(
            [f"maxwell/{file}.jsonl"],
            {"format": "maxwell", "keys": keys, "source_table": name, **BY_LINE},
            declared,
            rows(*final),
            **more,
        )

    def expected(name: str, part: Any = None) -> Callable[[], Rows]:
        def read() -> Rows:
            found = {case["name"]: case for case in load("maxwell/expected.json")["cases"]}[name]
            return found["final"][part] if part else found["final"]

        return read

    changed = "columns added, changed, dropped in mid-stream"
    minimal = "binlog_row_image=MINIMAL"
    found = {
        "manual": table(
            "dataformat_doc", "test.e", ["id"], "id int; m decimal(5,4); c timestamp_ntz"
        ),
        "manual_key_change": table(
            "dataformat_doc", "test.e", ["id", "c"], "id int; m decimal(5,4); c timestamp_ntz"
        ),
        "minimal_1": table(
            "events/test_minimal", "test.test_table", ["id"], "id int; a string; b string"
        ),
        "minimal_2": table(
            "events/test_minimal", "test.test_table_2", ["id"], "id int; i1 int; i2 int; i3 int"
        ),
        "columns": table(
            "events/test_1j",
            "test_db_1.test_table",
            ["id"],
            "id int; textcol string; datecol timestamp_ntz",
        ),
        "key_update": table(
            "events/test_row_query_log_is_on", "test_row_query.row_query", ["id"], "id int"
        ),
        "bootstrap": table(
            "events/bootstrap-multiple-row",
            "shard_1.minimal",
            ["id"],
            "id int; account_id int; text_field string",
        ),
        # Without a key the bootstrap repeats what was streamed: docs/conformance.md.
        "bootstrap_no_key": table(
            "bootstrap_doc",
            "fooDB.barTable",
            [],
            "txt string",
            *[{"txt": "hello"}, {"txt": "bootstrap!"}] * 2,
        ),
        "bits": table(
            "events/test_bit",
            "bit_db.test_bit",
            ["id"],
            "id int; bit_field decimal(20,0)",
            *[
                {"id": number, "bit_field": bits}
                for number, bits in enumerate([3, 63, 409832983, 2**64 - 1, 5461], 1)
            ],
        ),
        "beyond_bigint": table(
            "events/test_bignum", "test_long", ["id"], "id int; long_field bigint", quarantined=1
        ),
        "zero_dates": table(
            "events/test_invalid_time", "timedb_invalid.tt", [], "dt timestamp_ntz", quarantined=1
        ),
        "sets": table(
            "events/test_set",
            "test_sets",
            ["id"],
            "id int; set_field array<string>",
            {"id": 1, "set_field": ["bar", "baz"]},
            {"id": 2, "set_field": ["foo", "baz"]},
            {"id": 3, "set_field": ["foo"]},
            {"id": 4, "set_field": []},
            {"id": 5, "set_field": None},
        ),
        "blobs": table(
            "events/test_blob",
            "test_blob",
            ["id"],
            "id int; blob_field binary",
            {"id": 1, "blob_field": "00010203"},
        ),
        "enums": table(
            "events/test_enum",
            "test_enums",
            ["id"],
            "id int; enum_field string",
            *[{"id": n, "enum_field": v} for n, v in enumerate(["bar", "baz", "foo"], 1)],
        ),
        "column_case": table(
            "events/test_column_case",
            "test_case",
            ["ID"],
            "ID int; bar_FIELD string",
            {"ID": 1, "bar_FIELD": "bar"},
        ),
    }
    found["minimal_1"].final = expected(minimal, "test_table")
    found["minimal_2"].final = expected(minimal, "test_table_2")
    found["columns"].final = expected(changed)
    found["bootstrap"].final = expected("bootstrap with key")
    return {f"maxwell_{name}": case for name, case in found.items()}


def dms() -> dict[str, Case]:
    employee = {
        "EmployeeID": "int",
        "LastName": "string",
        "FirstName": "string",
        "HireDate": "string",
        "OfficeLocation": "string",
    }

    def versions() -> list[tuple[dict[str, Any], Any, Any]]:
        found = load("aws_dms/expected.json")["employee_cdc.csv"]["scd2_by_line"]
        return [
            (
                {name: version[name] for name in ("EmployeeID", "OfficeLocation")},
                (1, version["start_line"]),
                (1, version["end_line"]),
            )
            for version in found
        ]

    def names(table: str) -> Callable[[], Rows]:
        def read() -> Rows:
            found = load("aws_dms/expected.json")["CDC_TXN-20201117153046033.csv"]["by_table"]
            return [
                {"id": int(key), "name": name}
                for key, name in found[table]["final_by_line"].items()
            ]

        return read

    found = {
        "dms_employee": Case(
            ["aws_dms/employee_cdc.csv"],
            {"format": "dms", "keys": ["EmployeeID"], "sequence_by": "line"},
            employee,
            rows(),
            history=versions,
            lines=csv("Op EmployeeID LastName FirstName HireDate OfficeLocation"),
        ),
        "dms_kafka": Case(
            ["aws_dms/kafka_messages.jsonl"],
            {"format": "dms", "keys": ["id"], "payload": "value", "source_table": "sbtest_x"},
            {"id": "bigint", "fname": "string", "lname": "string", "REGION": "string"},
            rows({"id": 100000161, "fname": "val61s", "lname": "val61s", "REGION": "val61s"}),
        ),
    }
    for table in ("Names_03cdcad11a", "Names_6d152ce62d"):
        found[f"dms_{table.lower()}"] = Case(
            ["aws_dms/CDC_TXN-20201117153046033.csv"],
            {
                "format": "dms",
                "keys": ["id"],
                "sequence_by": "line",
                "where": f"table_name = '{table}'",
            },
            {"id": "int", "name": "string"},
            names(table),
            lines=csv("Op table_name schema_name id name"),
        )
    return found


def auto_cdc() -> dict[str, Case]:
    expected = "databricks_auto_cdc/expected.json"
    user = {"userId": "int", "name": "string", "city": "string"}

    def current(name: str) -> Callable[[], Rows]:
        return lambda: [dict(zip(user, row, strict=True)) for row in load(expected)[name]["rows"]]

    def versions(name: str) -> Callable[[], list[tuple[dict[str, Any], Any, Any]]]:
        return lambda: [
            (dict(zip(user, row[:3], strict=True)), row[3], row[4])
            for row in load(expected)[name]["rows"]
        ]

    options = {
        "format": "flagged",
        "keys": ["userId"],
        "sequence_by": "sequenceNum",
        "apply_as_deletes": "operation = 'DELETE'",
    }
    users = "databricks_auto_cdc/users_cdf.jsonl"
    return {
        "auto_cdc": Case(
            [users], options, user, current("scd1"), history=versions("scd2"), lines=columns
        ),
        "auto_cdc_truncate": Case(
            ["databricks_auto_cdc/users_cdf_truncate.jsonl"],
            {**options, "apply_as_truncates": "operation = 'TRUNCATE'"},
            user,
            current("scd1_truncate"),
            lines=columns,
        ),
        "auto_cdc_tracked": Case(
            [users],
            {**options, "track_history_columns": ["name"]},
            user,
            current("scd1"),
            history=versions("scd2_track_history_except_city"),
            lines=columns,
        ),
    }
