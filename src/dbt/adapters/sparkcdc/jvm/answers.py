"""Java's long answers without a pause.

py4j's Java writes an answer in parts of 8 KiB. TCP holds a part back until the one before it was
acknowledged (Nagle's algorithm), and Linux acknowledges what a process reads after 40 ms unless it
has something to send. So the text of a view, or the columns of a wide table, took 44 ms instead of
0.2 ms.
"""

from __future__ import annotations

import socket
from typing import Any

# Linux alone has it. It holds until the next answer, so each read asks for it.
AT_ONCE = getattr(socket, "TCP_QUICKACK", None)


class Prompt:
    """A connection's stream whose lines are acknowledged at once."""

    def __init__(self, connection: socket.socket, stream: Any) -> None:
        self._connection, self._stream = connection, stream

    def readline(self, *arguments: Any) -> bytes:
        """Returns the next line, as the stream does."""
        self._connection.setsockopt(socket.IPPROTO_TCP, AT_ONCE, 1)  # type: ignore[arg-type]
        line: bytes = self._stream.readline(*arguments)
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def hasten(gateway: Any) -> None:
    """Has all connections of a gateway to Java, those of later threads too, answer at once.

    Args:
        gateway: py4j's.
    """
    client = gateway._gateway_client
    if AT_ONCE is None or not hasattr(client, "set_thread_connection"):
        return
    keep = client.set_thread_connection

    def keep_prompt(connection: Any) -> None:
        _make_prompt(connection)
        keep(connection)

    client.set_thread_connection = keep_prompt
    _make_prompt(client.get_thread_connection())


def _make_prompt(connection: Any) -> None:
    stream = connection and connection.stream
    if stream and not isinstance(stream, Prompt) and connection.socket.family != socket.AF_UNIX:
        connection.stream = Prompt(connection.socket, stream)
