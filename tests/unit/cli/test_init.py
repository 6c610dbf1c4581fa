"""`cdc init`: what it writes from each kind of input, and every answer that it refuses."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner, Result
from pyarrow import parquet

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.init import answers as init_answers
from dbt_spark_cdc.init import command as init_command
from dbt_spark_cdc.init import new_project as making
from dbt_spark_cdc.init import tables as init_tables
from dbt_spark_cdc.samples import schemas
from dbt_spark_cdc.samples.records import Sample

ROOT = Path(__file__).resolve().parents[3]
ROWS = """\
op,id,name,changed_at
I,1,Ann,2026-01-05T08:00:00Z
U,1,Bea,2026-01-05T09:00:00Z
I,2,Cleo,2026-01-05T09:00:01Z
"""
POSTGRES = """\
-- A dump; it holds rows too.
SET statement_timeout = 0;
CREATE DOMAIN shop.amount AS numeric(12,2)
	CONSTRAINT amount_check CHECK ((VALUE >= (0)::numeric));
CREATE DOMAIN shop.balance AS shop.amount;
CREATE TABLE shop.customers (
    id integer NOT NULL,
    name character varying(30) DEFAULT 'x; -- no'::character varying,
    balance shop.balance,
    seen timestamp with time zone,
    tags text[],
    _seq int
);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN; CREATE TABLE no (x int); END $$;
COPY shop.customers (id, name) FROM stdin;
1	it's; CREATE TABLE neither (x int);
\\.
ALTER TABLE ONLY shop.customers
    ADD CONSTRAINT customers_pkey PRIMARY KEY (id) INCLUDE (name);
