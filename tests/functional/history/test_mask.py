"""Masked columns: equal values have equal hashes, and no file but the raw tables' holds them."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file
from dbt_common.exceptions import CompilationError

from tests.functional.history.tables import FINAL, append, histories, rows

pytestmark = pytest.mark.extended

FLAGGED = """
      - name: clerks
        identifier: raw_clerks
        config:
          meta:
            cdc:
              format: flagged
              keys: [id]
              sequence_by: seq
              operation: flag
              arrival: seq
              history: false
              mask: {id: hash, mail: hash, Born: hash, phone: drop, tags: drop}
        columns:
          - {name: id, data_type: bigint}
          - {name: mail, data_type: string}
          - {name: born, data_type: date}
          - {name: phone, data_type: string}
          - {name: tags, data_type: "array<string>"}
          - {name: city, data_type: string}
"""
DEBEZIUM = """
      - name: buyers
        identifier: raw_buyers
        config:
          meta:
            cdc:
              format: debezium
              keys: [id]
              arrival: nr
              message_key: msg_key
              mask: {id: hash, mail: hash, worth: hash, phone: drop}
        columns:
          - {name: id, data_type: int}
          - {name: mail, data_type: string}
          - {name: worth, data_type: "decimal(14,2)"}
          - {name: phone, data_type: string}
          - {name: city, data_type: string}
"""
WAL2JSON = """
      - name: staff
        identifier: raw_staff
        config:
          meta:
            cdc:
              format: wal2json_v2
              keys: [id]
              arrival: nr
              key_changes: true
              track_history_columns: [mail]
              mask: {id: hash, mail: hash, phone: drop}
        columns:
          - {name: id, data_type: bigint}
          - {name: mail, data_type: string}
          - {name: phone, data_type: string}
          - {name: city, data_type: string}
"""
HEAD = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    tables:
"""
SOURCES = HEAD + FLAGGED + DEBEZIUM + WAL2JSON

KEYS = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="_event_id")
    return resolve_keys(dbt, session, dbt.ref("stg_staff"))
