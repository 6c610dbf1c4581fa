"""Reads the logical slot and the final rows, and writes both as files."""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

SLOT = "capture"

OPTIONS = {
    "format-version": "2",
    "include-lsn": "true",
    "include-timestamp": "true",
    "include-xids": "true",
    "include-types": "true",
    "include-pk": "true",
    "add-tables": "shop.*",
}


# Per table and batch, how many changes of each action.
Counts = dict[str, dict[str, Counter[str]]]


@dataclass(frozen=True)
class Change:
    """One line of the slot that changes a table."""

    table: str
    action: str
    line: str


def create_slot(connection: psycopg.Connection) -> None:
    """Create the slot: what is committed from here on is kept for it."""
    query = "SELECT pg_create_logical_replication_slot(%s, 'wal2json')"
    connection.execute(query, (SLOT,))


def read_transactions(connection: psycopg.Connection) -> list[list[Change]]:
    """Read the committed transactions that the slot holds, in commit order."""
    options = [text for option in OPTIONS.items() for text in option]
    query = f"SELECT data FROM pg_logical_slot_get_changes(%s, NULL, NULL{', %s' * len(options)})"
    transactions: list[list[Change]] = []
    for (line,) in connection.execute(query, (SLOT, *options)):
        record = json.loads(line)
        if record["action"] == "B":
            transactions.append([])
        elif record["action"] in "IUDT":
            transactions[-1].append(Change(record["table"], record["action"], line))
    return transactions


def cut(transactions: Sequence[Sequence[Change]], batches: int) -> list[list[Change]]:
    """Cut transactions into batches of about equal size, never inside a transaction.

    Args:
        transactions: Changes in commit order.
        batches: How many parts to make.

    Returns:
        The changes of each batch, in the same order.
    """
    total = sum(map(len, transactions))
    parts: list[list[Change]] = [[] for _ in range(batches)]
    done = 0
    for transaction in transactions:
        parts[min(done * batches // total, batches - 1)].extend(transaction)
        done += len(transaction)
    return parts


def write_batches(batches: Sequence[Sequence[Change]], out: Path) -> Counts:
    """Write a file per table and batch, in place of those of an earlier capture.

    Args:
        batches: The changes of each batch.
        out: The directory that gets one directory per table.

    Returns:
        Per table and batch, how many changes of each action were written.
    """
    for old in out.glob("*/batch_*.jsonl.gz"):
        old.unlink()
    counts: Counts = {}
    for number, batch in enumerate(batches, start=1):
        name = f"batch_{number:04}"
        for table in sorted({change.table for change in batch}):
            changes = [change for change in batch if change.table == table]
            write_lines(out / table / f"{name}.jsonl.gz", (change.line for change in changes))
            actions = Counter(change.action for change in changes)
            counts.setdefault(table, {})[name] = Counter({a: actions[a] for a in sorted(actions)})
    return dict(sorted(counts.items()))


def write_truth(connection: psycopg.Connection, out: Path) -> dict[str, int]:
    """Write the rows that the database holds now, every value as PostgreSQL's own text.

    A bytea is written as hexadecimal digits alone, which is how wal2json prints it.

    Args:
        connection: A connection whose time zone is UTC.
        out: The directory that gets one file per table.

    Returns:
        Per table, how many rows it has.
    """
    catalog = """
        SELECT c.relname,
               array_agg(a.attname::text ORDER BY a.attnum),
               array_agg(format_type(a.atttypid, NULL) ORDER BY a.attnum),
               coalesce((SELECT i.indkey::int2[]::int[] FROM pg_index i
                         WHERE i.indrelid = c.oid AND i.indisprimary), '{}')
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = 'shop'::regnamespace AND c.relkind = 'r' AND NOT a.attisdropped
        GROUP BY c.oid, c.relname ORDER BY c.relname"""
    counts = {}
    for table, columns, types, key in connection.execute(catalog).fetchall():
        texts = sql.SQL(", ").join(
            sql.SQL("encode({}, 'hex')" if kind == "bytea" else "{}::text").format(
                sql.Identifier(column)
            )
            for column, kind in zip(columns, types, strict=True)
        )
        order = key or range(1, len(columns) + 1)
        query = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(
            texts,
            sql.Identifier("shop", table),
            sql.SQL(", ").join(sql.Identifier(columns[position - 1]) for position in order),
        )
        rows = connection.execute(query).fetchall()
        images = (dict(zip(columns, row, strict=True)) for row in rows)
        lines = (json.dumps(image, ensure_ascii=False) for image in images)
        write_lines(out / f"{table}.jsonl.gz", lines)
        counts[table] = len(rows)
    return counts


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines into a gzip file without time and name: equal lines give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
