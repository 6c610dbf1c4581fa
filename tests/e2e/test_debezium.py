"""Debezium on live databases: its events flow while builds run, and end in the database's rows."""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import yaml

from capture import server
from dbt_spark_cdc.capture.lsn import parse_lsn
from tests.e2e.debezium import Connector, mariadb, until
from tests.e2e.servers import dbt, free_port, kafka_broker
from tests.e2e.test_topics import Tables, write_project
from tests.pages import ROOT, codes_of

PAGE = Path("docs/debezium.md")
SEED = 20261125
CLIENTS = 3
KILLS = 2
# While clients work; on a machine that has other work, fewer show what the last build shows.
BUILDS = int(os.environ.get("BUILDS", "3"))
PASSWORD = "not-to-be-shown"
SNAPSHOT_ENDS = "returned by the query, incremental snapshotting"
HEADER = "get(filter(headers, h -> h.key = '__debezium.oldkey'), 0).value"

POSTGRES = """
create schema audit;
create sequence audit.numbers;
create table audit.changes (place text, key text, v bigint);
create function audit.number() returns trigger language plpgsql as $$
begin
  new.v := nextval('audit.numbers');
  return new;
end $$;
create function audit.note() returns trigger language plpgsql as $$
begin
  insert into audit.changes values (
    tg_table_name,
    case tg_table_name
      when 'lines' then concat(to_jsonb(new) ->> 'order_id', '/', to_jsonb(new) ->> 'line')
      else coalesce(to_jsonb(new) ->> 'id', to_jsonb(new) ->> 'Id')
    end,
    new.v
  );
  return null;
end $$;
create type mood as enum ('sad', 'happy');
create table customers (
  id bigint primary key, v bigint, name text, balance numeric(12,2), big numeric, uid uuid,
  doc jsonb, at timestamptz, local timestamp, day date, raw bytea, tags text[], numbers int[],
  amounts numeric(8,2)[], days date[], ok boolean, ratio double precision, mood mood
);
create table documents (id int primary key, v bigint, title text, body text);
alter table documents alter column body set storage external;
create table lines (
  order_id int, line int, v bigint, sku varchar(20), amount numeric(10,2),
  primary key (order_id, line)
);
create table "Odd Table" ("Id" int primary key, v bigint, "Näme" text);
"""
TRIGGERS = """
create trigger numbers before insert or update on {0} for each row execute function audit.number();
create trigger notes after insert or update on {0} for each row execute function audit.note();
"""


def postgres_setup(user_password: str) -> str:
    """The page's SQL, for the tables of the test."""
    sql = next(c.text for c in codes_of(PAGE, ROOT) if c.text.startswith("create role debezium"))
    assert "public.customers, public.documents," in sql
    sql = sql.replace("public.documents,", 'public.documents, public.lines, public."Odd Table",')
    return sql.replace("'...'", f"'{user_password}'")


def page_config(of: str, **config: Any) -> dict[str, Any]:
    """A connector's configuration as on the page, for the server of the test."""
    found = [json.loads(c.text) for c in codes_of(PAGE, ROOT) if c.text.startswith('{\n  "name"')]
    page = next(one for one in found if of in one["config"]["connector.class"])
    return page | {
        "config": page["config"] | {name.replace("_", "."): v for name, v in config.items()}
    }


class Table:
    """A table of the source, and how it is declared and compared."""

    def __init__(
        self, name: str, keys: Sequence[str], columns: dict[str, str], **options: Any
    ) -> None:
        self.name, self.keys, self.columns, self.options = name, list(keys), columns, options
        self.model = name.lower().replace(" ", "_")

    def declaration(self) -> dict[str, Any]:
        columns = [{"name": name, "data_type": type_} for name, type_ in self.columns.items()]
        return {
            "name": self.model,
            "identifier": "messages",
            "config": {"meta": {"cdc": {"keys": self.keys} | self.options}},
            "columns": [c | ({} if c["name"].isidentifier() else {"quote": True}) for c in columns],
        }

    def rows(self, tables: Tables) -> list[tuple[Any, ...]]:
        """The rows of the final table."""
        moments = {"timestamp": "unix_micros(`{}`)"}
        shown = [moments.get(t, "`{}`").format(name) for name, t in self.columns.items()]
        return in_order(tables.rows(self.model, ", ".join(shown)))


