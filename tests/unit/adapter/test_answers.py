from __future__ import annotations

import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparkcdc.jvm import answers


class Client:
    """As py4j's: each thread has a connection of its own."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def get_thread_connection(self) -> Any:
        return self.connection

    def set_thread_connection(self, connection: Any) -> None:
        self.connection = connection


def _connection() -> tuple[Any, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    return SimpleNamespace(socket=near, stream=near.makefile("rb")), far


@pytest.mark.skipif(sys.platform != "linux", reason="Others have no such option.")
def test_connections_of_all_threads_answer_at_once() -> None:
    first, far = _connection()
    gateway = SimpleNamespace(_gateway_client=Client(first))
    answers.hasten(gateway)
    later, later_far = _connection()
    gateway._gateway_client.set_thread_connection(later)
    assert gateway._gateway_client.get_thread_connection() is later
    for connection, other in ((first, far), (later, later_far)):
        assert isinstance(connection.stream, answers.Prompt)
        other.sendall(b"one\n" + 9000 * b"x" + b"\n")
        assert connection.stream.readline() == b"one\n"
        assert len(connection.stream.readline()) == 9001
        other.close()
        assert connection.stream.readline() == b""
        connection.stream.close()
        assert connection.stream.closed
        connection.socket.close()


@pytest.mark.parametrize("connection", [None, SimpleNamespace(stream=None)])
def test_a_thread_without_a_connection_gets_one_later(connection: Any) -> None:
    answers.hasten(SimpleNamespace(_gateway_client=Client(connection)))
    answers.hasten(SimpleNamespace(_gateway_client=object()))  # a gateway of another kind