CREATE TABLE shop.lines (a int, b smallint, c text, PRIMARY KEY (b, a)) PARTITION BY RANGE (a);
CREATE TABLE shop.lines_1 PARTITION OF shop.lines FOR VALUES FROM (1) TO (2);
CREATE TABLE shop."The ""2"" lines" (a int, b smallint NOT NULL, c text) PARTITION BY RANGE (b);
CREATE TABLE shop."line's" (a int, b smallint NOT NULL, c text);
ALTER TABLE ONLY shop.lines ATTACH PARTITION shop."The ""2"" lines" FOR VALUES FROM (2) TO (3);
ALTER TABLE ONLY shop."The ""2"" lines" ATTACH PARTITION shop."line's" DEFAULT;
CREATE TABLE log (line text);
"""
MYSQL = """\
/*!40101 SET NAMES utf8 */;
CREATE TABLE `orders` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `state` enum('new','pa;id') COLLATE utf8mb4_bin DEFAULT NULL COMMENT 'it\\'s; one',
  `share` float unsigned, `ratio` real, `done` tinyint(1), `at` timestamp NULL, `local` datetime(6),
  PRIMARY KEY (`id`),
  KEY `k` (`state`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT INTO `orders` VALUES (1,'a;b\\'',1.0);
"""


def event(table: str = "shop.customers", second: int = 1, **row: Any) -> str:
    """A change as wal2json writes it."""
    owner, _, name = table.rpartition(".")
    columns = [{"name": n, "type": "integer", "value": v} for n, v in row.items()]
    return json.dumps(
        {
            "action": "I",
            "timestamp": f"2026-01-05 08:00:{second:02}+00",
            "lsn": f"0/{second:X}",
            "schema": owner,
            "table": name,
            "columns": columns,
            "pk": [{"name": "id", "type": "integer"}],
        }
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the command, where the inputs are; the project goes to `shop` below it."""
    monkeypatch.chdir(tmp_path)
    for name in (*schemas.POSTGRES_VARIABLES, "PGPORT", "PGUSER", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "customers.csv").write_text(ROWS)
    (tmp_path / "wal.jsonl").write_text(event(id=1) + "\n" + event(second=2, id=2) + "\n")
    (tmp_path / "dump.sql").write_text(POSTGRES)
    return tmp_path


def invoke(*arguments: object, typed: str | None = None) -> Result:
    return CliRunner().invoke(main, ["init", *map(str, arguments)], input=typed)


def made(*arguments: object) -> dict[str, Any]:
    """What the command says that it made, in `shop`."""
    ran = invoke("shop", *arguments, "--json")
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.output)


def refused(*arguments: object, code: int = 2) -> str:
    """What it says of an answer that it refuses; nothing is written then."""
    before = sorted(Path().rglob("*"))
    ran = invoke("shop", *arguments)
    assert ran.exit_code == code, ran.output
    assert sorted(Path().rglob("*")) == before
    return ran.stderr


def source(folder: Path, table: str) -> dict[str, Any]:
    """The declaration that was written for a table."""
    (file,) = (folder / "shop/models/sources").glob(f"*__{table}.yml")
    (found,) = yaml.safe_load(file.read_text())["sources"]
    declared = found["tables"][0]
    return {
        "source": found["name"],
        "raw": f"{found.get('schema')}.{declared.get('identifier', declared['name'])}",
        **declared["config"]["meta"]["cdc"],
        "columns": {column["name"]: column["data_type"] for column in declared["columns"]},
    }


# What is written


def test_a_csv_is_a_project_with_a_table_over_its_folder(folder: Path) -> None:
    told = made("--events", "customers.csv")
    assert told["next"] == ["cd shop", "dbt deps", "dbt build"]
    written = {
        path.relative_to(folder / "shop").as_posix() for path in (folder / "shop").rglob("*")
    }
    assert set(told["files"]) <= written
    assert {"profiles.yml", "selectors.yml", ".gitignore", ".github/workflows/dbt.yml"} <= written
    assert source(folder, "customers") == {
        "source": "shop",
        "raw": "{{ target.schema }}_raw.customers",
        "format": "flagged",
        "keys": ["id"],
        "event_time": "try_cast(changed_at as timestamp)",
        "sequence_by": "try_cast(changed_at as timestamp)",
        "operation": "op",
        "origin": "_metadata.file_name",
        "columns": {"id": "bigint", "name": "string"},
    }
    assert (folder / "shop/landing/customers/customers.csv").read_text() == ROWS
    macro = (folder / "shop/macros/file_tables.sql").read_text()
    assert "(`op` string, `id` string, `name` string, `changed_at` string)" in macro
    assert "landing/customers'" in macro or "/customers'" in macro
    (table,) = yaml.safe_load((folder / "shop/models/sources/shop__customers.yml").read_text())[
        "sources"
    ][0]["tables"]
    assert table["external"] == {"location": "{{ env_var('CDC_LANDING', 'landing') }}/customers"}
    for file in (folder / "shop").rglob("*.yml"):
        assert yaml.safe_load(file.read_text()), file
    final = yaml.safe_load((folder / "shop/models/final/customers.yml").read_text())["models"][0]
    assert list(final["data_tests"][0]) == ["cdc.one_current_row"]
    (history,) = yaml.safe_load((folder / "shop/snapshots/customers_history.yml").read_text())[
        "snapshots"
    ]
    tests = [name for test in history["data_tests"] for name in test]
    assert tests == ["cdc.quarantined_share", "cdc.no_overlap"]


def test_json_lines_are_landed(folder: Path) -> None:
    (folder / "packed").write_bytes(gzip.compress((folder / "wal.jsonl").read_bytes()))
    made("--events", "packed")
    declared = source(folder, "customers")
    assert declared["landed"] is True and "payload" not in declared and "where" not in declared
    assert declared["raw"] == "{{ target.schema }}_raw.landed"
    assert declared["columns"] == {"id": "int"}
    assert "external" not in (folder / "shop/models/sources/shop__customers.yml").read_text()
    # Landing knows packed files by their name.
    assert (folder / "shop/landing/customers/packed.gz").exists()
    staging = (folder / "shop/models/staging/stg_shop__customers.sql").read_text()
    quarantine = (folder / "shop/models/quarantine/customers_quarantine.sql").read_text()
    assert staging.startswith("-- depends_on: {{ ref('landing') }}")
    assert quarantine.startswith("-- depends_on: {{ ref('landing') }}")
    compile((folder / "shop/models/landing/landing.py").read_text(), "landing.py", "exec")


def test_a_topic_of_two_tables_is_told_apart(folder: Path) -> None:
    (folder / "topic.jsonl").write_text(event(id=1) + "\n" + event("shop.orders", 2, id=1) + "\n")
    made("--events", "topic.jsonl")
    for table in ("customers", "orders"):
        declared = source(folder, table)
        assert declared["source_table"] == f"shop.{table}"
        assert declared["where"] == "_table = 'topic'"
    assert (folder / "shop/landing/topic/topic.jsonl").exists()


def test_a_folder_of_folders_is_a_topic_each(folder: Path) -> None:
    for table in ("a", "b"):
        (folder / "in" / table).mkdir(parents=True)
        for number in (1, 2):
            text = f"op,id,seq\nI,{number},{number}\nU,{number},{number + 2}\n"
            (folder / "in" / table / f"{number}.csv").write_text(text)
    made("--events", "in", "--only", "a")
    assert (folder / "shop/landing/a/2.csv").exists()
    assert not (folder / "shop/landing/b").exists()
    assert source(folder, "a")["sequence_by"] == "try_cast(seq as decimal(38,0))"


def test_folders_that_are_named_like_topics_are_a_topic_each(folder: Path) -> None:
    for name in ("public.orders", "public.items", "archive.items"):
        schema, table = name.split(".")
        (folder / "in" / f"shop.{name}").mkdir(parents=True)
        event = {
            "action": "I",
            "schema": schema,
            "table": table,
            "timestamp": "2026-01-01 00:00:00+00",
        }
        event |= {
            "columns": [{"name": "id", "type": "integer", "value": 1}],
            "lsn": "0/1",
            "xid": 1,
        }
        line = json.dumps(event | {"pk": [{"name": "id", "type": "integer"}]})
        (folder / "in" / f"shop.{name}" / f"{schema}.json").write_text(f"{line}\n")
    made("--events", "in", "--only", "public.items", "--only", "public.orders")
    landed = sorted(path.name for path in (folder / "shop/landing").glob("*/[!.]*"))
    assert landed == ["public.json", "public.json"]
    assert {path.name for path in (folder / "shop/landing").iterdir()} == {"items", "orders"}


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (
            ("orders/partition=0/a.json",),
            "folders inside of those of its topics: orders/partition=0. Files in them are not read."
            " Move the files up",
        ),
        (
            ("orders/a.json", "orders/old/b.json"),
            "inside of those of its topics: orders/old. Files",
        ),
        (
            tuple(f"orders/day={day}/a.json" for day in range(9)),
            "orders/day=6, orders/day=7, .... Files in",
        ),
        (("Orders/a.json", "orders/a.json"), "two folders that would be the topic orders"),
    ],
)
def test_folders_of_which_one_would_be_left_out_are_refused(
    folder: Path, paths: tuple[str, ...], said: str
) -> None:
    for path in paths:
        (folder / "in" / path).parent.mkdir(parents=True)
        (folder / "in" / path).write_text('{"op": "I", "id": 1, "seq": 1}\n')
    refused = CliRunner().invoke(main, ["init", "shop", "--events", "in"])
    assert (refused.exit_code, said in refused.output) == (2, True)
    assert not (folder / "shop").exists()


