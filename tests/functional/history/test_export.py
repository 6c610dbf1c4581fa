"""Changes as Debezium's events in files: read back, they are the table, wherever an export dies."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from dbt_spark_cdc import export
from tests.functional.history.tables import rows

pytestmark = pytest.mark.extended

SEED = 20261123
EVENTS = 40
EVENTS_A_FILE = 7

# Values at the edges of each type, as SQL.
VALUES = {
    "tiny tinyint": ["-128Y", "127Y"],
    "small smallint": ["-32768S", "0S"],
    "big bigint": ["-9223372036854775808", "9223372036854775807L", "9007199254740993L"],
    "flag boolean": ["true", "false"],
    "real float": [
        "0.1F",
        "float('NaN')",
        "float('-Infinity')",
        "cast(3.4028234663852886E38D as float)",
        "cast(1.4E-45D as float)",
    ],
    "wide double": ["0.1D", "double('NaN')", "double('Infinity')", "4.9E-324D", "1E23D", "-0.0D"],
    "price decimal(10,2)": ["12345678.90BD", "-0.01BD", "0BD", "10BD"],
    "exact decimal(38,10)": ["9999999999999999999999999999.9999999999BD", "-0.0000000001BD"],
    "fine decimal(38,38)": ["-0.00000001234567890123456789012345678901BD", "1E-38BD", "0BD"],
    "text string": [
        "''",
        "'null'",
        "'12.50'",
        "'日本語 🙂 é'",
        r"'\n\t\"\\ \u2028'",
        "'{\"a\": 1}'",
    ],
    "bytes binary": ["X''", "X'00FF10'", "X'7B7D'"],
    "day date": ["date'0001-01-01'", "date'9999-12-31'", "date'1582-10-04'"],
    "at timestamp": [
        "timestamp'1899-12-31 23:59:59.999999 +05:45'",
        "timestamp'0001-01-01 00:00:00Z'",
        "timestamp'9999-12-31 23:59:59.999999Z'",
        "timestamp'2026-03-29 02:30:00 Europe/Berlin'",
    ],
    "clock timestamp_ntz": [
        "timestamp_ntz'2026-03-29 02:30:00.000001'",
        "timestamp_ntz'0001-01-01 00:00:00'",
    ],
    "texts array<string>": ["array('a', null, '')", "cast(array() as array<string>)"],
    "prices array<decimal(12,9)>": ["array(0.000000001BD, null, 1BD)"],
    "point struct<x: double, y: string, z: array<int>>": [
        "named_struct('x', 1.5D, 'y', 'ü', 'z', array(1, null))",
        "named_struct('x', cast(null as double), 'y', '', 'z', cast(null as array<int>))",
    ],
    "`Größe` string": ["'x'"],
}
COLUMNS = {column.split(" ", 1)[0].strip("`"): column.split(" ", 1)[1] for column in VALUES}
KEYS = {"id": "int", "tag": "string"}


def declared(name: str, **options: Any) -> dict[str, Any]:
    """A source table of these columns."""
    columns = [{"name": c, "data_type": t} for c, t in (KEYS | COLUMNS).items()]
    meta = {"keys": list(KEYS), "history": False, **options}
    return {"name": name, "config": {"meta": {"cdc": meta}}, "columns": columns}


def sources() -> str:
    things = declared(
        "raw_things", format="flagged", sequence_by="n", operation="op", arrival="batch"
    )
    copies = declared("copies", format="debezium", landed=True, source_table="things")
    return json.dumps(
        {
            "version": 2,
            "sources": [
                {"name": "app", "schema": "{{ target.schema }}", "tables": [things]},
                {
                    "name": "out",
                    "schema": "{{ target.schema }}_raw",
                    "tables": [copies | {"identifier": "landed"}],
                },
            ],
        }
    )


FINAL = """
{{{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key=['id', 'tag']
) }}}}
{{{{ cdc.current(ref('{read}')) }}}}
"""
CHANGES = """
{{ config(materialized='incremental', incremental_strategy='merge') }}
{{ cdc.changelog(ref('things')) }}
"""
EXPORTED = f"""
from dbt_spark_cdc.export import to_files

def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="append", file_format="delta")
    events, folder = dbt.ref("things_events"), dbt.config.get("export_folder")
    return to_files(dbt, session, events, folder, events_a_file={EVENTS_A_FILE})
"""
LANDING = """
from dbt_spark_cdc.landing import land

def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="append", file_format="delta")
    return land(dbt, session, dbt.config.get("landing_folder"), dbt.config.get("raw_table"))
