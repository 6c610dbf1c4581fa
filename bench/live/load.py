"""The changes that are committed at a given rate: `python -m bench.live.load` commits them.

Every change follows from its position, so that what was committed need not be written down. Of ten
changes six update rows, two insert and two delete. Inserted rows stay as they are, deleted rows are
of no other use, and the others are only ever updated.

A row carries the number of the transaction that wrote it as its `version`. A transaction changes
one table, and there are at most a hundred transactions a second: a higher rate makes them larger.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pandas as pd
import psycopg

SCHEMA = "live"
# Changes of each kind in ten; their order in the ten is that of `Changes`.
UPDATES, INSERTS, DELETES = 6, 2, 2
TURN = UPDATES + INSERTS + DELETES
TRANSACTIONS_A_SECOND = 100
# Odd and prime: its multiples visit every place of a range once.
STRIDE = 7_368_787
# The first keys of rows that are deleted and of rows that are inserted.
DELETED_FROM, INSERTED_FROM = 10**9, 2 * 10**9
# A row of each table that is written last: where it has arrived, everything has.
LAST = 0

CREATE = """
    create table {table} (
        id bigint primary key,
        name text not null,
        city text not null,
        amount numeric(12,2) not null,
        version bigint not null,
        changed_at timestamptz not null
    )
"""
ROWS = """
    insert into {table}
    select id, 'customer ' || md5(id::text), 'city ' || id %% 500, (id %% 10000000) / 100.0, 0,
        clock_timestamp()
    from unnest(%(ids)s::bigint[]) as id
"""
# One statement is one transaction and one round trip.
CHANGE = """
    with updated as (
        update {table}
        set name = 'customer ' || md5(id::text || %(version)s::text),
            amount = ((id + %(version)s) %% 10000000) / 100.0,
            version = %(version)s,
            changed_at = clock_timestamp()
        where id = any(%(updates)s::bigint[])
    ),
    deleted as (
        delete from {table} where id = any(%(deletes)s::bigint[])
    )
    insert into {table}
    select id, 'customer ' || md5(id::text), 'city ' || id %% 500, (id %% 10000000) / 100.0,
        %(version)s, clock_timestamp()
    from unnest(%(inserts)s::bigint[]) as id