@pytest.mark.parametrize("names", [("a:b.jsonl", "a_b.jsonl"), ("a.jsonl", "a.jsonl.gz")])
def test_files_that_would_be_copied_to_the_same_name_are_refused(
    folder: Path, names: tuple[str, ...]
) -> None:
    (folder / "in").mkdir()
    for number, name in enumerate(names, 1):
        content = event(id=number, second=number).encode()
        packs = "a.jsonl.gz" in names
        (folder / "in" / name).write_bytes(gzip.compress(content) if packs else content)
    landed = names[1]
    said = refused("--events", "in")
    assert f"in/{names[0]} and {names[1]} would both be copied as {landed}. Rename one." in said
    # Nothing is copied where something else fills the raw table.
    made("--events", "in", "--raw-table", "raw.t", "--format", "wal2json_v2")


def test_a_folder_with_a_blank_is_quoted_in_the_commands(folder: Path) -> None:
    ran = invoke("my shop", "--events", "customers.csv")
    assert ran.exit_code == 0 and "  cd 'my shop'\n  dbt deps\n" in ran.output


def test_rows_of_json_are_ordered_as_numbers(folder: Path) -> None:
    rows = [{"op": op, "id": 1, "seq": seq} for op, seq in (("I", 9), ("U", 10), ("U", 11))]
    (folder / "rows.json").write_text(json.dumps(rows))
    made("--events", "rows.json")
    assert source(folder, "rows")["sequence_by"] == "try_cast(seq as bigint)"
    assert "multiLine 'true'" in (folder / "shop/macros/file_tables.sql").read_text()


@pytest.mark.parametrize(
    ("order", "written"),
    [
        ("nr", "try_cast(nr as decimal(38,0))"),
        ("NR", "try_cast(NR as decimal(38,0))"),
        ("`nr`", "try_cast(`nr` as decimal(38,0))"),
        ("seq", "try_cast(seq as decimal(38,0))"),
        ("below", "try_cast(below as decimal(38,0))"),
        ("price", "try_cast(price as decimal(18,2))"),
        ("at", "try_cast(at as timestamp)"),
        ("local", "try_cast(local as timestamp_ntz)"),
        ("place", "place"),
        ("cast(nr as int) * 2", "cast(nr as int) * 2"),
    ],
)
def test_an_order_that_is_named_compares_texts_as_what_they_mean(
    folder: Path, order: str, written: str
) -> None:
    write(
        folder / "pos.csv",
        "op,id,seq,nr,below,price,at,local,place\n"
        "I,1,9,9,-2,9.50,2026-01-05T08:00:00Z,2026-01-05 08:00:00,00A9\n"
        "U,1,10,10,-1,10.50,2026-01-05T09:00:00Z,2026-01-05 09:00:00,00B0\n",
    )
    made("--events", "pos.csv", "--sequence-by", order)
    assert source(folder, "pos")["sequence_by"] == written


def test_a_guess_that_another_order_replaces_is_not_said_to_order(folder: Path) -> None:
    write(folder / "e.csv", "op,id,seq,nr\nI,1,1,9\nU,1,2,10\n")
    for order, note in (("nr", "seq is left out of"), ("seq", "seq orders the events and is")):
        ran = invoke("shop", "--events", "e.csv", "--sequence-by", order, "--dry-run")
        assert note in ran.output


@pytest.mark.parametrize(("values", "of"), [((9, 10), "bigint"), (("9", "10"), "decimal(38,0)")])
def test_an_order_of_json_rows_that_is_named_is_the_guess(
    folder: Path, values: tuple[Any, ...], of: str
) -> None:
    rows = [{"op": "I", "id": 1, "seq": value, "nr": value} for value in values]
    write(folder / "rows.jsonl", "\n".join(map(json.dumps, rows)))
    for order, kind in (("seq", of), ("nr", "decimal(38,0)")):
        ran = invoke(
            "shop", "--events", "rows.jsonl", "--sequence-by", order, "--dry-run", "--json"
        )
        (table,) = json.loads(ran.output)["tables"]
        assert table["declaration"]["sequence_by"] == f"try_cast({order} as {kind})"


def test_an_order_that_is_named_is_cast_in_typed_files_where_it_is_text(folder: Path) -> None:
    table = pa.table({"op": ["I", "U"], "id": [1, 1], "nr": ["9", "10"], "at": [1, 2]})
    parquet.write_table(table, folder / "rows.parquet")
    for order, written in (("nr", "try_cast(nr as decimal(38,0))"), ("at", "at")):
        ran = invoke(
            "shop", "--events", "rows.parquet", "--sequence-by", order, "--dry-run", "--json"
        )
        (table,) = json.loads(ran.output)["tables"]
        assert table["declaration"]["sequence_by"] == written


@pytest.mark.parametrize(
    ("offsets", "of"), [(("9", "10"), "try_cast({} as decimal(38,0))"), (("0/9", "0/A"), "{}")]
)
def test_an_order_beside_the_events_is_cast_as_what_it_is(
    folder: Path, offsets: tuple[str, ...], of: str
) -> None:
    lines = [json.dumps({"op": "c", "after": {"id": 1}, "source": {"table": "t"}})] * 2
    with (folder / "topic.csv").open("w", newline="") as opened:
        rows = zip(offsets, offsets, lines, strict=True)
        csv.writer(opened).writerows([("offset", "other", "value"), *rows])
    for order in ("offset", "other"):
        arguments = () if order == "offset" else ("--sequence-by", "other")
        ran = invoke(
            *("shop", "--events", "topic.csv", "--key", "id", *arguments, "--dry-run", "--json")
        )
        (table,) = json.loads(ran.output)["tables"]
        assert table["declaration"]["sequence_by"] == of.format(order)


