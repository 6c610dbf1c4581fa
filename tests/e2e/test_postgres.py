"""A live PostgreSQL: its changes flow while builds run, and in the end the tables are its own."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture import server, slot, workload
from capture.clients import run
from tests.e2e.conftest import ROOT
from tests.e2e.servers import dbt

EVENTS = 6000
CLIENTS = 4
BUILDS = 3  # at least, while clients work
PART = 40  # transactions that the clients get at a time
SECONDS_BETWEEN = 4.0

# What the reference project is made of.
PROJECT = (
    *("dbt_project.yml", "profiles.yml", "selectors.yml", "macros", "models", "python_models"),
    *("seeds", "snapshots", "tests/generic", "tests/macros", "tests/singular"),
)
KEYS = {
    "addresses": ("customer_id", "kind"),
    "carts": ("cart_id",),
    "customers": ("customer_id",),
    "orders": ("order_id",),
}


class Shop:
    """The order system of capture/, at work, and the reader of its slot."""

    def __init__(self, conninfo: str, connection: psycopg.Connection, landing: Path) -> None:
        self.conninfo, self.connection, self.landing = conninfo, connection, landing
        self.files = count(1)
        self.open = threading.Event()
        self.open.set()

    def drain(self) -> int:
        """Puts what the slot holds into the landing folder; returns the number of changes."""
        changes = [change for part in slot.read_transactions(self.connection) for change in part]
        name = f"batch_{next(self.files):04}.jsonl.gz"
        for table in {change.table for change in changes}:
            # Spark passes over names that begin with an underscore; a rename is all or nothing.
            partial = self.landing / table / f"_{name}"
            slot.write_lines(partial, [c.line for c in changes if c.table == table])
            partial.rename(self.landing / table / name)
        return len(changes)

    def work(self, transactions: list[workload.Transaction]) -> None:
        """Clients work until all is done, one part after the other, never faster than builds."""
        pause = threading.Event()
        for start in range(0, len(transactions), PART):
            run(self.conninfo, transactions[start : start + PART], CLIENTS)
            if self.open.is_set():
                pause.wait(SECONDS_BETWEEN)

    def read(self, done: threading.Event) -> int:
        total = 0
        while not done.wait(SECONDS_BETWEEN / 2):
            total += self.drain()
        return total


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    try:
        programs = server.find_programs()
    except SystemExit as missing:
        pytest.skip(str(missing))
    landing = tmp_path / "landing"
    with server.running_server(programs) as conninfo, psycopg.connect(conninfo) as connection:
        connection.autocommit = True
        connection.execute((ROOT / "capture" / "schema.sql").read_text())
        slot.create_slot(connection)
        yield Shop(conninfo, connection, landing)


def test_tables_equal_a_live_database(shop: Shop, tmp_path: Path, spark: Any) -> None:
    project = tmp_path / "project"
    for name in PROJECT:
        target = project / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target)
        else:
            shutil.copyfile(ROOT / name, target)
    truth = tmp_path / "truth"
    variables = f"{{cdc_landing: {shop.landing}, cdc_truth: {truth}}}"

    def build(*arguments: str) -> None:
        dbt(
            project,
            *("build", "--vars", variables, "--exclude-resource-type", "unit_test", *arguments),
            CDC_REFERENCE_PROJECT="1",
            CDC_WAREHOUSE=str(project / "wh"),
        )

    opening, days = workload.plan(seed=7, events=EVENTS)
    run(shop.conninfo, opening, 1)
    shop.drain()
    done = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        clients = pool.submit(shop.work, days)
        reader = pool.submit(shop.read, done)
        try:
            builds = 0
            while builds < BUILDS or not clients.done():
                build("--exclude", "tag:final")
                builds += 1
                if builds == BUILDS:
                    shop.open.clear()  # enough: the rest without pauses
        finally:
            shop.open.clear()
            done.set()
        clients.result()
        flowed = reader.result()
    assert flowed > EVENTS / 4  # most came while builds ran
    shop.drain()
    slot.write_truth(shop.connection, truth)
    build()  # cdc.matches_source of every table is among its tests

    # The same without our tests: the keys that live, read from both sides.
    for table, keys in KEYS.items():
        columns = ", ".join(keys)
        path = project / "wh" / "shop.db" / table
        found = spark.sql(f"select {columns} from delta.`{path}`").collect()
        rows = shop.connection.execute(f"select {columns} from shop.{table}").fetchall()
        assert sorted(map(str, map(tuple, found))) == sorted(map(str, rows)), table
