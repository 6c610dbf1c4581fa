"""Tables that start from an export of a live PostgreSQL, and go on from its changes."""

from __future__ import annotations

import re
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from capture import slot, workload
from capture.clients import run
from dbt_spark_cdc.capture import snapshot
from dbt_spark_cdc.capture.lsn import parse_lsn
from tests.e2e import test_capture
from tests.e2e.conftest import ROOT
from tests.e2e.servers import dbt
from tests.e2e.test_capture import CLIENTS, Database, killed, until
from tests.e2e.test_postgres import KEYS, PROJECT

database = test_capture.database  # the fixture

EVENTS = 4000
PART = 20  # transactions that the clients get at a time, while tables are exported
# Rows of a table without a key have no identity: only the exact position tells which are covered.
TABLES = [
    *("addresses", "carts", "customers", "order_lines", "orders", "payments", "products", "stock"),
]
# Exported without a replication slot, at the position of the page's query.
WITHOUT_SLOT = ["carts", "orders", "stock"]


def exported(connection: psycopg.Connection, tables: list[str], folder: Path) -> None:
    """Writes tables to CSV files, as the transaction of the connection sees them."""
    for table in tables:
        (folder / table).mkdir(parents=True)
        query = sql.SQL("copy {} to stdout (format csv, header)").format(
            sql.Identifier("shop", table)
        )
        with (
            connection.cursor() as cursor,
            cursor.copy(query) as copy,
            (folder / table / "part-0.csv").open("wb") as file,
        ):
            for data in copy:
                file.write(data)


def export_by_slot(database: Database, tables: list[str], folder: Path) -> list[Any]:
    """Exports at the snapshot of a replication slot, which is dropped afterwards."""
    at = snapshot.time_before(database.connection)
    with (
        psycopg.connect(f"{database.conninfo} replication=database", autocommit=True) as slots,
        psycopg.connect(database.conninfo, autocommit=True) as reader,
    ):
        made = slots.pgconn.exec_(
            b"CREATE_REPLICATION_SLOT exporter TEMPORARY LOGICAL wal2json EXPORT_SNAPSHOT"
        )
        position, name = (made.get_value(0, column) for column in (1, 2))
        assert position and name, made.error_message
        reader.execute("set timezone = 'UTC'")
        snapshot.begin(reader, name.decode())
        exported(reader, tables, folder)
    return [f"timestamp '{at}'", parse_lsn(position.decode())]


def export_by_query(database: Database, tables: list[str], folder: Path) -> list[Any]:
    """Exports in a transaction, at the position that the query of docs/bootstrap.md gives."""
    page = (ROOT / "docs" / "bootstrap.md").read_text()
    query = page.split("```sql\n", 1)[1].split("```", 1)[0]
    assert "pg_stat_activity" in query
    with psycopg.connect(database.conninfo, autocommit=True) as reader:
        reader.execute("set timezone = 'UTC'")
        row = reader.execute(query).fetchone()
        assert row
        reader.execute("begin isolation level repeatable read read only")
        exported(reader, tables, folder)
    return [f"timestamp '{row[0].isoformat(' ')}'", 0]


def declare(project: Path, positions: dict[str, list[Any]], since: str) -> None:
    """Adds the snapshots to the declarations of the reference project.

    Args:
        project: The project.
        positions: Of each table's snapshot.
        since: The time from which on the stream is complete.
    """
    path = project / "models" / "sources" / "shop.yml"
    text = path.read_text()
    for table in TABLES:
        files = "{format: csv, path: \"{{ env_var('CDC_EXPORTS') }}/" + table + '"}'
        time, number = positions[table]
        receipt = ", columns: {receipt: 'unhex(substr(receipt, 3))'}"
        columns = receipt if table == "payments" else ""
        start = f'{{from: {files}, position: ["{time}", {number}], time: "{time}"{columns}, '
        start += f"stream_from: [\"timestamp '{since}'\", 0]}}"
        text, found = re.subn(
            rf"(- name: {table}\n.*\n.*\n *config: {{meta: {{cdc: {{keys: \[.*?\])",
            rf"\g<1>, bootstrap: {start}",
            text,
        )
        assert found == 1, table
    path.write_text(text)


def test_exported_tables_go_on_from_the_stream(
    database: Database, tmp_path: Path, spark: Any
) -> None:
    project, exports, truth = (tmp_path / name for name in ("project", "exports", "truth"))
    for name in PROJECT:
        target = project / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target)
        else:
            shutil.copyfile(ROOT / name, target)
    variables = f"{{cdc_landing: {database.into}, cdc_truth: {truth}}}"

    def command(*arguments: str) -> str:
        return dbt(
            project,
            *(*arguments, "--vars", variables),
            CDC_REFERENCE_PROJECT="1",
            CDC_WAREHOUSE=str(project / "wh"),
            CDC_EXPORTS=str(exports),
        )

    def build(*arguments: str) -> None:
        # The database's own rows, which the last build compares with, do not come from the landing.
        selected = ("--select", "landing+", "path:models/audit/truth")
        command("build", *selected, "--exclude", "path:models/marts", *arguments)

    # The changes begin before the export, and most of what it holds comes from before them.
    opening, days = workload.plan(seed=11, events=EVENTS)
    run(database.conninfo, opening + days[: len(days) // 3], 1)
    database.connection.execute("truncate shop.events")
    rest = days[len(days) // 3 :]
    since = snapshot.time_before(database.connection)
    database.capture("--create-slot")
    process = database.start()
    is_exported = threading.Event()

    def work(transactions: list[workload.Transaction]) -> None:
        for start in range(0, len(transactions), PART):
            run(database.conninfo, transactions[start : start + PART], CLIENTS)
            is_exported.wait(0.5)

    with ThreadPoolExecutor(1) as pool:
        clients = pool.submit(work, rest[: len(rest) * 2 // 3])
        until(lambda: list(database.into.glob("customers/*.jsonl")))
        with_slot = [table for table in TABLES if table not in WITHOUT_SLOT]
        by_slot = export_by_slot(database, with_slot, exports)
        by_query = export_by_query(database, WITHOUT_SLOT, exports)
        assert not clients.done()  # changes went on
        is_exported.set()
        declare(project, {t: by_query if t in WITHOUT_SLOT else by_slot for t in TABLES}, since)
        clients.result()
    command("run", "--select", "landing")
    said = command("run-operation", "cdc_bootstrap")
    assert said.count(" starts from ") == len(TABLES), said
    build("tag:final")
    run(database.conninfo, rest[len(rest) * 2 // 3 :], CLIENTS)
    killed(process, signal.SIGTERM)
    database.capture()
    slot.write_truth(database.connection, truth)
    build()  # cdc.matches_source of every table is among its tests

    # The same without our tests: the keys that live, read from both sides.
    for table, keys in KEYS.items():
        columns = ", ".join(keys)
        path = project / "wh" / "shop.db"
        found = spark.sql(f"select {columns} from delta.`{path / table}`").collect()
        rows = database.connection.execute(f"select {columns} from shop.{table}").fetchall()
        assert sorted(map(str, map(tuple, found))) == sorted(map(str, rows)), table
        assert len(rows) > 0
        copy = spark.sql(f"select 1 from delta.`{path / f'cdc_bootstrap__shop_{table}'}`").count()
        assert copy > 1
    # Stream and export overlap.
    times = [str(event["timestamp"]) for t in with_slot for event in database.events(t)]
    at = by_slot[0].split("'")[1]
    assert len([time for time in times if time <= at]) > 10
    assert len([time for time in times if time > at]) > 100