"""
AS_TABLE = "{{{{ config(materialized='table') }}}}\n{{{{ cdc.quarantine(source('app', '{}')) }}}}"

# No other text of a build looks like one of these.
ANNA, BERT, CARL, DORA = 770012340001, 770012340002, 770012340003, 770012340004
EVA, FINN, GINA = 770012301, 770012302, 770012303
CLEAR = [
    *map(str, (ANNA, BERT, CARL, DORA, EVA, FINN, GINA)),
    "@clear.example",
    "1931-07-",
    "+49-555-",
    "tag-in-clear",
    "314159.2",
    "unfit-in-clear",
]


def hashed(value: object, salt: str | None = None) -> str:
    """The hash as any other program computes it."""
    key = (salt or os.environ["CDC_SECRET_SALT"]).encode()
    return hmac.new(key, str(value).encode(), "sha256").hexdigest()


def buyer(op: str, lsn: int, before: Any, after: Any) -> str:
    source = {"schema": "public", "table": "buyers", "ts_ms": 1559033904863 + lsn, "lsn": lsn}
    return json.dumps({"op": op, "before": before, "after": after, "source": source})


def person(number: object, name: str, city: str = "Ulm", **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "mail": f"{name}@clear.example",
        "phone": f"+49-555-{name}",
        "city": city,
        **more,
    }


def staff(action: str, lsn: int, row: dict[str, Any] | None, old: Any = None) -> str:
    event = {
        "action": action,
        "timestamp": f"2026-01-01 00:00:0{lsn}+00",
        "lsn": f"0/{lsn}",
        "schema": "public",
        "table": "staff",
        "columns": row and [{"name": n, "type": "text", "value": v} for n, v in row.items()],
        "identity": old and [{"name": "id", "type": "bigint", "value": old}],
    }
    return json.dumps({name: value for name, value in event.items() if value is not None})


def texts(file: Path) -> Iterator[bytes]:
    """What a file holds: its bytes, and the values of compressed columns with their statistics."""
    yield file.read_bytes()
    if file.suffix == ".parquet":
        opened = pq.ParquetFile(file)
        yield str(opened.read().to_pylist()).encode()
        yield str(opened.metadata.to_dict()).encode()


def found_in(files: list[Path], wanted: list[str]) -> dict[str, set[str]]:
    """Which of the texts are in which files."""
    found: dict[str, set[str]] = {}
    for file in files:
        for text in texts(file):
            for word in wanted:
                # Dates are numbers of days in Parquet, and `datetime.date(1931, 7, ..)` in Python.
                spelled = [word] + (["date(1931, 7"] if word == "1931-07-" else [])
                if any(spelling.encode() in text for spelling in spelled):
                    found.setdefault(word, set()).add(file.name)
    return found


class TestMask:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**dbt_profile_target, "log_statements": True}

    @pytest.fixture(scope="class")
    def project_config_update(self, project_config_update: dict[str, Any]) -> dict[str, Any]:
        return project_config_update | {"on-run-start": ["{{ cdc.validate() }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        found = {
            "sources.yml": SOURCES,
            "staff_keys.py": KEYS,
            "clerks.sql": FINAL.format(read="stg_clerks"),
            "buyers.sql": FINAL.format(read="buyers_history"),
            "staff.sql": FINAL.format(read="staff_history"),
        }
        for name in ("clerks", "buyers", "staff"):
            found[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            found[f"{name}_quarantine.sql"] = AS_TABLE.format(name)
        return found

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(buyers_history="stg_buyers", staff_history="staff_keys")

    @staticmethod
    def arrive(
        spark: Any,
        schema: str,
        clerks: list[tuple[Any, ...]],
        buyers: list[tuple[Any, ...]],
        staffers: list[tuple[Any, ...]],
    ) -> None:
        types = "id string, mail string, born string, phone string, tags array<string>, city string"
        append(spark, f"{schema}.raw_clerks", clerks, f"{types}, seq bigint, flag string")
        append(spark, f"{schema}.raw_buyers", buyers, "nr bigint, msg_key string, value string")
        append(spark, f"{schema}.raw_staff", staffers, "nr bigint, value string")

    @pytest.mark.usefixtures("package")
    def test_no_file_has_clear_text(self, project: Any, spark: Any, warehouse: Path) -> None:
        schema = project.test_schema
        tags, gone = ["tag-in-clear"], "+49-555-0"
        eva, finn = {"id": EVA}, {"id": FINN}
        self.arrive(
            spark,
            schema,
            [
                (str(ANNA), "anna@clear.example", "1931-07-14", gone, tags, "Ulm", 1, "I"),
                (str(BERT), "bert@clear.example", None, gone, tags, "Ulm", 2, "I"),
                ("unfit-in-clear", "x@clear.example", "1931-07-15", gone, tags, "Ulm", 3, "I"),
                (str(CARL), "carl@clear.example", "unfit-in-clear", gone, tags, "Ulm", 4, "I"),
            ],
            [
                (1, json.dumps(eva), buyer("c", 10, None, person(EVA, "eva", worth="314159.20"))),
                (2, json.dumps(finn), buyer("c", 11, None, person(FINN, "finn", worth="7.00"))),
                (3, "{}", buyer("c", 12, None, person("unfit-in-clear", "nemo"))),
                (4, "{}", '{"mail": "cut@clear.example'),
            ],
            [
                (1, staff("I", 1, person(ANNA, "anna"))),
                (2, staff("I", 3, person(BERT, "bert"))),
                (3, staff("U", 4, person(BERT, "bert"), old="unfit-in-clear")),
            ],
        )
        run_dbt(["build"])
        self.arrive(
            spark,
            schema,
            [
                (str(ANNA), "anna@clear.example", "1931-07-14", gone, tags, "Bonn", 9, "U"),
                (str(BERT), None, None, None, None, None, 10, "D"),
                (str(DORA), None, None, None, None, None, 11, "D"),
            ],
            [
                (5, json.dumps(eva), buyer("u", 20, person(EVA, "eva"), person(EVA, "eve"))),
                (6, json.dumps(eva), buyer("u", 15, None, person(EVA, "late"))),
                (7, json.dumps(finn), buyer("d", 21, None, None)),
                (8, "{}", buyer("d", 22, person(GINA, "gina"), None)),
            ],
            [
                (4, staff("U", 5, person(CARL, "anna", "Bonn"), old=ANNA)),
                (5, staff("U", 2, person(ANNA, "late"), old=ANNA)),
                (6, staff("D", 6, None, old=BERT)),
                (7, staff("D", 7, None, old=DORA)),
            ],
        )
        run_dbt(["build"])

        # Any program that has the salt computes the same hashes, and tables join by them.
        mail = hashed("anna@clear.example")
        assert rows(
            project,
            "select id, mail, born, city from {s}.clerks where _cdc_deleted_at is null",
        ) == [(hashed(ANNA), mail, hashed("1931-07-14"), "Bonn")]
        assert rows(project, "select id, mail, worth, city from {s}.buyers") == [
            (hashed(EVA), hashed("eve@clear.example"), hashed("314159.2"), "Ulm")
        ]
        versions = "select id, mail, worth, dbt_valid_to is null from {s}.buyers_history"
        assert rows(project, f"{versions} where id = '{hashed(EVA)}' order by _seq") == [
            (hashed(EVA), hashed("eva@clear.example"), hashed("314159.2"), False),
            (hashed(EVA), hashed("late@clear.example"), hashed("314159.2"), False),
            (hashed(EVA), hashed("eve@clear.example"), hashed("314159.2"), True),
        ]
        assert rows(project, "select id, mail, city from {s}.staff") == [
            (hashed(CARL), mail, "Bonn")
        ]
        followed = "select id, mail, city from {s}.staff_history"
        assert rows(
            project,
            f"{followed} where _entity_id = (select _entity_id from {{s}}.staff"
            "_history where dbt_valid_to is null) order by _seq",
        ) == [
            (hashed(ANNA), mail, "Ulm"),
            (hashed(ANNA), hashed("late@clear.example"), "Ulm"),
            (hashed(CARL), mail, "Bonn"),
        ]
        assert rows(project, "select clerks.city from {s}.clerks join {s}.staff using (mail)") == [
            ("Bonn",)
        ]
        for table in ("clerks", "buyers", "staff"):
            names = rows(project, f"describe {{s}}.{table}")
            assert not {"phone", "tags"} & {name for name, *_ in names}
        lost = rows(
            project,
            "select * except (_origin, _arrived) from {s}.clerks_quarantine union all select *"
            " except (_origin, _arrived) from {s}.buyers_quarantine union all select * except"
            " (_origin, _arrived) from {s}.staff_quarantine order by 1",
        )
        assert lost == [
            ("column born: its value, which is masked, is not a date", None),
            ("column id: its value, which is masked, is not a bigint", None),
            ("column id: its value, which is masked, is not a int", None),
            (
                "former value of key column id: its value, which is masked, is not a bigint",
                None,
            ),
            ("unreadable payload", None),
        ]

        # What was in order, late or bad: no file of ours has it, and none has the salt.
        root = Path(project.project_root)
        files = [
            file
            for folder in (warehouse / f"{schema}.db", warehouse / ".metastore", root / "target")
            for file in folder.rglob("*")
            if file.is_file() and not any(part.startswith("raw_") for part in file.parts)
        ]
        logs = [Path(os.environ["DBT_LOG_PATH"], "dbt.log"), warehouse.with_name("spark.log")]
        salts = [os.environ["CDC_SECRET_SALT"], os.environ["CDC_SECRET_OTHER"]]
        assert (root / "target" / "cdc_statements.jsonl") in files
        assert found_in(files + logs, CLEAR + salts) == {}
        # The search finds them where they are.
        raw = [f for f in (warehouse / f"{schema}.db").rglob("raw_*/*.parquet")]
        assert set(found_in(raw, CLEAR)) == set(CLEAR)
        # The steps of queries neither, and as Spark plans them.
        shown = [
            rows(project, f"explain extended select * from {{s}}.stg_{name}")
            for name in ("clerks", "buyers", "staff")
        ]
        assert not [salt for salt in salts if salt in str(shown)]
        # A batch still reads the new files alone: the filter on `arrival` reaches the raw table.
        plan = str(rows(project, "explain select * from {s}.stg_clerks where _arrived > 9"))
        assert "GreaterThan(seq,9)" in plan, plan

        self.folders_are_private(spark, warehouse, root)
        self.changes_are_refused(project, spark)
        self.everything_wrong_is_told_at_once(project)
        self.masked_keys_are_erased(project, spark)

    def folders_are_private(self, spark: Any, warehouse: Path, root: Path) -> None:
        """Other users of the machine read neither tables nor what Spark spills and logs."""
        spilled = Path(spark.sparkContext.getConf().get("spark.local.dir"))
        assert list(spilled.glob("blockmgr-*"))
        for place in (
            warehouse,
            warehouse / ".metastore",
            spilled,
            warehouse / ".metastore" / "lock",
            warehouse.with_name("spark.log"),
            root / "target" / "cdc_statements.jsonl",
        ):
            assert place.stat().st_mode & 0o077 == 0, place

    def changes_are_refused(self, project: Any, spark: Any) -> None:
        """Other masks, another salt, and bad events where these stop the build."""
        commits = [
            rows(project, f"describe history {{s}}.{table}")
            for table in ("clerks", "buyers_history", "staff_history")
        ]
        changed = (
            HEAD
            + FLAGGED.replace("mail: hash, ", "").replace("phone: drop", "phone: hash")
            + DEBEZIUM.replace(
                "message_key", "mask_salt: CDC_SECRET_OTHER\n              message_key"
            )
            + WAL2JSON.replace("key_changes", "on_bad_event: fail\n              key_changes")
        )
        write_file(changed, project.project_root, "models", "sources.yml")
        self.arrive(
            spark,
            project.test_schema,
            [(str(ANNA), "a@clear.example", "1931-07-14", None, None, "Bonn", 20, "U")],
            [(20, "{}", buyer("u", 30, None, person(EVA, "eve", "Bonn")))],
            [
                (20, staff("I", 8, person("unfit-in-clear", "nemo"))),
                (21, staff("U", 9, person(CARL, "anna", "Ulm"), old=CARL)),
            ],
        )
        _, log = run_dbt_and_capture(["build"], expect_pass=False)
        for message in (
            "clerks was built with column `mail` as hash of string, and `mask` and data_type now"
            " make it clear text. Undo the change, or drop the table",
            "buyers_history was built with another salt than CDC_SECRET_OTHER has now",
            "app.staff has bad events and declares `on_bad_event: fail`",
        ):
            assert message in log
        assert "column `phone`" not in log
        # A full refresh is no way around: files of former versions would keep what they show.
        _, log = run_dbt_and_capture(
            ["run", "--select", "clerks", "--full-refresh"], expect_pass=False
        )
        assert "clerks was built with column `mail` as hash of string, and `mask`" in log
        assert found_in([Path(os.environ["DBT_LOG_PATH"], "dbt.log")], CLEAR) == {}
        assert commits == [
            rows(project, f"describe history {{s}}.{table}")
            for table in ("clerks", "buyers_history", "staff_history")
        ]

    def everything_wrong_is_told_at_once(self, project: Any) -> None:
        """Each mistake of a declaration, with its remedy."""
        wrong = (
            FLAGGED.replace(
                "{id: hash, mail: hash, Born: hash, phone: drop, tags: drop}",
                "{id: drop, mail: hide, born: hash, seq: hash, tags: hash, city: hash}\n"
                "              except_columns: [city]\n"
                "              event_time: born\n"
                "              mask_salt: not a name",
            )
            + DEBEZIUM.replace("{id: hash, mail: hash, worth: hash, phone: drop}", "[id]")
            + WAL2JSON.replace("mask:", "mask_salt: CDC_SECRET_NOWHERE\n              mask:")
        )
        write_file(HEAD + wrong, project.project_root, "models", "sources.yml")
        with pytest.raises(CompilationError) as refusal:
            run_dbt(["build"])
        for message in (
            "clerks (models/sources.yml): `mask_salt` is not the name of an environment variable.",
            "clerks (models/sources.yml): `mask` of column `id` is `drop`, and it is a key.",
            "clerks (models/sources.yml): `mask` of column `mail` is `hide`. The methods are",
            "clerks (models/sources.yml): `mask` names the column `seq`, which is not declared.",
            "`sequence_by` (seq) reads the masked column `seq`",
            "clerks (models/sources.yml): `mask` of column `tags` is `hash`, and its type is array",
            "clerks (models/sources.yml): `mask` of column `city`, which `except_columns` names",
            "`event_time` (born) reads the masked column `born`",
            "buyers (models/sources.yml): `mask` is `['id']`. Write `{<column>: hash}`",
            "staff (models/sources.yml): `mask` needs a salt of 16 characters or more, and the"
            " environment variable CDC_SECRET_NOWHERE has 0.",
        ):
            assert message in str(refusal.value)
        assert "not a name" not in str(refusal.value)

    def masked_keys_are_erased(self, project: Any, spark: Any) -> None:
        """Who erases names a key in the clear, and tables whose keys are masked go on."""
        write_file(SOURCES, project.project_root, "models", "sources.yml")
        for table, key in (("clerks", ANNA), ("staff", CARL)):
            args = json.dumps({"table": f"app.{table}", "keys": [key], "dry_run": False})
            run_dbt(["run-operation", "cdc_erase", "--args", args])
        again = (str(ANNA), "anna@clear.example", "1931-07-14", None, None, "Rome", 30, "U")
        bert = (str(BERT), "bert@clear.example", None, None, None, "Rome", 31, "I")
        finn = (30, "{}", buyer("c", 40, None, person(FINN, "finn", "Rome")))
        self.arrive(
            spark,
            project.test_schema,
            [again, bert],
            [finn],
            [(30, staff("U", 20, person(CARL, "anna", "Rome"), old=CARL))],
        )
        run_dbt(["build"])
        assert rows(project, "select id, city from {s}.clerks where _cdc_deleted_at is null") == [
            (hashed(BERT), "Rome")
        ]
        cities = rows(project, "select id, city from {s}.buyers order by city")
        assert cities == [(hashed(EVA), "Bonn"), (hashed(FINN), "Rome")]
        assert rows(project, "select id from {s}.staff") == []