"""


class Changes(NamedTuple):
    """The keys of some changes of a table, by kind."""

    updates: list[int]
    inserts: list[int]
    deletes: list[int]


@dataclass(frozen=True)
class Phase:
    """A time of one rate.

    Attributes:
        rate: Changes a second, of all tables together.
        seconds: How long.
        tables: Number of tables, which take turns.
        rows: Rows of each table that are updated.
        version: Number of the last transaction before.
        position: Changes of each table before.
    """

    rate: int
    seconds: int
    tables: int
    rows: int
    version: int = 0
    position: int = 0

    @property
    def transactions(self) -> int:
        """Number of transactions."""
        return self.a_second * self.seconds

    @property
    def a_second(self) -> int:
        """Transactions a second."""
        return min(self.rate, TRANSACTIONS_A_SECOND)

    @property
    def size(self) -> int:
        """Changes of a transaction."""
        return self.rate // self.a_second

    @property
    def count(self) -> int:
        """Number of changes, with the one of each table that ends the phase."""
        return self.transactions * self.size + self.tables

    @property
    def last_version(self) -> int:
        """Number of the transaction that ends the phase."""
        return self.version + self.transactions + 1

    def next(self, rate: int, seconds: int) -> Phase:
        """Returns the phase that follows this one.

        Args:
            rate: Changes a second.
            seconds: How long.
        """
        turns = -(-self.transactions // self.tables)
        position = self.position + turns * self.size
        return Phase(rate, seconds, self.tables, self.rows, self.last_version, position)

    def changes(self, number: int) -> Changes:
        """Returns the changes of a transaction.

        Args:
            number: Of the transaction, from 0.
        """
        first = self.position + number // self.tables * self.size
        kinds = Changes([], [], [])
        for position in range(first, first + self.size):
            turn, place = divmod(position, TURN)
            if place < UPDATES:
                kinds.updates.append(1 + STRIDE * (UPDATES * turn + place) % self.rows)
            elif place < UPDATES + INSERTS:
                kinds.inserts.append(INSERTED_FROM + INSERTS * turn + place - UPDATES)
            else:
                kinds.deletes.append(DELETED_FROM + DELETES * turn + place - UPDATES - INSERTS)
        return kinds

    def committed(self, table: int, at: np.ndarray) -> pd.DataFrame:
        """Returns the updates and inserts of a table: `id`, `version` and the time `at`.

        Args:
            table: Number of the table.
            at: When each transaction was committed; those that never were are not in it.
        """
        found: list[tuple[int, int, float]] = []
        for number in range(table, len(at), self.tables):
            changes = self.changes(number)
            version = self.version + 1 + number
            found += [(key, version, at[number]) for key in changes.updates + changes.inserts]
        return pd.DataFrame(found, columns=["id", "version", "at"])


def deletable(phase: Phase) -> int:
    """Returns how many rows of each table are deleted until the end of a phase.

    Args:
        phase: The last phase.
    """
    end = phase.next(1, 1).position
    return DELETES * -(-end // TURN)


def table_name(number: int) -> str:
    """Returns the name of a table, without its schema."""
    return f"t{number}"


def create_tables(conninfo: str, phase: Phase) -> None:
    """Creates the tables, with the rows that are updated and deleted later.

    Args:
        conninfo: Of the database.
        phase: The last phase.
    """
    ids = [LAST, *range(1, 1 + phase.rows)]
    ids += range(DELETED_FROM, DELETED_FROM + deletable(phase))
    with psycopg.connect(conninfo) as connection:
        connection.execute(f"create schema {SCHEMA}")
        for number in range(phase.tables):
            name = f"{SCHEMA}.{table_name(number)}"
            connection.execute(CREATE.format(table=name).encode())
            connection.execute(ROWS.format(table=name).encode(), {"ids": ids})


def commit(conninfo: str, phase: Phase, *, paced: bool = True) -> np.ndarray:
    """Commits the changes of a phase, and in the end one that shows that all have arrived.

    Args:
        conninfo: Of the database.
        phase: What to commit.
        paced: Whether the rate is kept; else everything is committed as fast as it goes.

    Returns:
        When each transaction was sent to the server, in seconds since 1970. A server that is too
        slow for the rate does not get all of them.
    """
    sent = list(_commit(conninfo, phase, paced))
    return np.array(sent)


def _commit(conninfo: str, phase: Phase, paced: bool) -> Iterator[float]:
    statements = [
        CHANGE.format(table=f"{SCHEMA}.{table_name(number)}").encode()
        for number in range(phase.tables)
    ]
    with psycopg.connect(conninfo, autocommit=True) as connection:
        began = time.monotonic()
        for number in range(phase.transactions):
            if paced:
                wait = began + number / phase.a_second - time.monotonic()
                if wait > 0:
                    time.sleep(wait)
                elif time.monotonic() > began + phase.seconds:
                    break
            changes = phase.changes(number)
            yield time.time()
            connection.execute(
                statements[number % phase.tables],
                {"version": phase.version + 1 + number, **changes._asdict()},
            )
        for statement in statements:
            last = {"version": phase.last_version, "updates": [LAST], "inserts": [], "deletes": []}
            connection.execute(statement, last)


@click.command()
@click.option("--dsn", required=True)
@click.option("--phase", required=True, help="The numbers of a phase, with commas between them.")
@click.option("--times", required=True, type=click.Path(path_type=Path), help="Gets the times.")
def main(dsn: str, phase: str, times: Path) -> None:
    """Commits the changes of a phase at its rate."""
    np.save(times, commit(dsn, Phase(*map(int, phase.split(",")))))


if __name__ == "__main__":
    main(prog_name="python -m bench.live.load")