def test_an_order_that_no_event_has_is_refused(folder: Path) -> None:
    said = refused("--events", "customers.csv", "--sequence-by", "nope")
    assert "--sequence-by: nope is not a column of the raw table of customers." in said
    assert "The columns are op, id, name, changed_at." in said
    assert "`nope` is not a column" in refused("--events", "wal.jsonl", "--sequence-by", "`nope`")
    made("--events", "wal.jsonl", "--sequence-by", "_batch")
    assert source(folder, "customers")["sequence_by"] == "_batch"


SPACED = """\
CREATE TABLE items ("order id" int, "Line No" int, "a.b c" text, _seq int, line_no int,
    PRIMARY KEY ("order id", line_no));
"""


def spaced(*pk: str) -> str:
    """Changes of a table whose columns have blanks in their names."""
    rows = [
        json.loads(event("items", n, **{"order id": 1, "Line No": n, "qty": n})) for n in (1, 2)
    ]
    keys = [{"name": name, "type": "integer"} for name in pk]
    return "\n".join(json.dumps({**row, "pk": keys}) for row in rows) + "\n"


def test_columns_that_cannot_have_their_name_are_renamed(folder: Path) -> None:
    write(folder / "items.jsonl", spaced("order id", "Line No"))
    told = made("--events", "items.jsonl")
    declared = source(folder, "items")
    assert declared["keys"] == ["order_id", "line_no"]
    assert declared["renames"] == {"order_id": "order id", "line_no": "Line No"}
    assert declared["columns"] == {"order_id": "int", "line_no": "int", "qty": "int"}
    assert "Line No is read as line_no: Delta or the" in " ".join(told["tables"][0]["notes"])
    (history,) = yaml.safe_load((folder / "shop/snapshots/items_history.yml").read_text())[
        "snapshots"
    ]
    assert history["config"]["unique_key"] == ["order_id", "line_no"]


@pytest.mark.parametrize(
    "key", ["order id,Line No", "ORDER ID; `line no`", "order_id line_no", "items=order id,line_no"]
)
def test_a_key_with_blanks_is_named_as_the_events_or_the_tables_have_it(
    folder: Path, key: str
) -> None:
    write(folder / "items.jsonl", spaced())
    made("--events", "items.jsonl", "--key", key)
    assert source(folder, "items")["keys"] == ["order_id", "line_no"]


def test_columns_of_a_dump_that_cannot_have_their_name_are_renamed(folder: Path) -> None:
    write(folder / "items.sql", SPACED)
    made("--ddl", "items.sql", "--format", "wal2json_v2")
    declared = source(folder, "items")
    # `Line No` would be line_no, which is another column; _seq is a name of the package.
    assert declared["keys"] == ["order_id", "line_no"]
    assert declared["renames"] == {"order_id": "order id", "a_b_c": "a.b c"}
    assert list(declared["columns"]) == ["order_id", "a_b_c", "line_no"]
    said = refused("--ddl", "items.sql", "--format", "delta_cdf", "--raw-table", "raw.items")
    assert "--key: order id cannot be a column of the tables: Delta or the package" in said


def test_rows_are_refused_whose_key_cannot_be_a_column(folder: Path) -> None:
    write(folder / "e.csv", "op,order id,First Name,seq\nI,1,Ann,1\nU,1,Bea,2\nI,2,Cleo,3\n")
    said = refused("--events", "e.csv")
    assert "no key of e can be found. order id, First Name cannot be columns of the tables" in said
    assert "Rename them in the events" in said
    said = refused("--events", "e.csv", "--key", "order id")
    assert "--key: order id cannot be a column of the tables" in said
    said = refused("--events", "e.csv", "--key", "x y")
    assert "--key: x, y are not columns of e. Name its columns" in said
    described = CliRunner().invoke(main, ["describe", "e.csv"]).output
    assert "declare it as first_name, with renames: {first_name: First Name}" in described


def test_a_reserved_name_that_the_events_name_as_the_key_is_refused(folder: Path) -> None:
    row = json.loads(event("items", **{"_seq": 1, "qty": 2}))
    write(folder / "items.jsonl", json.dumps({**row, "pk": [{"name": "_seq", "type": "integer"}]}))
    assert "--key: _seq cannot be a column of the tables" in refused("--events", "items.jsonl")
    described = CliRunner().invoke(main, ["describe", "items.jsonl"]).output
    assert "# keys: TODO: _seq has no place in the tables" in described.replace("#   ", "# ")
    assert "# To be completed" in described


def test_the_column_of_the_flag_is_the_one_that_is_named(folder: Path) -> None:
    write(folder / "e.csv", "op,id,seq,Verb\nI,1,1,u\nU,1,2,d\nU,2,3,i\n")
    made("--events", "e.csv", "--operation", "verb")
    declared = source(folder, "e")
    assert (declared["format"], declared["operation"]) == ("flagged", "Verb")
    assert list(declared["columns"]) == ["op", "id"]
    shutil.rmtree(folder / "shop")
    write(folder / "dms.csv", "Op,id,seq\nI,1,1\nU,1,2\n")
    made("--events", "dms.csv", "--operation", "Op", "--format", "flagged")
    assert source(folder, "dms")["format"] == "flagged"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--events", "e.csv", "--operation", "nope"], "of e has I, U, D or T, or such a word, in"),
        (["--events", "e.csv", "--operation", "id"], "column id. Name the column that does, or"),
        (["--events", "wal.jsonl", "--operation", "id"], "--operation: no record of wal has"),
        (["--events", "e.csv", "--operation", "op"], "--events: only 33% of the 3 records of e"),
        (
            ["--events", "e.csv", "--operation", "op", "--format", "dms"],
            "--operation: it names the column of the flag, which the format dms does not have",
        ),
        (
            ["--ddl", "dump.sql", "--operation", "op", "--format", "canal"],
            "--operation: it names the column of the flag, which the format canal does not have",
        ),
    ],
)
def test_a_column_of_the_flag_that_holds_none_is_refused(
    folder: Path, arguments: list[str], said: str
) -> None:
    write(folder / "e.csv", "op,id,seq\nI,1,1\nX,1,2\nY,2,3\n")
    assert said in refused(*arguments)


