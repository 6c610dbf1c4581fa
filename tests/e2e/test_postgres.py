"""A live PostgreSQL: its changes are captured while builds run, and the tables become its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
        host = psycopg.conninfo.conninfo_to_dict(conninfo)["host"]
        self.command = [
            *(sys.executable, "-m", "dbt_spark_cdc.cli", "capture", "postgres", "--slot", "shop"),
            *("--dsn", f"host={host} user=postgres dbname=postgres", "--into", str(landing)),
            *("--table", "shop.*", "--insert-only", "shop.events", "--snapshot", "--gzip"),
        ]
        self.open = threading.Event()
        self.open.set()

    def drain(self) -> None:
        """Puts what is committed by now into the landing folder."""
        subprocess.run([*self.command, "--once"], check=True, stdout=subprocess.DEVNULL)

    def work(self, transactions: list[workload.Transaction]) -> None:
        """Clients work until all is done, one part after the other, never faster than builds."""
        pause = threading.Event()
        for start in range(0, len(transactions), PART):
            run(self.conninfo, transactions[start : start + PART], CLIENTS)
            if self.open.is_set():
                pause.wait(SECONDS_BETWEEN)

    def read(self, done: threading.Event) -> int:
        """Runs the reader, and kills it again and again; returns how often."""
        kills = 0
        while not done.is_set():
            reader = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
            done.wait(SECONDS_BETWEEN * 3)
            assert reader.poll() is None
            reader.kill()
            reader.wait()
            kills += 1
        return kills


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
        assert reader.result() > BUILDS
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
