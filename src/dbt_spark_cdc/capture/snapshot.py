"""The rows that the tables hold where a new slot begins, as wal2json would print their inserts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from dbt_spark_cdc.capture.lsn import format_lsn, microseconds, time_text
from dbt_spark_cdc.capture.problems import Misconfigured
from dbt_spark_cdc.capture.server import Table

# Object identifiers of pg_type, which never change. wal2json prints these types without quotes.
NUMBERS = {20, 21, 23, 26, 700, 701, 1700}
BOOLEAN, BYTEA = 16, 17
NOT_FINITE = {"NaN", "Infinity", "-Infinity"}


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: int
    type: str


def time_before(connection: psycopg.Connection) -> str:
    """Returns the time for all rows of a snapshot, to be asked before its slot is made.

    A transaction that commits after the slot's position commits later than this: making the slot
    waits for all transactions that ran when it began.

    Args:
        connection: A connection to the database.
    """
    row = connection.execute("select clock_timestamp()::text").fetchone()
    assert row
    return time_text(microseconds(row[0]) - 1)


def begin(connection: psycopg.Connection, snapshot: str) -> None:
    """Sees the database as the slot's snapshot does, until the connection ends.

    Args:
        connection: A connection to the database, in no transaction.
        snapshot: Name of the snapshot that the slot has exported.
    """
    connection.execute("begin isolation level repeatable read read only")
    connection.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot)))


def rows(connection: psycopg.Connection, table: Table, time: str) -> Iterator[bytes]:
    """Reads a table.

    Each row has a position of its own, its number: two equal rows of a table without a key would
    otherwise count as one event.

    Args:
        connection: One for which `begin` was called.
        table: The table.
        time: The time of all rows.

    Yields:
        A line a row, without its end.

    Raises:
        Misconfigured: The table holds text that is not UTF-8.
    """
    columns, key = _columns(connection, table.oid)
    head = f'{{"action":"I","timestamp":{_text(time)},"lsn":"'
    middle = f'","schema":{_text(table.schema)},"table":{_text(table.name)},"columns":['
    parts = [_part(column) for column in columns]
    primary = ",".join(
        f'{{"name":{_text(column.name)},"type":{_text(column.type)}}}' for column in key
    )
    tail = f'],"pk":[{primary}]}}'
    query = sql.SQL("copy (select {} from only {}) to stdout").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        sql.Identifier(table.schema, table.name),
    )
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        try:
            for number, row in enumerate(copy.rows(), start=1):
                values = ",".join(part(value) for part, value in zip(parts, row, strict=True))
                yield f"{head}{format_lsn(number)}{middle}{values}{tail}".encode()
        except UnicodeDecodeError as exc:
            raise Misconfigured(
                f"{table} holds text that is not UTF-8, in a database without an encoding "
                f"(SQL_ASCII): {exc}. Correct the rows."
            ) from exc


def _columns(connection: psycopg.Connection, oid: int) -> tuple[list[Column], list[Column]]:
    found = connection.execute(
        """
        select a.attname::text, a.atttypid::int8, format_type(a.atttypid, a.atttypmod),
            array_position(
                (select i.indkey::int2[] from pg_index i
                where i.indrelid = a.attrelid and i.indisprimary), a.attnum)
        from pg_attribute a
        where a.attrelid = %s and a.attnum > 0 and not a.attisdropped
        order by a.attnum
        """,
        (oid,),
    ).fetchall()
    key = sorted((row for row in found if row[3] is not None), key=lambda row: row[3])
    return [Column(*row[:3]) for row in found], [Column(*row[:3]) for row in key]


def _part(column: Column) -> Callable[[str | None], str]:
    head = f'{{"name":{_text(column.name)},"type":{_text(column.type)},"value":'

    def printed(value: str | None) -> str:
        if value is None or (column.kind in NUMBERS and value in NOT_FINITE):
            return f"{head}null}}"
        if column.kind in NUMBERS:
            return f"{head}{value}}}"
        if column.kind == BOOLEAN:
            return f"{head}{'true' if value == 't' else 'false'}}}"
        return f"{head}{_text(value[2:] if column.kind == BYTEA else value)}}}"

    return printed


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def tables_without_rights(tables: Sequence[Table]) -> list[str]:
    """Returns what the role lacks to read the tables.

    Args:
        tables: The tables.
    """
    return [
        f"A snapshot reads {table}: let its owner run: grant usage on schema {table.schema} and "
        f"grant select on {table} to the role."
        for table in tables
        if not table.readable
    ]