def test_a_key_is_named_in_upper_or_lower_case(folder: Path) -> None:
    made("--events", "customers.csv", "--key", "ID,Name")
    assert source(folder, "customers")["keys"] == ["id", "name"]


def test_parquet_keeps_its_types(folder: Path) -> None:
    table = pa.table({"op": ["I", "U"], "id": [1, 1], "seq": [1, 2]})
    parquet.write_table(table, folder / "rows.parquet")
    made("--events", "rows.parquet")
    assert source(folder, "rows")["sequence_by"] == "seq"
    macro = (folder / "shop/macros/file_tables.sql").read_text()
    assert "(`op` string, `id` bigint, `seq` bigint)" in macro


def test_a_sample_of_a_topic_that_is_a_table(folder: Path) -> None:
    told = made("--events", "wal.jsonl", "--raw-table", "kafka_raw.shop", "--payload", "message")
    declared = source(folder, "customers")
    assert (declared["raw"], declared["payload"]) == ("kafka_raw.shop", "message")
    assert not [path for path in told["files"] if path.startswith("landing")]
    assert "cdc doctor" in (folder / "shop/.github/workflows/dbt.yml").read_text()


def test_a_dump_of_postgresql(folder: Path) -> None:
    told = made("--ddl", "dump.sql", "--format", "wal2json_v2", "--key", "log=none")
    assert [table["table"] for table in told["tables"]] == ["customers", "lines", "log"]
    declared = source(folder, "customers")
    assert declared["keys"] == ["id"] and declared["landed"] is True
    assert declared["columns"] == {
        "id": "int",
        "name": "string",
        "balance": "decimal(12,2)",
        "seen": "timestamp",
        "tags": "string",
    }
    assert "# _seq is left out" in (folder / "shop/models/sources/shop__customers.yml").read_text()
    lines = source(folder, "lines")
    assert lines["keys"] == ["b", "a"]
    assert lines["where"] == "_table in ('lines', 'line\\'s', 'lines_1')"
    assert "where" not in declared
    (note,) = [note for table in told["tables"] for note in table["notes"] if "partition" in note]
    assert "name the partition (shop.line's, shop.lines_1), not shop.lines: where lists" in note
    assert "publish_via_partition_root" in note
    assert source(folder, "log")["keys"] == []
    assert (folder / "shop/landing/log/.gitkeep").exists()


def test_a_dump_of_mysql(folder: Path) -> None:
    (folder / "my.sql").write_text(MYSQL)
    made("--ddl", "my.sql", "--format", "canal", "--raw-table", "raw.{table}", "--sequence-by", "o")
    declared = source(folder, "orders")
    assert (declared["raw"], declared["payload"]) == ("raw.orders", "value")
    assert declared["sequence_by"] == "o"
    assert declared["columns"] == {
        "id": "bigint",
        "state": "string",
        "share": "float",
        "ratio": "double",
        "done": "tinyint",
        "at": "timestamp",
        "local": "timestamp_ntz",
    }


def test_one_raw_table_for_all_names_the_tables(folder: Path) -> None:
    told = made(
        *("--ddl", "dump.sql", "--format", "debezium", "--raw-table", "k.all", "--key", "log=none")
    )
    assert source(folder, "customers")["source_table"] == "shop.customers"
    # The one where Debezium's publication names the table, the others where it does not.
    named = ["shop.lines", "shop.line's", "shop.lines_1"]
    assert source(folder, "lines")["source_table"] == named
    assert [[n for n in t["notes"] if "source_table lists" in n] != [] for t in told["tables"]] == [
        *(False, True, False)
    ]
    assert source(folder, "log")["source_table"] == "log"


class Cursor:
    """What psycopg's connection and cursor do here."""

    rows: tuple[tuple[str, str, str, str, int, list[str]], ...] = ()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cursor(self) -> Cursor:
        return self

    def execute(self, _: str) -> Cursor:
        return self

    def fetchall(self) -> list[tuple[str, str, str, str, int, list[str]]]:
        return list(self.rows)


def test_a_database_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setenv("PGPASSWORD", "a-secret")
    monkeypatch.setattr(psycopg, "connect", lambda **_: Cursor())
    monkeypatch.setattr(
        Cursor,
        "rows",
        [
            ("public", "lines", "b", "numeric(12,2)", -1, ["old.lines_1"]),
            ("public", "lines", "y", "integer", 1, ["old.lines_1"]),
            ("public", "lines", "x", "bigint", 0, ["old.lines_1"]),
        ],
    )
    told = made("--postgres", "--format", "wal2json_v2", "--raw-table", "raw.{table}")
    (note,) = [note for note in told["tables"][0]["notes"] if "partition" in note]
    assert "(old.lines_1), not public.lines: write the changes of all partitions to its" in note
    declared = source(folder, "lines")
    assert (declared["source"], declared["keys"]) == ("shop", ["x", "y"])
    assert declared["columns"] == {"b": "decimal(12,2)", "y": "int", "x": "bigint"}
    for file in (folder / "shop").rglob("*"):
        assert file.is_dir() or "secret" not in file.read_text()