def in_order(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows by their keys, with values that both sides can be compared by."""
    plain = (tuple(bytes(v) if isinstance(v, bytearray) else v for v in row) for row in rows)
    return sorted(plain, key=lambda row: str(row[:2]))


CUSTOMERS = Table(
    "customers",
    ["id"],
    {
        **{"id": "bigint", "v": "bigint", "name": "string", "balance": "decimal(12,2)"},
        **{"big": "decimal(38,9)", "uid": "string", "doc": "string", "at": "timestamp"},
        **{"local": "timestamp_ntz", "day": "date", "raw": "binary", "tags": "array<string>"},
        **{"numbers": "array<int>", "amounts": "array<decimal(8,2)>", "days": "array<date>"},
        **{"ok": "boolean", "ratio": "double", "mood": "string"},
    },
    encodings=dict.fromkeys(("balance", "big", "amounts"), "number"),
)
DOCUMENTS = Table(
    "documents", ["id"], {"id": "int", "v": "bigint", "title": "string", "body": "string"}
)
LINES = Table(
    "lines",
    ["order_id", "line"],
    {
        **{"order_id": "int", "line": "int", "v": "bigint", "sku": "string"},
        **{"amount": "decimal(10,2)"},
    },
    encodings={"amount": "number"},
)
# Connect writes an underscore for what a topic's name cannot have.
ODD = Table(
    "Odd Table",
    ["Id"],
    {"Id": "int", "v": "bigint", "Näme": "string"},
    where="_table = 'Odd_Table'",
    source_table="public.Odd Table",
)


def add_tables(folder: Path, tables: Sequence[Table]) -> None:
    """Declarations, staging models, histories, final tables and quarantines."""
    declare(folder, tables)
    models, snapshots = folder / "models", []
    for table in tables:
        name, keys = table.model, table.keys
        source = f"source('shop', '{name}')"
        first = "-- depends_on: {{ ref('messages') }}\n"
        config = f"materialized='incremental', incremental_strategy='merge', unique_key={keys}"
        files = {
            f"stg_{name}": first + f"{{{{ cdc.events({source}) }}}}",
            name: (f"{{{{ config({config}) }}}}\n{{{{ cdc.current(ref('{name}_history')) }}}}"),
        }
        for file, text in files.items():
            (models / f"{file}.sql").write_text(text)
        key = {"arguments": {"unique_key": keys}}
        snapshots.append(
            {
                "name": f"{name}_history",
                "relation": f"ref('stg_{name}')",
                "config": {"strategy": "cdc.scd2", "unique_key": keys, "file_format": "delta"},
                "data_tests": [{"cdc.no_overlap": key}],
            }
        )
    (models / "drift.sql").write_text(
        "-- depends_on: {{ ref('messages') }}\n{{ config(materialized='table') }}\n"
        f"{{{{ cdc.schema_drift(source('shop', '{tables[0].model}')) }}}}"
    )
    audits = (f"{{{{ cdc.audit(ref('{t.model}_history'), ref('{t.model}')) }}}}" for t in tables)
    (models / "audit.sql").write_text(
        "{{ config(materialized='table') }}\n"
        + "\nunion all\n".join(f"select * from ({audit})" for audit in audits)
    )
    tested: list[dict[str, Any]] = []
    for table in tables:
        test = {"cdc.one_current_row": {"arguments": {"unique_key": table.keys}}}
        tested.append({"name": table.model, "data_tests": [test]})
    tested.append({"name": "audit", "data_tests": ["cdc.nothing_lost"]})
    (models / "tests.yml").write_text(yaml.safe_dump({"models": tested}))
    (folder / "snapshots").mkdir()
    (folder / "snapshots" / "all.yml").write_text(yaml.safe_dump({"snapshots": snapshots}))


def declare(folder: Path, tables: Sequence[Table]) -> None:
    cdc = {"format": "debezium", "landed": True, "message_key": "key", "old_key": HEADER}
    source = {
        "name": "shop",
        "schema": "landed",
        "config": {"meta": {"cdc": cdc}},
        "tables": [table.declaration() for table in tables],
    }
    (folder / "models" / "sources.yml").write_text(yaml.safe_dump({"sources": [source]}))


def build(project: Path, *arguments: str) -> None:
    """A build of the tables, in a process of its own."""
    tests = ("--exclude", "audit", "drift", "--exclude-resource-type", "test")
    dbt(project, "build", "--quiet", *(arguments or tests))


def nothing_was_quarantined(tables: Tables) -> None:
    bad = tables.rows("audit", "*", "where events_quarantined > 0")
    assert not bad


def versions(tables: Tables, table: Table) -> dict[str, list[int]]:
    """For each key the numbers of its versions, in the order of the history."""
    key = f"concat_ws('/', {', '.join(f'`{name}`' for name in table.keys)})"
    found: dict[str, list[int]] = {}
    for name, number in tables.rows(f"{table.model}_history", f"{key}, v", "order by 1, _seq"):
        found.setdefault(name, []).append(number)
    return found


# ---- PostgreSQL


class Shop:
    """A PostgreSQL database with clients that change it."""

    def __init__(self, conninfo: str, seed: int) -> None:
        self.conninfo = conninfo
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.dice = random.Random(seed)

    def prepare(self) -> None:
        self.connection.execute(POSTGRES)
        for name in ("customers", "documents", "lines", '"Odd Table"'):
            self.connection.execute(TRIGGERS.format(name))
        for number in range(1, 21):
            self.insert_customer(self.connection, self.dice, number)
        for number in range(1, 13):
            self.write(
                "insert into documents values (%s, 0, 'new', %s)", number, long_text(self.dice)
            )
        for number in range(1, 21):
            line = (number // 5, number % 5, f"sku{number}", number / 4)
            self.write("insert into lines values (%s, %s, 0, %s, %s)", *line)
        for number in (1, 2, 3):
            self.write('insert into "Odd Table" values (%s, 0, %s)', number, "before")
        self.connection.execute(postgres_setup(PASSWORD))

    def write(self, sql: str, *values: Any) -> None:
        self.connection.execute(sql, values)

    def value(self, sql: str) -> Any:
        row = self.connection.execute(sql).fetchone()
        return row and row[0]

    def insert_customer(self, connection: Any, dice: random.Random, number: int) -> None:
        """A row with values that a way from database to table could spoil."""
        n = dice.randrange(10**6)
        texts = ["", "näme", "\"'\\", "1234", "null", "line\nbreak", "\u2028😀", "__op", None]
        arrays = [[], ["a", None, "b,c", '"'], None]
        connection.execute(
            """
            insert into customers values (
              %s, 0, %s, %s, %s, gen_random_uuid(), %s, %s, %s, %s, %s, %s, %s, %s::numeric[],
              %s::date[], %s, %s, %s
            )
            """,
            (
                number,
                dice.choice(texts),
                dice.choice(["1234", "-0.01", "0", "9999999999.99", None]),
                dice.choice(["12345678901234567890123456789.123456789", "1234", "-0.000000001"]),
                dice.choice([json.dumps({"n": n, "ü": [1.50, None, True]}), "null", "1.10", None]),
                dice.choice(["2020-02-03 04:05:06.123456+02", "1969-12-31 23:59:59.999999Z"]),
                dice.choice(["2020-03-29 02:30:00", "1900-01-01 00:00:00.000001", None]),
                dice.choice(["2020-02-29", "0001-01-01", "9999-12-31", None]),
                dice.choice([b"", b"\x00\xff\\", dice.randbytes(9), None]),
                dice.choice(arrays),
                dice.choice([[1, None, -(2**31)], [], None]),
                dice.choice([["1.50", None, "1234"], [], None]),
                dice.choice([["2020-02-29", None], None]),
                dice.choice([True, False, None]),
                dice.choice([0.1, 1e300, -5e-324, 3.0, None]),
                dice.choice(["sad", "happy", None]),
            ),
        )

    def change(self, connection: Any, dice: random.Random) -> None:
        """One random statement."""
        what = dice.randrange(12)
        number, to = dice.randrange(1, 30), dice.randrange(1, 30)
        documents = "update documents set {} where id = %s"
        order, line = dice.randrange(5), dice.randrange(8)
        if what == 0:
            connection.execute("delete from customers where id = %s", (number,))
        elif what == 1:
            self.insert_customer(connection, dice, number)
        elif what in (2, 3):
            sets = dice.choice(
                ["name = 'other'", "balance = balance / 2", "raw = '\\x00'", "doc = null"]
            )
            connection.execute(f"update customers set {sets} where id = %s", (number,))
        elif what == 4:
            connection.execute("update customers set id = %s where id = %s", (to, number))
        elif what in (5, 6):
            connection.execute(documents.format("title = %s"), (str(number), number))
        elif what == 7:
            connection.execute(documents.format("id = %s"), (to, number))
        elif what == 8:
            body = dice.choice([long_text(dice), "short", None])
            connection.execute(documents.format("body = %s"), (body, number))
        elif what == 9:
            sql = "update lines set amount = amount + 1 where order_id = %s and line = %s"
            connection.execute(sql, (order, line))
        elif what == 10:
            sql = "update lines set line = %s where order_id = %s and line = %s"
            connection.execute(sql, (dice.randrange(8), order, line))
        else:
            sql = "delete from lines where order_id = %s and line = %s"
            connection.execute(sql, (order, line))
            sql = "insert into lines values (%s, %s, 0, 'again', 1) on conflict do nothing"
            connection.execute(sql, (order, dice.randrange(8)))

    def work(self, number: int, done: threading.Event) -> int:
        """A client: random transactions, a tenth of them rolled back, until it is enough."""
        dice, committed = random.Random(SEED + number), 0
        refused = (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected)
        with psycopg.connect(self.conninfo) as connection:
            while not done.wait(dice.random() / 4):
                try:
                    for _ in range(dice.randrange(1, 5)):
                        self.change(connection, dice)
                except refused:
                    connection.rollback()
                    continue
                if dice.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    committed += 1
        return committed

    def snapshot(self, *names: str) -> None:
        """Asks for an incremental snapshot."""
        collections = [f"public.{name}" for name in names]
        asked = json.dumps({"data-collections": collections, "type": "incremental"})
        self.signal("execute-snapshot", asked)

    def signal(self, type_: str, data: str) -> None:
        sql = "insert into debezium_signal values (gen_random_uuid()::text, %s, %s)"
        self.write(sql, type_, data)

    def all_is_sent(self) -> None:
        """Waits until the broker has all that was committed, as the slot's position says."""
        end = parse_lsn(self.value("select pg_current_wal_lsn()::text"))

        def confirmed() -> bool:
            self.signal("log", "{}")
            time.sleep(1)
            asked = "select confirmed_flush_lsn::text from pg_replication_slots"
            return parse_lsn(self.value(asked)) >= end

        until(confirmed, "the connector did not confirm what was committed")

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        """The rows of the database, as Spark has them."""
        shown = []
        for name, type_ in table.columns.items():
            quoted = f'"{name}"'
            if type_ == "timestamp":
                quoted = f"(extract(epoch from {quoted}) * 1000000)::bigint"
            elif name in ("uid", "doc", "mood"):
                quoted += "::text"
            shown.append(quoted)
        found = self.connection.execute(f'select {", ".join(shown)} from "{table.name}"')
        return in_order(found.fetchall())

    def changes(self, table: Table) -> dict[str, list[int]]:
        """For each key the numbers that its rows had, in their order."""
        sql = "select key, array_agg(v order by v) from audit.changes where place = %s group by key"
        return dict(self.connection.execute(sql, (table.name,)).fetchall())


def long_text(dice: random.Random) -> str:
    """Text that PostgreSQL stores beside the row, and logs only where it changes."""
    return "".join(dice.choices("abcdefghij", k=6000))


@pytest.fixture
def broker_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kafka"
    folder.mkdir()
    return folder


def test_tables_equal_a_live_postgresql(tmp_path: Path, broker_folder: Path, spark: Any) -> None:
    try:
        programs = server.find_programs()
    except SystemExit as missing:
        pytest.skip(str(missing))
    project, port = tmp_path / "project", free_port()
    sources = [CUSTOMERS, DOCUMENTS, LINES, ODD]
    tables = Tables(spark, project)
    with server.running_server(programs, port) as conninfo, kafka_broker(broker_folder) as broker:
        shop = Shop(conninfo, SEED)
        shop.prepare()
        write_project(project, broker, topics=r"shop\.public\..*")
        add_tables(project, sources)
        config = page_config(
            "Postgres",
            database_hostname="127.0.0.1",
            database_port=str(port),
            database_dbname="postgres",
            incremental_snapshot_chunk_size="7",
            slot_retry_delay_ms="1000",
            heartbeat_interval_ms="1000",
        )
        # It writes down its position so seldom that it repeats much after a kill.
        connector = Connector(
            tmp_path / "connect", broker, config, flush_ms=4000, DEBEZIUM_PASSWORD=PASSWORD
        )
        done = threading.Event()
        with closing(shop.connection), connector, ThreadPoolExecutor(CLIENTS) as pool:
            try:
                open_during_snapshot(shop, connector)
                clients = [pool.submit(shop.work, number, done) for number in range(CLIENTS)]
                if BUILDS > 0:
                    build(project)
                until(connector.remembers, "no position was written")
                for _ in range(KILLS):
                    time.sleep(2)
                    connector.kill()
                    connector.start()
                shop.write("alter table customers add column level int default 1")
                if BUILDS > 1:
                    build(project, "--select", "messages", "drift")
                    assert tables.rows("drift", "*", "where column_name = 'level'")
                columns = CUSTOMERS.columns | {"level": "int"}
                sources[0] = Table("customers", CUSTOMERS.keys, columns, **CUSTOMERS.options)
                declare(project, sources)
                # Rows that have the default have had no event.
                shop.snapshot("customers", "documents")
                if BUILDS > 2:
                    build(project)
                shop.write('truncate "Odd Table", lines')
                shop.write('insert into "Odd Table" values (2, 0, %s)', "after")
                until(lambda: connector.log().count(SNAPSHOT_ENDS) >= 2, "no incremental snapshot")
            finally:
                done.set()
            committed = [client.result() for client in clients]
            assert min(committed) > 20
            shop.all_is_sent()
            connector.stop()
            build(project, "--exclude", "drift")
            nothing_was_quarantined(tables)
            for table in sources:
                assert table.rows(tables) == shop.rows(table), table.name
                found = versions(tables, table)
                if table is DOCUMENTS:
                    # What was open during the snapshot is placed before it, as the page says.
                    assert found["1"][0] > found["1"][1]
                    found["1"][:2] = reversed(found["1"][:2])
                check_versions(found, shop.changes(table))
        assert PASSWORD not in connector.log()
    same = ", ".join(f"get_json_object(value, '$.{field}')" for field in ("op", "source.lsn"))
    counted = f"count(*), count(distinct struct(topic, key, {same}))"
    [(sent, events)] = tables.rows("landed.messages", counted, "where value is not null")
    assert events < sent


def open_during_snapshot(shop: Shop, connector: Connector) -> None:
    """A transaction that was open when the connector read the tables, and commits afterwards."""
    connection = psycopg.connect(shop.conninfo)
    shop.write("select pg_create_logical_replication_slot('debezium', 'pgoutput')")
    connection.execute("update documents set title = 'open' where id = 1")
    # No event has what these rows were before: the tables are read later than this.
    shop.write("delete from audit.changes where place = 'lines' and starts_with(key, '1/')")
    shop.write("update lines set amount = 0 where order_id = 1")
    connector.start()
    until(lambda: "Processing messages" in connector.log(), "no streaming")
    connection.commit()
    connection.close()


def check_versions(found: dict[str, list[int]], made: dict[str, list[int]]) -> None:
    """Each row that the database had is a version, in this order, and there are no others."""
    for key in found.keys() | made.keys():
        # An incremental snapshot repeats what a row is.
        seen = [number for number, _ in groupby(found.get(key, []))]
        assert seen == made.get(key, []), key


# ---- MariaDB

MARIADB = """
create database shop character set utf8mb4;
use shop;
create table items (
  warehouse int, sku varchar(20) collate utf8mb4_bin, v bigint, price decimal(12,2),
  pieces bigint unsigned, sold tinyint(1), at timestamp(6) null, local datetime(6), day date,
  raw varbinary(20), doc json, kind enum('a', 'b'), ratio double, primary key (warehouse, sku)
);
create table notes (id int primary key, v bigint, body text);
"""
ITEMS = Table(
    "items",
    ["warehouse", "sku"],
    {
        **{"warehouse": "int", "sku": "string", "v": "bigint", "price": "decimal(12,2)"},
        **{"pieces": "bigint", "sold": "boolean", "at": "timestamp", "local": "timestamp_ntz"},
        **{"day": "date", "raw": "binary", "doc": "string", "kind": "string", "ratio": "double"},
    },
)
NOTES = Table("notes", ["id"], {"id": "int", "v": "bigint", "body": "string"})


class Store:
    """A MariaDB database that one client changes; it remembers what each row was."""

    def __init__(self, place: dict[str, Any]) -> None:
        self.place = place
        self.connection = pymysql.connect(**place, autocommit=True)
        self.number = 0
        self.made: dict[str, dict[str, list[int]]] = {"items": {}, "notes": {}}

    def run(self, sql: str, *values: Any) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall()

    def next(self, place: str, key: str) -> int:
        self.number += 1
        self.made[place].setdefault(key, []).append(self.number)
        return self.number

    def insert_item(self, dice: random.Random, warehouse: int, sku: str) -> None:
        self.run(
            "insert into items values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            *(warehouse, sku, self.next("items", f"{warehouse}/{sku}")),
            dice.choice(["1234", "-0.01", "9999999999.99", None]),
            dice.choice([0, 2**63 - 1, None]),
            dice.choice([0, 1, None]),
            dice.choice(["2020-02-03 04:05:06.123456", "1970-01-02 00:00:00", None]),
            dice.choice(["2020-03-29 02:30:00.000001", "1000-01-01 00:00:00", None]),
            dice.choice(["2020-02-29", "9999-12-31", None]),
            dice.choice([b"", b"\x00\xff\\", None]),
            dice.choice(['{"ü": [1.50, null]}', "null", None]),
            dice.choice(["a", "b", None]),
            dice.choice([0.1, 1e300, None]),
        )

    def change(self, dice: random.Random) -> None:
        """One random transaction."""
        warehouse, sku = dice.randrange(3), dice.choice(["a", "ä", "", "x/y", "😀"])
        [(there,)] = self.run(
            "select count(*) from items where warehouse = %s and sku = %s", warehouse, sku
        )
        to = dice.randrange(3)
        [(taken,)] = self.run(
            "select count(*) from items where warehouse = %s and sku = %s", to, sku
        )
        what = dice.randrange(4)
        if not there:
            self.insert_item(dice, warehouse, sku)
        elif what == 0:
            self.run("delete from items where warehouse = %s and sku = %s", warehouse, sku)
        elif what == 1 and not taken:
            sql = "update items set warehouse = %s, v = %s where warehouse = %s and sku = %s"
            self.run(sql, to, self.next("items", f"{to}/{sku}"), warehouse, sku)
        else:
            sql = "update items set price = price / 2, v = %s where warehouse = %s and sku = %s"
            self.run(sql, self.next("items", f"{warehouse}/{sku}"), warehouse, sku)
        note = dice.randrange(5)
        self.run(
            "insert into notes values (%s, %s, %s)"
            " on duplicate key update v = values(v), body = null",
            *(note, self.next("notes", str(note)), "text"),
        )

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        shown = {"at": "timestampdiff(microsecond, '1970-01-01', at)", "sold": "sold"}
        names = ", ".join(shown.get(name, f"`{name}`") for name in table.columns)
        sold = list(table.columns).index("sold") if "sold" in table.columns else None
        found = self.run(f"select {names} from {table.name}")
        return in_order(
            [
                tuple(bool(v) if at == sold and v is not None else v for at, v in enumerate(row))
                for row in found
            ]
        )

    def all_is_sent(self, connector: Connector) -> None:
        """Waits until the broker has all that was committed: the position is written down."""
        ((file, end, *_),) = self.run("show master status")

        def reached() -> bool:
            self.run("insert into debezium_signal values (uuid(), 'log', '{}')")
            time.sleep(1)
            written = re.findall(r'"file":"([^"]+)","pos":(\d+)', connector.offsets())
            return any(name == file and int(at) >= end for name, at in written)

        until(reached, f"the connector did not reach {file} {end}: {connector.offsets()[-500:]}")


def test_tables_equal_a_live_mariadb(tmp_path: Path, broker_folder: Path, spark: Any) -> None:
    project, dice = tmp_path / "project", random.Random(SEED)
    tables = Tables(spark, project)
    sources = [ITEMS, NOTES]
    with mariadb(tmp_path / "mariadb") as place, kafka_broker(broker_folder) as broker:
        store = Store(place)
        for statement in MARIADB.split(";\n")[:-1]:
            store.run(statement)
        for statement in mariadb_setup(PASSWORD):
            store.run(statement)
        for _ in range(30):
            store.change(dice)
        # What a snapshot finds is the last version of each row.
        for made in store.made.values():
            made.update({key: numbers[-1:] for key, numbers in made.items()})
        living = {f"{w}/{sku}" for w, sku in store.run("select warehouse, sku from items")}
        store.made["items"] = {k: v for k, v in store.made["items"].items() if k in living}
        write_project(project, broker, topics=r"shop\.shop\..*")
        add_tables(project, sources)
        config = page_config(
            "MariaDb",
            database_hostname="127.0.0.1",
            database_port=str(place["port"]),
            schema_history_internal_kafka_bootstrap_servers=f"127.0.0.1:{broker}",
            incremental_snapshot_chunk_size="3",
        )
        connector = Connector(
            tmp_path / "connect", broker, config, flush_ms=4000, DEBEZIUM_PASSWORD=PASSWORD
        )
        with connector:
            connector.start()
            until(lambda: "Keepalive thread is running" in connector.log(), "no streaming")
            for _ in range(100):
                store.change(dice)
            if BUILDS > 0:
                build(project)
            until(connector.remembers, "no position was written")
            connector.kill()
            for _ in range(100):
                store.change(dice)
            store.run("truncate table notes")
            connector.start()
            store.run("alter table items add column level int default 1")
            later = Table("items", ITEMS.keys, ITEMS.columns | {"level": "int"})
            sources[0] = later
            declare(project, sources)
            asked = json.dumps({"data-collections": ["shop.items"], "type": "incremental"})
            store.run("insert into debezium_signal values (uuid(), 'execute-snapshot', %s)", asked)
            store.next("notes", "99")
            store.run("insert into notes values (99, %s, 'after')", store.number)
            until(lambda: SNAPSHOT_ENDS in connector.log(), "no incremental snapshot")
            store.all_is_sent(connector)
        build(project, "--exclude", "drift")
        nothing_was_quarantined(tables)
        for table in sources:
            assert table.rows(tables) == store.rows(table), table.name
            check_versions(versions(tables, table), store.made[table.name])
        store.connection.close()
        assert PASSWORD not in connector.log()


def mariadb_setup(password: str) -> list[str]:
    """The page's SQL, for the server of the test."""
    sql = next(c.text for c in codes_of(PAGE, ROOT) if c.text.startswith("create user debezium"))
    return sql.replace("'...'", f"'{password}'").split(";\n")[:-1]