"""
CONFIG = """
models:
  - name: things_exported
    config: {{export_folder: '{folder}/copies'}}
  - name: landing
    config: {{landing_folder: '{folder}', raw_table: '{{{{ target.schema }}}}_raw.landed'}}
"""

# What is refused, and words of the message.
REFUSED = {
    "of_a_table": ("cdc.debezium_json(ref('things'))", "which is not a changelog"),
    "of_a_view": ("cdc.debezium_json(ref('things_view'))", "materialized as view"),
    "mistaken": ("cdc.debezium_json(ref('things_changes'), tombstones='x')", "`true` or `false`"),
}


# A project that exports, and one that reads the files.
EXPORT = ("+things_exported",)
COPY = ("landing", "stg_copies", "things_copied", "copies_quarantine")


class PowerCut(Exception):
    """Stands for the end of the process."""


class TestExport:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("exports")

    @pytest.fixture(scope="class")
    def models(self, folder: Path) -> dict[str, str]:
        refused = "{{{{ config(materialized='view', tags=['refused']) }}}}{{{{ {} }}}}"
        return {
            "sources.yml": sources(),
            "config.yml": CONFIG.format(folder=folder),
            "stg_things.sql": "{{ cdc.events(source('app', 'raw_things')) }}",
            "things.sql": FINAL.format(read="stg_things"),
            "things_changes.sql": CHANGES,
            "things_events.sql": "{{ cdc.debezium_json(ref('things_changes')) }}",
            "things_exported.py": EXPORTED,
            "landing.py": LANDING,
            "stg_copies.sql": "-- depends_on: {{ ref('landing') }}\n"
            "{{ cdc.events(source('out', 'copies')) }}",
            "copies_quarantine.sql": "-- depends_on: {{ ref('landing') }}\n"
            "{{ cdc.quarantine(source('out', 'copies')) }}",
            "things_copied.sql": FINAL.format(read="stg_copies"),
            "things_view.sql": "select * from ({{ cdc.changelog(ref('things')) }})",
            **{f"{name}.sql": refused.format(body) for name, (body, _) in REFUSED.items()},
        }

    def arrive(self, batch: int) -> None:
        """Events of a batch: rows appear, change, keep what they are, and go."""
        drawn = random.Random(SEED + batch)
        types = (KEYS | COLUMNS) | {"op": "string", "n": "int", "batch": "int"}
        values = []
        for number in range(EVENTS):
            row = [str(drawn.randrange(12)), drawn.choice(["'a'", "'é \\' \"🙂'", "''"])]
            row += [drawn.choice([*known, "null"]) for known in VALUES.values()]
            row += [drawn.choice(["'I'", "'U'", "'U'", "'D'"]), str(batch * EVENTS + number)]
            values.append(f"({', '.join([*row, str(batch)])})")
        columns = ", ".join(f"cast(`{name}` as {kind}) as `{name}`" for name, kind in types.items())
        names = ", ".join(f"`{name}`" for name in types)
        table = f"{self.project.test_schema}.raw_things"
        query = f"select {columns} from values {', '.join(values)} as v ({names})"
        into = f"create table {table} using delta as" if batch == 1 else f"insert into {table}"
        self.spark.sql(f"{into} {query}")  # dbt's own way would read braces as arguments

    def run(self, *selected: str) -> None:
        run_dbt(["run", "--select", *(selected or EXPORT)])

    def dies(self, *selected: str) -> None:
        ran = run_dbt(["run", "--select", *(selected or EXPORT)], expect_pass=False)
        [failed] = [r for r in ran if r.status == "error"]
        assert failed.node.name == "things_exported" and "PowerCut" in failed.message

    def check(self) -> None:
        """The copy is the table, and each event is in one line of one file."""
        assert rows(self.project, "select _reason, _payload from {s}.copies_quarantine") == []
        columns = ", ".join(f"`{name}`" for name in KEYS | COLUMNS)
        living = f"select {columns} from {{s}}.{{t}} where _cdc_deleted_at is null"
        origin, copy = (living.replace("{t}", name) for name in ("things", "things_copied"))
        assert rows(self.project, f"({origin}) except all ({copy})") == []
        assert rows(self.project, f"({copy}) except all ({origin})") == []
        assert rows(self.project, f"select count(*) > 5 from ({origin})") == [(True,)]
        events = rows(
            self.project, "select value from {s}.things_events where value is not null order by 1"
        )
        lines = [(line,) for file in self.files() for line in file.read_text().split("\n")[:-1]]
        assert sorted(lines) == [tuple(row) for row in events]
        logged = rows(self.project, "select file, events from {s}.things_exported order by 1")
        assert [name for name, _ in logged] == [file.name for file in self.files()]
        assert sum(number for _, number in logged) == len(lines)

    def files(self) -> list[Path]:
        assert not list(self.folder.glob(".*"))
        return sorted(self.folder.iterdir())

    @pytest.mark.usefixtures("package")
    def test_a_copy_is_the_table(
        self, project: Any, folder: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.project, self.folder, self.spark = project, folder / "copies", spark
        self.arrive(1)
        self.run()
        assert len(self.files()) > 2  # a commit of more than EVENTS_A_FILE events
        publish = export.publish

        def dying_amid(place: Path, written: list[export.Written]) -> None:
            publish(place, written[:2])
            raise PowerCut

        def dying_after(place: Path, written: list[export.Written]) -> None:
            publish(place, written)
            raise PowerCut

        self.arrive(2)
        with monkeypatch.context() as patch:
            patch.setattr(export, "publish", dying_amid)
            self.dies()
            patch.setattr(export, "publish", dying_after)
            self.dies("things_exported")
        self.run("things_exported")
        self.run(*COPY)
        self.check()

        kinds = rows(
            project,
            "select distinct value:op::string from (select parse_json(value) as"
            " value from {s}.things_events where value is not null) order by 1",
        )
        assert kinds == [("c",), ("d",), ("u",)]

        before = [(file.name, file.stat().st_mtime_ns) for file in self.files()]
        self.run("things_exported", "--empty")
        self.run("things_exported")
        assert [(file.name, file.stat().st_mtime_ns) for file in self.files()] == before
        self.check()
        ran = run_dbt(["run", "--select", "tag:refused"], expect_pass=False)
        said = {result.node.name: str(result.message) for result in ran}
        for name, (_, words) in REFUSED.items():
            assert words in said[name], said


AT = "timestamp'2026-11-23 10:00:00'"
ROWS = f"""
select
    concat('{{"id":', id, '}}') as key, concat('{{"op":"', op, '"}}') as value,
    v as _commit_version,
    {AT} + make_interval(0, 0, 0, 0, 0, 0, v) as _commit_timestamp, if(op = 'd', 0, 1) as _position