def test_a_table_of_the_warehouse(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "lake").mkdir()
    rows = [{"op": "I", "id": 1, "seq": 1}, {"op": "U", "id": 1, "seq": 2}]
    types = {"op": "string", "id": "int", "seq": "bigint"}
    asked = []

    def first_rows(name: str, credentials: Any, limit: int) -> Sample:
        asked.append((name, credentials.warehouse))
        return Sample(name, "table", rows, types)

    monkeypatch.setattr("dbt_spark_cdc.samples.spark_table.first_rows", first_rows)
    made("--table", "raw.items", "--warehouse", "../lake")
    assert asked == [("raw.items", str(folder / "lake"))]
    declared = source(folder, "items")
    assert (declared["raw"], declared["columns"]) == ("raw.items", {"id": "int"})
    assert "'../lake'" in (folder / "shop/profiles.yml").read_text()


def test_a_dry_run_names_the_files_and_writes_none(folder: Path) -> None:
    ran = invoke("shop", "--events", "customers.csv", "--dry-run")
    assert ran.exit_code == 0 and "dbt_project.yml: would be written" in ran.output
    assert not (folder / "shop").exists()


def test_credentials_are_variables_only(folder: Path) -> None:
    made("--events", "customers.csv")
    profile = yaml.safe_load((folder / "shop/profiles.yml").read_text())["shop"]
    assert profile["outputs"]["local"]["type"] == "sparkcdc"
    assert profile["outputs"]["server"]["remote"] == "{{ env_var('CDC_REMOTE') }}"


def test_the_package_may_be_a_git_address(folder: Path) -> None:
    made("--events", "customers.csv", "--package", "https://git.example/cdc.git@v0.1.0")
    (entry,) = yaml.safe_load((folder / "shop/packages.yml").read_text())["packages"]
    assert entry == {"git": "https://git.example/cdc.git", "revision": "v0.1.0"}
    workflow = (folder / "shop/.github/workflows/dbt.yml").read_text()
    assert "git+https://git.example/cdc.git@v0.1.0" in workflow


def test_the_package_may_be_an_archive(folder: Path) -> None:
    address = "https://files.example/cdc-0.1.0.tar.gz"
    made("--events", "customers.csv", "--package", address)
    (entry,) = yaml.safe_load((folder / "shop/packages.yml").read_text())["packages"]
    assert entry == {"tarball": address, "name": "cdc"}
    workflow = (folder / "shop/.github/workflows/dbt.yml").read_text()
    assert "pip install dbt-spark-cdc==" in workflow


def test_a_git_address_without_a_scheme_is_one_for_pip(folder: Path) -> None:
    made("--events", "customers.csv", "--package", "git@git.example:us/cdc.git@v0.1.0")
    workflow = (folder / "shop/.github/workflows/dbt.yml").read_text()
    assert "git+ssh://git@git.example/us/cdc.git@v0.1.0" in workflow


def test_a_relative_package_is_relative_to_the_project(folder: Path) -> None:
    (folder / "cdc").mkdir()
    (folder / "cdc/dbt_project.yml").write_text("name: cdc\n")
    made("--events", "customers.csv", "--package", "cdc")
    assert "'../cdc'" in (folder / "shop/packages.yml").read_text()


def test_hidden_files_an_environment_and_the_input_may_be_there(folder: Path) -> None:
    (folder / "shop/venv").mkdir(parents=True)
    (folder / "shop/venv/pyvenv.cfg").write_text("")
    (folder / "shop/.git").mkdir()
    (folder / "shop/mine.csv").write_text(ROWS)
    made("--events", "shop/mine.csv")
    assert source(folder, "mine")["keys"] == ["id"]


# Questions


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_command, "is_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_it_asks_on_a_terminal(folder: Path) -> None:
    ran = invoke("shop", typed="ddl\ndump.sql\nmine\nwal2json_v2\nline\n")
    assert ran.exit_code == 0, ran.output
    assert "no key of log can be found" in ran.output and "key of log" in ran.output
    assert yaml.safe_load((folder / "shop/dbt_project.yml").read_text())["name"] == "mine"
    assert source(folder, "log")["keys"] == ["line"]


@pytest.mark.usefixtures("terminal")
def test_it_asks_for_the_order(folder: Path) -> None:
    (folder / "bare.csv").write_text("op,id,name\nI,1,a\nU,1,b\n")
    ran = invoke("shop", typed="events\nbare.csv\n\nid\n")
    assert ran.exit_code == 0, ran.output
    assert source(folder, "bare")["sequence_by"] == "try_cast(id as decimal(38,0))"


@pytest.mark.usefixtures("terminal")
def test_an_answer_that_is_wrong_is_refused_and_not_asked_again(folder: Path) -> None:
    ran = invoke("shop", typed="ddl\ndump.sql\nmine\nwal2json_v2\nnothing\n")
    assert ran.exit_code == 2
    assert "nothing is not a column of log" in ran.stderr


def test_without_a_terminal_nothing_is_asked(folder: Path) -> None:
    said = refused()
    assert "--events: there is no input. Name one: --events" in said


