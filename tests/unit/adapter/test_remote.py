from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.impl import SparkCdcAdapter
from dbt.adapters.sparkcdc.session import remote
from dbt_common.exceptions import DbtRuntimeError

URL = "sc://spark:15002"


def credentials(**given: Any) -> SparkCdcCredentials:
    return SparkCdcCredentials(schema="shop", **({"remote": URL} | given))


@pytest.fixture(autouse=True)
def nothing_gone() -> Any:
    remote._gone.clear()
    yield
    remote._gone.clear()


class Grpc(Exception):
    """As gRPC's errors: a status with a name."""

    def __init__(self, name: str, said: str = "") -> None:
        super().__init__(said)
        self.name = name

    def code(self) -> SimpleNamespace:
        return SimpleNamespace(name=self.name)


class Spark(Exception):
    """As pyspark's errors."""

    def __init__(self, condition: str) -> None:
        super().__init__(f"[{condition}] something")
        self.condition = condition

    def getCondition(self) -> str:
        return self.condition


def after(cause: Exception, error: Exception) -> Exception:
    """An error that pyspark raises `from None` while it handles another one."""
    try:
        try:
            raise cause
        except Exception:
            raise error from None
    except Exception as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "given", "told"),
    [
        (Grpc("UNAUTHENTICATED"), {"token": "hush"}, "refuses the token of the profile"),
        (Grpc("UNAUTHENTICATED"), {}, "wants a token"),
        (Grpc("UNAVAILABLE", "hush: refused"), {"token": "hush"}, "does not answer"),
        (Grpc("UNAVAILABLE", "Ssl handshake failed"), {"token": "hush"}, "does not speak TLS"),
        (Spark("INVALID_HANDLE.SESSION_NOT_FOUND"), {}, "does not know this session"),
        (Spark("INVALID_HANDLE.SESSION_CHANGED"), {}, "does not know this session"),
        (Exception(f"{remote.STOPPED}.\nIt was created at"), {}, "is ending, or has lost"),
    ],
)
def test_what_ended_is_told_apart(error: Exception, given: dict[str, str], told: str) -> None:
    creds = credentials(**given)
    for found in (error, after(error, ValueError("outer"))):
        said = remote.what_ended(creds, found)
        assert said and told in said and URL in said
        assert "hush" not in said


def test_a_certificate_may_be_why_nobody_answers() -> None:
    error = Grpc("UNAVAILABLE", "ipv6:%5B::1%5D:15002: Connection refused")
    assert "certificate" not in str(remote.what_ended(credentials(), error))
    said = remote.what_ended(credentials(remote=f"{URL}/;use_ssl=true"), error)
    assert said and "does not answer" in said and "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" in said


def test_a_statements_own_error_is_not_the_servers() -> None:
    # Its text may say anything.
    for error in (ValueError("UNAVAILABLE"), Spark("TABLE_OR_VIEW_NOT_FOUND"), Grpc("INTERNAL")):
        assert remote.what_ended(credentials(), error) is None
    assert remote.what_ended(credentials(remote=None), Grpc("UNAVAILABLE")) is None


def test_a_server_that_is_gone_is_waited_for_once() -> None:
    creds = credentials()
    remote.what_ended(creds, Grpc("UNAUTHENTICATED"))
    assert not remote._gone
    remote.what_ended(creds, Grpc("UNAVAILABLE"))
    assert remote._gone == {URL}


@pytest.mark.parametrize("seconds", [0, 1, 5, 60, 600])
def test_attempts_take_the_time_of_the_profile(seconds: int) -> None:
    attempts = remote._attempts(credentials(reconnect_seconds=seconds))
    waits = [min(50 * 4**number, remote.LONGEST_WAIT) for number in range(attempts)]
    assert sum(waits) >= seconds * 1000
    assert sum(waits[:-1]) < seconds * 1000 or not seconds


def test_chains_that_go_round_end() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    assert remote.what_ended(credentials(), one) is None


def test_what_macros_call_says_that_the_server_is_gone() -> None:
    """Questions to a session that are no statements of dbt's."""
    adapter = SparkCdcAdapter.__new__(SparkCdcAdapter)
    adapter.config = SimpleNamespace(credentials=credentials())

    def asked(error: Exception) -> Any:
        raise error

    adapter.connections = SimpleNamespace(
        get_thread_connection=lambda: asked(Grpc("UNAVAILABLE")),
    )
    with pytest.raises(DbtRuntimeError, match="does not answer"):
        adapter.is_there("shop.orders")
    adapter.connections.get_thread_connection = lambda: asked(ValueError("its own"))
    with pytest.raises(ValueError, match="its own"):
        adapter.is_there("shop.orders")
    assert {"is_there", "make_step"} <= SparkCdcAdapter._available_
