"""Runs a seeded workload on a PostgreSQL of its own and writes what its logical slot gives."""

import argparse
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

try:
    import psycopg
except ImportError:
    sys.exit("The capture needs psycopg: pip install 'psycopg[binary]'")

from capture import server, slot, workload
from capture.clients import run

README = """# Captured change files

Row changes of a small order system, as PostgreSQL {postgres} logged them and wal2json (format
version 2) printed them, with the rows that the database held at the end. {clients} clients worked
at once; seed {seed}.

- `<table>/batch_0001.jsonl.gz` and on: one change a line, as wal2json wrote it, in the order of the
  slot. Batches are cut between transactions, at the same point of the log for all tables.
- `truth/<table>.jsonl.gz`: the final rows, one JSON object a line: every value as PostgreSQL's own
  text (time zone UTC, `bytea` as hexadecimal digits), null for NULL, in the order of the key.
- `capture.json`: seed, versions, plugin options, counts per table, batch and operation.

| table | insert | update | delete | truncate | batches | rows at the end |
|---|---:|---:|---:|---:|---:|---:|
{table}

The tables are declared in `capture/schema.sql`, what is done to them in `capture/workload.py`.

## The order of the changes

The slot gives whole transactions in the order of their commits. `lsn` is where the change itself
was written, and transactions write side by side. Within one transaction `lsn` is the order; between
two it is not, not even for one key: an insert writes its row first, and then waits at the unique
index until the transaction that deletes the old row has committed. The insert comes after the
delete, and its `lsn` may come before. `timestamp` is the time of the commit, and who waits for
another commits later: `(timestamp, lsn)` is the order of the changes of a key, and of a truncate
among them. Rows of one COPY share an `lsn`.

## Make it again

With Debian's postgresql-15 and postgresql-15-wal2json:

    python -m capture --seed {seed} --events {events} --batches {batches} --out data

The seed decides every operation and value. Log positions, transaction numbers, commit times and the
order in which the clients come differ from run to run, and with them the final rows: the files
belong together.
"""


def main() -> None:
    """Read the command line and make the capture."""
    parser = argparse.ArgumentParser(prog="python -m capture", description=__doc__)
    parser.add_argument("--seed", type=int, default=20261121, help="decides the whole workload")
    parser.add_argument("--events", type=int, default=24000, help="row changes to make, about")
    parser.add_argument("--batches", type=int, default=4, help="files to cut per table")
    parser.add_argument("--clients", type=int, default=8, help="connections at work at once")
    parser.add_argument("--out", type=Path, default=Path("data"), help="directory to write")
    arguments = parser.parse_args()
    for name in ("events", "batches", "clients"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be 1 or more")
    # Turned into an exit, a polite kill stops the server as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    report = capture(**vars(arguments))
    (arguments.out / "capture.json").write_text(json.dumps(report, indent=2) + "\n")
    (arguments.out / "README.md").write_text(
        README.format(table="\n".join(_row(*entry) for entry in report["tables"].items()), **report)
    )
    done = ", ".join(f"{count} {outcome}" for outcome, count in report["transactions"].items())
    total = sum(_actions(entry).total() for entry in report["tables"].values())
    tables = len(report["tables"])
    print(f"{total} events of {tables} tables in {arguments.out} (transactions: {done})")


def capture(seed: int, events: int, batches: int, clients: int, out: Path) -> dict[str, Any]:
    """Run the workload on a new server and write its change files and final rows.

    Args:
        seed: Decides the workload.
        events: How many row changes to make, about.
        batches: How many files to cut per table.
        clients: How many connections work at once.
        out: The directory to write.

    Returns:
        What was made: the arguments, versions, and counts per table, batch and action.
    """
    opening, days = workload.plan(seed, events)
    programs = server.find_programs()
    with server.running_server(programs) as conninfo, psycopg.connect(conninfo) as connection:
        connection.autocommit = True
        connection.execute((Path(__file__).parent / "schema.sql").read_text())
        slot.create_slot(connection)
        outcomes = run(conninfo, opening, 1) + run(conninfo, days, clients)
        written = slot.write_batches(slot.cut(slot.read_transactions(connection), batches), out)
        rows = slot.write_truth(connection, out / "truth")
        postgres = connection.info.parameter_status("server_version") or "?"
    return {
        "seed": seed,
        "events": events,
        "batches": batches,
        "clients": clients,
        "postgres": postgres.split()[0],
        "wal2json": server.plugin_version(programs),
        "options": slot.OPTIONS,
        "transactions": dict(sorted(outcomes.items())),
        "tables": {
            table: {"rows": count, "batches": written.get(table, {})}
            for table, count in rows.items()
        },
    }


def _actions(entry: dict[str, Any]) -> Counter[str]:
    return sum(entry["batches"].values(), Counter[str]())


def _row(table: str, entry: dict[str, Any]) -> str:
    actions = _actions(entry)
    cells = [table, *(actions[action] for action in "IUDT"), len(entry["batches"]), entry["rows"]]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