# Wrong answers


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return path.name


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--events", "gone.csv"], ["--events: gone.csv does not exist", "Name a file or folder"]),
        (["--events", "empty.csv"], ["--events: empty.csv is empty"]),
        (["--events", "empty"], ["--events: empty is a folder without files"]),
        (["--events", "hollow"], ["--events: hollow holds folders without files: a. Remove"]),
        (["--events", "mixed"], ["--events: mixed holds files (1.csv) beside folders (a)"]),
        (["--events", "kinds"], ["b.jsonl is json", "a.csv is csv with op, id", "of their own"]),
        (["--events", "plain.csv"], ["no change format fits plain", "cdc describe"]),
        (["--events", "words.txt"], ["neither Parquet, JSON nor CSV"]),
        (["--events", "half.jsonl"], ["only 67% of the 3 records of half are wal2json_v2"]),
        (["--events", "array.json"], ["are not on one line each", "jq -c"]),
        (["--events", "wal.jsonl", "--format", "canal"], ["is wal2json_v2", "--format says canal"]),
        (["--events", "wal.jsonl", "--format", "x"], ["--format: unknown format `x`. The formats"]),
        (["--events", "keyless.csv"], ["--key: no key of keyless can be found", "keyless=none"]),
        (["--events", "bare.csv"], ["--sequence-by: nothing shows what orders the events of bare"]),
        (["--events", "wal.jsonl", "--key", "no"], ["--key: no is not a column of customers"]),
        (
            ["--events", "wal.jsonl", "--key", "x=id"],
            ["--key: there is no table x. The tables are cust"],
        ),
        (
            ["--events", "wal.jsonl", "--only", "x"],
            ["--only: there is no table x. The tables are shop."],
        ),
        (
            ["--events", "wal.jsonl", "--sequence-by", "max(id)"],
            ["--sequence-by: `max(id)`: it is"],
        ),
        (["--events", "wal.jsonl", "--name", "my-shop"], ["--name: `my-shop` is not a valid name"]),
        (["--events", "wal.jsonl", "--name", "cdc"], ["--name: `cdc` is not a valid name of"]),
        (["--events", "wal.jsonl", "--schema", "a b"], ["--schema: `a b` is not a valid name"]),
        (["--events", "wal.jsonl", "--system", "1"], ["--system: `1` is not a valid name"]),
        (
            ["--events", "wal.jsonl", "--payload", "p"],
            ["--payload: it names a column of --raw-tab"],
        ),
        (["--events", "wal.jsonl", "--raw-table", "t"], ["--raw-table: `t` is not a table name"]),
        (["--events", "wal.jsonl", "--package", "gone"], ["--package: gone holds no dbt package"]),
        (
            ["--events", "wal.jsonl", "--package", "https://h.example/x.git"],
            ["--package: `https://h.example/x.git` names no revision", "x.git@TAG"],
        ),
        (
            ["--events", "wal.jsonl", "--package", "https://u:pw@h.example/x.git@v1"],
            ["--package: the address of h.example holds a password"],
        ),
        (["--events", "wal.jsonl", "--ddl", "dump.sql"], ["--ddl: --events and --ddl are given"]),
        (
            ["--events", "twice.jsonl"],
            ["--only: b.t would have the model t_history", "a.t has too"],
        ),
        (["--ddl", "gone.sql", "--format", "canal"], ["--ddl: gone.sql cannot be read"]),
        (["--ddl", "empty.csv", "--format", "canal"], ["--ddl: empty.csv is empty"]),
        (
            ["--ddl", "bad.sql", "--format", "canal"],
            ["statements that are not valid SQL", "t (a int,"],
        ),
        (["--ddl", "words.txt", "--format", "canal"], ["--ddl: words.txt holds no CREATE TABLE"]),
        (["--ddl", "dump.sql"], ["--format: --ddl shows tables and not how their changes look"]),
        (["--ddl", "dump.sql", "--format", "x"], ["--format: unknown format `x`"]),
        (
            ["--ddl", "dump.sql", "--format", "flagged"],
            ["--raw-table: events of the format flagged are rows", "--operation: flagged needs"],
        ),
        (
            ["--ddl", "dump.sql", "--format", "delta_cdf", "--raw-table", "a.b"],
            ["--raw-table: `a.b` is one table for 3 tables"],
        ),
        (["--ddl", "dump.sql", "--format", "maxwell"], ["--key: no key of log can be found"]),
        (["--table", "items"], ["--table: `items` is not a table name. Write SCHEMA.TABLE"]),
        (["--table", "a.items"], ["--warehouse: ", "warehouse is not a folder", "a.items"]),
        (["--postgres", "--format", "canal"], ["--postgres connects as", "Set PGHOST, PGDATABASE"]),
    ],
)
def test_a_wrong_answer_is_refused(folder: Path, arguments: list[str], parts: list[str]) -> None:
    write(folder / "empty.csv", "")
    (folder / "empty").mkdir()
    for name in ("hollow/a", "mixed/a", "kinds"):
        (folder / name).mkdir(parents=True)
    write(folder / "mixed/1.csv", ROWS)
    write(folder / "kinds/a.csv", ROWS)
    write(folder / "kinds/b.jsonl", event(id=1))
    write(folder / "plain.csv", "a,b\n1,2\n3,4\n")
    write(folder / "words.txt", "no events at all\n")
    write(folder / "half.jsonl", "\n".join([event(id=1), event(id=2), '{"a": 1}']))
    write(folder / "array.json", f"[{event(id=1)}, {event(id=2)}]")
    write(folder / "keyless.csv", "op,seq,id\nI,1,5\nI,2,5\nI,3,\n")
    write(folder / "bare.csv", "op,id,name\nI,1,a\nU,1,b\n")
    write(folder / "twice.jsonl", event("a.t", id=1) + "\n" + event("b.t", id=1))
    write(folder / "bad.sql", "create table t (a int, b int b int);")
    said = refused(*arguments)
    assert said.startswith("cdc: --") and said.endswith("cdc: Nothing was written.\n")
    for part in parts:
        assert part in said


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("op,id,id,seq", "has columns whose names are the same but for case: id, id. Rename all"),
        ("op,Id,ID,seq", "has columns whose names are the same but for case: Id, ID. Rename all"),
        ("op, id,x, seq", "has blanks around the names of columns: ` id`, ` seq`. Remove the"),
        ("op,id,seq,", "has no name for column 4 of its first line. Write one."),
    ],
)
def test_names_of_columns_that_spark_does_not_find_are_refused(
    folder: Path, header: str, said: str
) -> None:
    write(folder / "e.csv", f"{header}\nI,1,2,1\nU,1,3,2\n")
    assert f"--events: e.csv {said}" in refused("--events", "e.csv")
    described = CliRunner().invoke(main, ["describe", "e.csv"])
    assert described.exit_code == 2 and said in described.output


