"""Runs planned transactions on many connections at once."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue

import psycopg
from psycopg import IsolationLevel
from psycopg.errors import DeadlockDetected, IntegrityError, SerializationFailure

from capture.workload import Transaction

ATTEMPTS = 4


def run(conninfo: str, transactions: list[Transaction], clients: int) -> Counter[str]:
    """Run transactions; each client takes the next as soon as it is free.

    Args:
        conninfo: How to reach the database.
        transactions: What to run, roughly in this order.
        clients: How many connections work side by side.

    Returns:
        How many transactions were committed, rolled back as planned, or given up after conflicts.
    """
    waiting: SimpleQueue[Transaction] = SimpleQueue()
    for transaction in transactions:
        waiting.put(transaction)
    with ThreadPoolExecutor(clients) as pool:
        jobs = [pool.submit(_client, conninfo, waiting, number) for number in range(clients)]
        return sum((job.result() for job in jobs), Counter[str]())


def _client(conninfo: str, waiting: SimpleQueue[Transaction], number: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    with psycopg.connect(conninfo) as connection:
        # A few clients are stricter, and so meet serialization failures.
        if number % 4 == 3:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
        while True:
            try:
                transaction = waiting.get_nowait()
            except Empty:
                return outcomes
            outcomes[_attempt(connection, transaction)] += 1


def _attempt(connection: psycopg.Connection, transaction: Transaction) -> str:
    for attempt in range(ATTEMPTS):
        try:
            _execute(connection, transaction)
        except (DeadlockDetected, IntegrityError, SerializationFailure):
            # The row that it waits for may still be on its way in another client.
            connection.rollback()
            time.sleep(0.01 * attempt)
        else:
            return "committed" if transaction.commit else "rolled back"
    return "given up"


def _execute(connection: psycopg.Connection, transaction: Transaction) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('TimeZone', %s, true)", (transaction.zone,))
        for statement in transaction.statements:
            if statement.rows:
                with cursor.copy(statement.sql) as copy:
                    for row in statement.rows:
                        copy.write_row(row)
            else:
                cursor.execute(statement.sql, statement.values or None)
    if transaction.commit:
        connection.commit()
    else:
        connection.rollback()