from values (1, 'c', 1L), (2, 'c', 1L), (1, 'd', 2L) as t (id, op, v)
"""


class Dbt(SimpleNamespace):
    """What dbt hands to a model whose log is a table or is not there yet."""

    def __init__(self, log: str | None = None) -> None:
        this = type("This", (str,), {"identifier": "exported"})(log or "app.exported")
        super().__init__(this=this, is_incremental=log is not None)


def test_what_an_export_refuses(spark: Any, tmp_path: Path) -> None:
    events = spark.sql(ROWS)
    place = tmp_path / "there"

    def refusal(run: Any, *arguments: Any, log: str | None = None) -> str:
        with pytest.raises((ValueError, OSError, RuntimeError)) as raised:
            run(Dbt(log), spark, *arguments)
        return str(raised.value)

    said = refusal(export.to_files, events.drop("key"), "s3://bucket/x", 0)
    assert all(w in said for w in ("no column key", "'s3://bucket/x'", "events_a_file=0")), said
    (tmp_path / "taken").write_text("")
    assert "cannot write to the folder" in refusal(export.to_files, events, str(tmp_path / "taken"))
    said = refusal(export.to_kafka, events, "a topic")
    assert "'a topic'" in said and "spark.cdc.kafka.bootstrap.servers" in said
    spark.conf.set("spark.cdc.kafka.bootstrap.servers", "127.0.0.1:1")
    assert "spark-sql-kafka-0-10_2.13" in refusal(export.to_kafka, events, "topic")

    log = export.to_files(Dbt(), spark, events, str(place))
    assert sorted(file.name for file in place.iterdir()) == [
        "00000000000000000001-00000.jsonl",
        "00000000000000000002-00000.jsonl",
    ]
    log.createOrReplaceTempView("exported")
    assert export.to_files(Dbt("exported"), spark, events, str(place)).isEmpty()
    said = refusal(export.to_files, events, str(tmp_path / "other"), log="exported")
    assert f"has exported to {place} so far" in said and "--full-refresh" in said
    later = events.where("_commit_version = 1").selectExpr(
        "key", "value", "_commit_version + 6 as _commit_version", "_commit_timestamp", "_position"
    )
    said = refusal(export.to_files, later, str(place), log="exported")
    assert "does not have that version any more" in said
    other = spark.sql(ROWS.replace("2026", "2027"))
    assert "dropped and built again" in refusal(export.to_files, other, str(place), log="exported")
    # After a full refresh of both, files of the old table would stay between those of the new one.
    said = refusal(export.to_files, events.where("_commit_version = 1"), str(place))
    assert "would not write 00000000000000000002-00000.jsonl" in said
