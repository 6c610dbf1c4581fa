"""The commands `cdc capture`."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from dbt_spark_cdc.capture.options import Options, check, parse_table
from dbt_spark_cdc.capture.problems import CaptureProblem
from dbt_spark_cdc.words import counted

_MIB = 1024 * 1024


@click.group()
def capture() -> None:
    """Capture the changes of a live database as files."""


@capture.command()
@click.option("--slot", required=True, help="Name of the replication slot; one slot per folder.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    help="Table to capture: SCHEMA.TABLE or 'SCHEMA.*'. Repeatable.",
)
@click.option(
    "--into",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Landing folder.",
)
@click.option("--dsn", default="", help="Connection string without a password. [default: from PG*]")
@click.option("--snapshot", is_flag=True, help="Begin with the rows that the tables hold.")
@click.option(
    "--create-slot", is_flag=True, help="Create the slot, and begin with the next change."
)
@click.option(
    "--once", is_flag=True, help="Stop when everything committed before the start is captured."
)
@click.option(
    "--insert-only",
    multiple=True,
    help="Table without a key that only gets inserts. Repeatable.",
)
@click.option(
    "--folder-name",
    default="{table}",
    show_default=True,
    help="Folder of each table; {schema} and {table} stand for its names.",
)
@click.option("--gzip", "compressed", is_flag=True, help="Compress the files.")
@click.option(
    "--flush-every",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Seconds that a file stays open for further changes.",
)
@click.option(
    "--file-size",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Size in MiB at which a file is completed, before compression.",
)
@click.option(
    "--status-every",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    help="Seconds between reports, and between confirmed positions when idle.",
)
@click.option(
    "--retry-for",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds to retry when the server is down or the disk is full; then exit code 1.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each report.")
def postgres(
    slot: str,
    tables: tuple[str, ...],
    into: Path,
    dsn: str,
    snapshot: bool,
    create_slot: bool,
    once: bool,
    insert_only: tuple[str, ...],
    folder_name: str,
    compressed: bool,
    flush_every: float,
    file_size: int,
    status_every: float,
    retry_for: float,
    as_json: bool,
) -> None:
    """Capture the changes of a PostgreSQL database.

    The command reads a logical replication slot of wal2json and writes the files that the landing
    model loads, each change exactly once. It confirms the slot's position when the files are on
    disk, so a killed process resumes where it stopped. Exit codes: 0 stopped, or --once is done, 1
    gave up retrying, 2 something has to be changed first, 3 the slot cannot give the next changes.
    """
    problems = check(slot, tables, insert_only, folder_name, snapshot, create_slot)
    if problems:
        _refuse("\n  - ".join([f"{counted(len(problems), 'problem')}.", *problems]), 2)
    options = Options(
        dsn=dsn,
        slot=slot,
        tables=tuple(dict.fromkeys(filter(None, map(parse_table, tables)))),
        into=into,
        folder_name=folder_name,
        insert_only=tuple(filter(None, map(parse_table, insert_only))),
        snapshot=snapshot,
        create_slot=create_slot,
        compressed=compressed,
        once=once,
        flush_seconds=flush_every,
        file_bytes=file_size * _MIB,
        status_seconds=status_every,
        retry_seconds=retry_for,
    )
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        from dbt_spark_cdc.capture.postgres import Capture
        from dbt_spark_cdc.capture.server import environment

        # A wait of no length only asks.
        with _reports(as_json) as report:
            Capture(options, _tell, report, stopped.wait, environment()).run()
    except CaptureProblem as exc:
        _refuse(str(exc), exc.code)


def status_line(status: dict[str, Any]) -> str:
    """Returns the numbers of a report as one line for people.

    Args:
        status: The numbers, as `--json` prints them.
    """
    lag = status["lag_seconds"]
    parts = [
        f"{status['changes']:,} changes in {status['batches']:,} batches",
        f"at {status['position']}",
        "up to date" if not status["lag_bytes"] else f"{_size(status['lag_bytes'])} of log to read",
    ]
    if lag is not None:
        parts.append(f"{lag:.1f} s from commit to file")
    if status["retained_bytes"] is not None:
        parts.append(f"the server keeps {_size(status['retained_bytes'])} ({status['wal_status']})")
    if status["unidentified"]:
        parts.append(f"{status['unidentified']:,} changes without a key are lost")
    return ", ".join(parts)


def _reports(
    as_json: bool,
) -> AbstractContextManager[Callable[[dict[str, Any]], None]]:
    """What shows the numbers: one line that stays on a terminal, else a line each."""
    if as_json:
        return nullcontext(lambda status: click.echo(json.dumps(status)))
    if not sys.stdout.isatty():
        return nullcontext(lambda status: click.echo(f"{_now()} {status_line(status)}"))
    return _Live()


class _Live:
    """A line on a terminal that is replaced by the next."""

    def __enter__(self) -> Callable[[dict[str, Any]], None]:
        from rich.console import Console
        from rich.status import Status

        self.line = Status("The capture begins.", console=Console(highlight=False))
        self.line.start()
        return lambda status: self.line.update(f"{_now()} {status_line(status)}")

    def __exit__(self, *_: object) -> None:
        self.line.stop()


def _tell(text: str) -> None:
    click.echo(f"{_now()} {text}", err=True)


def _now() -> str:
    return f"{datetime.now(timezone.utc):%H:%M:%S}"


def _size(count: int) -> str:
    return f"{count / _MIB:,.1f} MiB" if count >= _MIB / 10 else f"{count / 1024:,.1f} KiB"


def _refuse(text: str, code: int) -> None:
    click.echo(f"cdc: {text}", err=True)
    sys.exit(code)