def test_files_without_records_are_passed_over_beside_others(folder: Path) -> None:
    for name in ("first", "only"):
        (folder / name).mkdir()
        write(folder / name / "0.csv", "op,id,seq\n")
        write(folder / name / "1.csv", "")
        (folder / name / "2.csv.gz").write_bytes(gzip.compress(b""))
    write(folder / "first/3.csv", "op,id,seq\nI,1,1\nU,1,2\n")
    made("--events", "first")
    assert source(folder, "first")["keys"] == ["id"]
    assert (folder / "shop/landing/first/0.csv").exists()
    shutil.rmtree(folder / "shop")
    assert "only/0.csv holds no records. Name a file that" in refused("--events", "only")


def test_a_first_line_may_end_with_a_carriage_return(folder: Path) -> None:
    (folder / "e.csv").write_bytes(b"op,id,seq\r\nI,1,1\r\nU,1,2\r\n")
    made("--events", "e.csv")
    assert source(folder, "e")["keys"] == ["id"]


def test_all_wrong_answers_are_told_at_once(folder: Path) -> None:
    said = refused("--events", "gone", "--name", "a-b", "--schema", "1", "--package", "nowhere")
    assert [line.split(": ")[1] for line in said.splitlines()[:-1]] == [
        "--name",
        "--schema",
        "--package",
        "--events",
    ]


def test_a_folder_that_is_not_empty_is_refused(folder: Path) -> None:
    (folder / "shop").mkdir()
    write(folder / "shop/mine.txt", "")
    assert "FOLDER: " in (said := refused("--events", "wal.jsonl"))
    assert "is not empty: it holds mine.txt. Name an empty or a new folder" in said
    (folder / "shop/mine.txt").unlink()
    (folder / "shop").rmdir()
    write(folder / "shop", "")
    assert "shop is a file" in refused("--events", "wal.jsonl")


def test_no_file_is_overwritten_and_all_are_named(folder: Path) -> None:
    (folder / "shop/.github/workflows").mkdir(parents=True)
    write(folder / "shop/.gitignore", "mine")
    write(folder / "shop/.github/workflows/dbt.yml", "mine")
    said = refused("--events", "wal.jsonl", code=1)
    assert "shop/.gitignore already exists" in said
    assert "shop/.github/workflows/dbt.yml already exists" in said
    assert (folder / "shop/.gitignore").read_text() == "mine"


def test_a_file_that_appears_meanwhile_is_not_overwritten(folder: Path) -> None:
    project = making.plan(init_answers.Answers(folder / "shop", events=folder / "wal.jsonl"))
    (folder / "shop").mkdir()
    write(folder / "shop/selectors.yml", "mine")
    with pytest.raises(FileExistsError):
        project.write()
    assert (folder / "shop/selectors.yml").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(making.NewProject, "write", full)
    assert "No space left on device" in refused("--events", "wal.jsonl")


def test_too_many_bytes_are_not_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_tables, "MOST_BYTES", 10)
    assert "would be copied into landing/" in refused("--events", "wal.jsonl")


def test_a_dump_that_holds_the_rows_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "LARGEST_DUMP", 10)
    said = refused("--ddl", "dump.sql", "--format", "canal")
    assert "pg_dump --schema-only" in said


def test_a_wheel_does_not_know_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_answers, "installed_package", lambda: "")
    said = refused("--events", "wal.jsonl")
    assert "--package: nothing says where the dbt package is" in said and "ADDRESS@TAG" in said


def test_psycopg_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = refused("--postgres", "--format", "wal2json_v2")
    assert "pip install 'dbt-spark-cdc[postgres]'" in said and "--ddl" in said


def test_a_database_that_does_not_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGPASSWORD", "a-secret")
    said = refused("--postgres", "--format", "wal2json_v2")
    assert "--postgres: the database does not answer" in said and "PGPORT" in said
    assert "a-secret" not in said


def test_a_database_without_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setenv("PGHOST", "db.example")
    monkeypatch.setattr(psycopg, "connect", lambda **_: Cursor())
    assert "has no table" in refused("--postgres", "--format", "wal2json_v2")


def test_problems_as_json(folder: Path) -> None:
    ran = invoke("shop", "--events", "gone", "--json")
    assert ran.exit_code == 2
    (problem,) = json.loads(ran.output)["problems"]
    assert problem["option"] == "--events" and "gone does not exist" in problem["problem"]


def test_the_options_are_documented() -> None:
    page = (ROOT / "docs/cli.md").read_text().partition("## `cdc init`")[2].partition("\n## ")[0]
    options = [
        name
        for parameter in main.commands["init"].params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
    ]
    assert len(options) > 15 and [name for name in options if f"`{name}`" not in page] == []


def test_a_checkout_has_the_package_whatever_pip_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(init_answers, "distribution", unknown)
    assert init_answers.installed_package() == str(ROOT)
