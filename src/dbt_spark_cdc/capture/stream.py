"""PostgreSQL's streaming replication, over the libpq that psycopg brings.

https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

import psycopg
from psycopg import pq

from dbt_spark_cdc.capture.lsn import POSTGRES_EPOCH, format_lsn, parse_lsn
from dbt_spark_cdc.capture.problems import CaptureProblem, Unavailable
from dbt_spark_cdc.capture.server import PLUGIN, connect, meaning

SEND_SECONDS = 60.0

_DATA = struct.Struct("!cqqq")
_KEEPALIVE = struct.Struct("!cqqb")
_STATUS = struct.Struct("!cqqqqb")


class Message(NamedTuple):
    """What the server sends.

    Attributes:
        payload: What the output plugin printed; None for a sign of life.
        position: Of a sign of life: what was committed before it has been sent.
        sent: When, by the server's clock, in microseconds since 2000.
        wants_reply: Whether the server asks for a sign of life.
    """

    payload: bytes | None
    position: int
    sent: int
    wants_reply: bool


class NewSlot(NamedTuple):
    """A slot that was made: changes after `position` are not in `snapshot`, and all others are."""

    position: int
    snapshot: str


class Stream:
    """A replication connection."""

    def __init__(self, arguments: dict[str, Any], slot: str) -> None:
        """Connects.

        Args:
            arguments: Those of `psycopg.connect`.
            slot: Name of the slot.

        Raises:
            CaptureProblem: There is no connection.
        """
        self._slot = slot
        self._connection = connect(arguments, replication="database")
        self._libpq = self._connection.pgconn
        self.warnings: list[str] = []
        self._libpq.notice_handler = self._noticed

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def system(self) -> str:
        """Returns the identifier of the server's data directory."""
        return self._query("IDENTIFY_SYSTEM")[0]

    def create_slot(self) -> NewSlot:
        """Makes the slot; its snapshot can be used as long as nothing else is asked here."""
        _, position, snapshot, _ = self._query(
            f'CREATE_REPLICATION_SLOT "{self._slot}" LOGICAL {PLUGIN} EXPORT_SNAPSHOT'
        )
        return NewSlot(parse_lsn(position), snapshot)

    def start(self, position: int, plugin_options: Mapping[str, str]) -> None:
        """Begins to receive what was committed after a position.

        Args:
            position: The position.
            plugin_options: The options of wal2json.

        Raises:
            CaptureProblem: The server refuses to.
        """
        values = (f"\"{name}\" '{_escaped(value)}'" for name, value in plugin_options.items())
        command = (
            f'START_REPLICATION SLOT "{self._slot}" LOGICAL {format_lsn(position)} '
            f"({', '.join(values)})"
        )
        result = self._libpq.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise self._problem(result)

    def receive(self, seconds: float) -> Message | None:
        """Returns the next message, or None where none comes in time.

        Args:
            seconds: How long to wait for it.

        Raises:
            CaptureProblem: The server has ended the stream, or the connection is lost.
        """
        try:
            count, data = self._libpq.get_copy_data(1)
            if count == 0:
                readable, _, _ = select.select([self._libpq.socket], [], [], seconds)
                if not readable:
                    return None
                self._libpq.consume_input()
                count, data = self._libpq.get_copy_data(1)
        except psycopg.OperationalError as exc:
            raise _connection_lost(exc) from exc
        if count > 0:
            return _message(data)
        if count == 0:
            return None
        result = self._libpq.get_result()
        raise self._problem(result) if result else Unavailable("The server ended the stream.")

    def confirm(self, received: int, durable: int, wants_reply: bool = False) -> None:
        """Tells the server what has arrived and what is on the disk.

        Args:
            received: The position up to which everything has arrived.
            durable: The position up to which everything is on the disk.
            wants_reply: Whether the server is to answer at once.

        Raises:
            CaptureProblem: The connection is lost.
        """
        now = (datetime.now(timezone.utc) - POSTGRES_EPOCH).total_seconds()
        status = _STATUS.pack(b"r", received, durable, durable, int(now * 1e6), wants_reply)
        try:
            self._libpq.put_copy_data(status)
            deadline = time.monotonic() + SEND_SECONDS
            while self._libpq.flush():
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "The server does not read what it is sent. Check its load and the network."
                    )
                # It may be waiting for us to read first.
                sockets = [self._libpq.socket]
                readable, _, _ = select.select(sockets, sockets, [], 1)
                if readable:
                    self._libpq.consume_input()
        except psycopg.OperationalError as exc:
            raise _connection_lost(exc) from exc

    def _query(self, command: str) -> list[str]:
        result = self._libpq.exec_(command.encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise self._problem(result)
        return [(result.get_value(0, i) or b"").decode() for i in range(result.nfields)]

    def _problem(self, result: pq.abc.PGresult) -> CaptureProblem:
        code = result.error_field(pq.DiagnosticField.SQLSTATE)
        fields = (pq.DiagnosticField.MESSAGE_DETAIL, pq.DiagnosticField.MESSAGE_HINT)
        parts = [result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message]
        parts += [result.error_field(field) or b"" for field in fields]
        text = ". ".join(part.decode(errors="replace").strip(" .\n") for part in parts if part)
        return meaning(code.decode() if code else None, f"{text}." if text else "", self._slot)

    def _noticed(self, result: pq.abc.PGresult) -> None:
        severity = result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED)
        if severity == b"WARNING":
            text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
            self.warnings.append(text.decode(errors="replace"))


def _message(data: memoryview) -> Message:
    kind = bytes(data[:1])
    if kind == b"w":
        _, _, position, sent = _DATA.unpack_from(data)
        return Message(bytes(data[_DATA.size :]), position, sent, False)
    if kind == b"k":
        _, position, sent, wants_reply = _KEEPALIVE.unpack_from(data)
        return Message(None, position, sent, bool(wants_reply))
    raise Unavailable(
        f"The server sent a message of an unknown kind, {kind!r}. Connect to PostgreSQL itself, "
        "not through a proxy."
    )


def _connection_lost(exc: psycopg.Error) -> Unavailable:
    return Unavailable(f"The connection to PostgreSQL was lost: {' '.join(str(exc).split())}")


def _escaped(value: str) -> str:
    return value.replace("'", "''")
