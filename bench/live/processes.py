"""The processes of a live measurement: the server, the capture, and whatever builds the tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psycopg

from bench.live import load
from bench.live.load import SCHEMA, Phase
from bench.session import ROOT
from capture import server

STOP_SECONDS = 120
SECONDS_BETWEEN_LOOKS = 0.5
LOG_CHARACTERS = 1000


class NoServer(Exception):
    """There is no PostgreSQL whose changes could be read; the message says what is missing."""


class Child:
    """A process of this Python that runs beside the bench."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """Starts it.

        Args:
            arguments: Of Python.
            log: Gets what it prints.
        """
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                env=os.environ | {"PYTHONPATH": paths},
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def check(self) -> None:
        """Raises RuntimeError where it has ended with an error."""
        if self.process.poll() not in (None, 0):
            text = self.log.read_text(encoding="utf-8", errors="replace").strip()
            name = self.log.stem
            raise RuntimeError(
                f"{name} ended with {self.process.returncode}: {text[-LOG_CHARACTERS:]}"
            )

    def wait(self) -> None:
        """Waits for its end; raises RuntimeError where that was an error."""
        self.process.wait()
        self.check()

    def stop(self) -> None:
        """Asks it to end, and ends it where it does not."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def running(arguments: Sequence[str], log: Path) -> Iterator[Child]:
    """Runs a process as long as the block lasts.

    Args:
        arguments: Of Python.
        log: Gets what it prints.
    """
    child = Child(arguments, log)
    try:
        yield child
    finally:
        child.stop()


def until(condition: Callable[[], bool], seconds: float, children: Sequence[Child] = ()) -> bool:
    """Waits for a condition; returns whether it came true in time.

    Args:
        condition: What is waited for.
        seconds: How long at most.
        children: Processes without which it would never come true.

    Raises:
        RuntimeError: One of them has ended with an error.
    """
    end = time.monotonic() + seconds
    while not condition():
        for child in children:
            child.check()
        if time.monotonic() > end:
            return False
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return True


class Database:
    """A PostgreSQL of its own with the tables of the load."""

    def __init__(self, conninfo: str, tables: int) -> None:
        self.conninfo, self.tables = conninfo, tables
        host = psycopg.conninfo.conninfo_to_dict(conninfo)["host"]
        self._dsn = f"host={host} user=postgres dbname=postgres"

    def commit(self, phase: Phase, folder: Path, beside: Sequence[Child]) -> np.ndarray:
        """Commits a phase at its rate, in a process of its own.

        Args:
            phase: What to commit.
            folder: For the files of that process.
            beside: Processes that have to run meanwhile.

        Returns:
            When each transaction was sent to the server.
        """
        times = folder / "times.npy"
        numbers = ",".join(str(number) for number in vars(phase).values())
        arguments = ["--dsn", self.conninfo, "--phase", numbers, "--times", str(times)]
        with running(["-m", "bench.live.load", *arguments], folder / "load.log") as child:
            child.wait()
        for other in beside:
            other.check()
        return np.load(times)

    def capture(self, into: Path, *options: str) -> list[str]:
        """Returns Python's arguments for `cdc capture postgres`.

        Args:
            into: The landing folder.
            options: Further options of the command.
        """
        return [
            *("-m", "dbt_spark_cdc.cli", "capture", "postgres", "--slot", SCHEMA),
            *("--dsn", self._dsn, "--table", f"{SCHEMA}.*", "--into", str(into), *options),
        ]

    def rows(self, table: int) -> set[tuple[object, ...]]:
        """Returns the rows of a table: everything but the time of the change."""
        with psycopg.connect(self.conninfo) as connection:
            query = f"select {', '.join(COMPARED)} from {SCHEMA}.{load.table_name(table)}"
            return set(connection.execute(query.encode()).fetchall())


# A database has times as its clients want them to be.
COMPARED = ("id", "name", "city", "amount", "version")


@contextmanager
def database(phase: Phase) -> Iterator[Database]:
    """Runs a PostgreSQL with the tables of the load as long as the block lasts.

    Args:
        phase: The last phase that is going to be committed.

    Raises:
        NoServer: There is no PostgreSQL with wal2json, or it cannot be started.
    """
    try:
        programs = server.find_programs()
    except SystemExit as exc:
        raise NoServer(str(exc)) from exc
    with server.running_server(programs) as conninfo:
        load.create_tables(conninfo, phase)
        yield Database(conninfo, phase.tables)
