"""`cdc init` on a live PostgreSQL: a project of its tables, which builds from its changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture import server, slot
from dbt_spark_cdc.observe.delta_table import read_table
from tests.e2e.servers import dbt

CDC = (sys.executable, "-m", "dbt_spark_cdc.cli")
SCHEMA = """
create schema shop;
create type shop.state as enum ('new', 'paid');
create domain shop.amount as numeric(12,2) check (value >= 0);
create domain shop.price as shop.amount not null;
create domain shop.flag as boolean;
create domain shop.free as numeric;
create table shop.orders (
    id bigint,
    state shop.state,
    total shop.price,
    urgent shop.flag,
    weight shop.free,
    placed timestamptz,
    local timestamp(3),
    day date,
    "Remark of them" text,
    doc jsonb,
    ref uuid,
    tags text[],
    raw bytea,
    half numeric(13,2) generated always as (total / 2) stored,
    gone int,
    primary key (id) include (day)
);
alter table shop.orders drop column gone;
create table shop.lines (order_id bigint, line int, price real, primary key (line, order_id));
create table shop.log (happened timestamptz, line text);
create table shop.parts (id int primary key, x int) partition by range (id);
create table shop.parts_1 partition of shop.parts for values from (1) to (10);
create table shop."Part's" partition of shop.parts
    for values from (10) to (99) partition by range (id);
create table shop.parts_2 partition of shop."Part's" default;
create view shop.open_orders as select * from shop.orders;
create materialized view shop.totals as select sum(total) as total from shop.orders;
create role reader login;
"""
CHANGES = """
insert into shop.orders values
    (1, 'new', 3.50, true, 1.25, '2026-01-05 08:00Z', '2026-01-05 08:00:00.125', '2026-01-05',
     'Ann', '{"a": 1}', '00000000-0000-0000-0000-000000000001', '{a,b}', '\\xdead'),
    (2, 'new', 1, false, 0.5, null, null, null, null, null, null, null, null);
insert into shop.lines values (1, 1, 1.5), (1, 2, 2.5), (2, 1, 0.5);
insert into shop.log values ('2026-01-05 08:00Z', 'started'), ('2026-01-05 08:00Z', 'started');
update shop.orders set state = 'paid', urgent = null, day = '2026-01-06' where id = 1;
update shop.lines set line = 7 where order_id = 2;
delete from shop.lines where line = 2;
delete from shop.orders where id = 2;
insert into shop.parts values (1, 1), (2, 2), (3, 3);
update shop.parts set id = 10, x = 4 where id = 2;
delete from shop.parts where id = 3;
"""
TABLES = {
    "lines": (["line", "order_id"], {"order_id": "bigint", "line": "int", "price": "float"}),
    "log": ([], {"happened": "timestamp", "line": "string"}),
    "orders": (
        ["id"],
        {
            "id": "bigint",
            "state": "string",
            "total": "decimal(12,2)",
            "urgent": "boolean",
            "weight": "decimal(38,10)",
            "placed": "timestamp",
            "local": "timestamp_ntz",
            "day": "date",
            "doc": "string",
            "ref": "string",
            "tags": "string",
            "raw": "binary",
            "half": "decimal(13,2)",
        },
    ),
    "parts": (["id"], {"id": "int", "x": "int"}),
}


@dataclass
class Database:
    """A server, where it is, and its programs."""

    connection: psycopg.Connection
    environment: dict[str, str]
    programs: Path


@pytest.fixture
def database() -> Iterator[Database]:
    try:
        programs = server.find_programs()
    except SystemExit as missing:
        pytest.skip(str(missing))
    with server.running_server(programs) as conninfo, psycopg.connect(conninfo) as connection:
        connection.autocommit = True
        connection.execute(SCHEMA)
        slot.create_slot(connection)
        place = psycopg.conninfo.conninfo_to_dict(conninfo)
        variables = {"PGHOST": str(place["host"]), "PGDATABASE": "postgres"}
        yield Database(connection, variables, programs)


def init(folder: Path, *arguments: str, **environment: str) -> list[dict[str, Any]]:
    """The tables of a project that was written to `shop`."""
    asked = ("--format", "wal2json_v2", "--key", "log=none", "--json")
    ran = subprocess.run(
        [*CDC, "init", "shop", *arguments, *asked],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return sorted(json.loads(ran.stdout)["tables"], key=lambda table: table["table"])


def plain(row: Iterable[Any]) -> list[str]:
    """A row as text: times in UTC without saying so, as Parquet has them; numbers without zeros."""
    return [
        str(value.astimezone(timezone.utc).replace(tzinfo=None))
        if isinstance(value, datetime) and value.tzinfo
        else str(value.normalize() if isinstance(value, Decimal) else value)
        for value in row
    ]


def test_a_live_database_becomes_a_project_that_builds(database: Database, tmp_path: Path) -> None:
    # A user who may read nothing sees the tables and their keys all the same.
    tables = init(tmp_path, "--postgres", PGUSER="reader", **database.environment)
    found = {one["table"]: (one["declaration"]["keys"], one["columns"]) for one in tables}
    assert found == TABLES
    notes = [note for one in tables for note in one["notes"]]
    assert any(note.startswith("Remark of them is left out") for note in notes), notes

    assert any("the partition (shop.parts_1, shop.parts_2), not shop.parts" in n for n in notes), (
        notes
    )

    # Its schema dump says the same.
    dump = [str(database.programs / "pg_dump"), "--schema-only", "--file", str(tmp_path / "s.sql")]
    subprocess.run(dump, env=os.environ | database.environment | {"PGUSER": "postgres"}, check=True)
    (tmp_path / "dump").mkdir()
    assert init(tmp_path / "dump", "--ddl", "../s.sql") == tables

    project, connection = tmp_path / "shop", database.connection
    connection.execute(CHANGES)
    changes = [change for part in slot.read_transactions(connection) for change in part]
    for table in {change.table for change in changes}:
        lines = [change.line for change in changes if change.table == table]
        slot.write_lines(project / "landing" / table / "1.jsonl.gz", lines)
    dbt(project, "deps")
    dbt(project, "build")
    for table, (_, columns) in TABLES.items():
        stored = read_table(project / "warehouse" / "shop.db" / table)
        assert stored is not None
        rows = stored.read(list(columns)).to_pylist()
        shown = ", ".join(
            f"{name}::text" if columns[name] == "string" else name for name in columns
        )
        expected = connection.execute(f"select {shown} from shop.{table}").fetchall()
        assert sorted(map(plain, (row.values() for row in rows))) == sorted(map(plain, expected))
