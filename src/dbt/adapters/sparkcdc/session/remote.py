"""Sessions of a Spark Connect server: how long they wait for it, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
    from pyspark.sql import SparkSession

# Milliseconds between two attempts: the first one, the factor, and the longest.
FIRST_WAIT = 50
FACTOR = 4
LONGEST_WAIT = 5_000
# What a server that is gone is asked again.
ONCE_MORE = 1

# Of a session that the server does not know any more, as after a restart.
FORGOTTEN = ("INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_ABANDONED")
STOPPED = "(java.lang.IllegalStateException) Cannot call methods on a stopped SparkContext"

OWN_AUTHORITY = (
    "A certificate of your own authority goes into the file that the environment variable "
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names."
)

# Servers that did not answer in time: the nodes of a build do not wait for them one by one.
_gone: set[str] = set()


def connect(creds: SparkCdcCredentials) -> SparkSession:
    """Opens a session of the server, and waits for the server if it does not answer.

    Args:
        creds: The profile's connection settings, with `remote`.

    Returns:
        The session. Its statements wait as long, and survive a channel that breaks.
    """
    # gRPC would write to the terminal what its errors say too.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    from pyspark.sql import SparkSession

    # Connect has no newSession(): each create() dials a session of its own.
    builder: Any = SparkSession.builder
    spark: SparkSession = builder.remote(creds.address).create()
    try:
        _be_patient(spark, ONCE_MORE if creds.remote in _gone else _attempts(creds))
        # The first call to the server: the session exists from now on.
        assert spark.version
        if creds.server_side_parameters:
            # As the builder does. Settings that a server has from its start are the server's own.
            conf: Any = spark.conf
            conf._set_all(configs=dict(creds.server_side_parameters), silent=True)
    except BaseException:
        hang_up(spark)
        raise
    _gone.discard(str(creds.remote))
    _be_patient(spark, _attempts(creds))
    # The first session of a thread stays its active one, even after it was closed. Checkpoints ask
    # for it: their rows would belong to a session that is closed, or to that of another thread.
    session: Any = type(spark)
    session._active_session.session = spark
    return spark


def is_remote(spark: Any) -> bool:
    """Whether a session is one of a server, and not of this process's Java.

    Args:
        spark: The session.
    """
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def read_settings(spark: SparkSession, names: Iterable[str]) -> dict[str, str | None]:
    """Reads settings of a session in one call.

    Args:
        spark: The session.
        names: Their names.

    Returns:
        Values by name, with Spark's own defaults; None where there is neither.
    """
    from pyspark.sql.connect.proto import ConfigRequest, KeyValue

    session: Any = spark
    pairs = [KeyValue(key=name) for name in names]
    ask = ConfigRequest.Operation(get_with_default=ConfigRequest.GetWithDefault(pairs=pairs))
    return dict(session.client.config(ask).pairs)


def change_settings(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    """Changes settings of a session, in a call for what is set and one for what is unset.

    Args:
        spark: The session.
        settings: Values by name; None unsets.
    """
    from pyspark.sql.connect.proto import ConfigRequest, KeyValue

    session: Any = spark
    wanted = [KeyValue(key=k, value=v) for k, v in settings.items() if v is not None]
    unwanted = [name for name, value in settings.items() if value is None]
    if wanted:
        change = ConfigRequest.Operation(set=ConfigRequest.Set(pairs=wanted))
        session.client.config(change)
    if unwanted:
        change = ConfigRequest.Operation(unset=ConfigRequest.Unset(keys=unwanted))
        session.client.config(change)


def hang_up(spark: SparkSession) -> None:
    """Ends a session, without waiting for a server that is gone.

    `SparkSession.stop` also ends the threads which other sessions tell the server with that they
    have read a result; a statement that is about to use them would fail.

    Args:
        spark: The session.
    """
    session: Any = spark
    client = session.client
    if client.is_closed:
        return
    _be_patient(spark, 0)
    with contextlib.suppress(Exception):
        client.release_session()
    with contextlib.suppress(Exception):
        client._channel.close()
    client._closed = True


def interrupt(spark: SparkSession) -> None:
    """Cancels what a session runs on the server; one that cannot be told ends by itself.

    Args:
        spark: The session. Its statement fails in the thread that runs it.
    """
    with contextlib.suppress(Exception):
        spark.interruptAll()
    # Nothing waits for a server any more.
    _be_patient(spark, 0)


def forget() -> None:
    """Ends what all sessions share, so that the process can end."""
    if module := sys.modules.get("pyspark.sql.connect.client.reattach"):
        with contextlib.suppress(Exception):
            module.ExecutePlanResponseReattachableIterator.shutdown()
    _gone.clear()


def what_ended(creds: SparkCdcCredentials, exc: BaseException) -> str | None:
    """Returns what is to be said where a server, and not a statement, is what failed.

    Args:
        creds: The profile's connection settings.
        exc: The error that a statement or a new session ended with.

    Returns:
        None where the statement failed, or the session is of no server.
    """
    if not creds.remote:
        return None
    errors = list(_chain(exc))
    codes = {name for error in errors if (name := _code(error))}
    where = f"The Spark Connect server at {creds.remote}"
    if any(_condition(error).startswith(FORGOTTEN) for error in errors):
        return (
            f"{where} does not know this session any more, as after a restart or an hour without "
            "a statement. What was committed stays: start dbt again, and the build goes on from "
            "there."
        )
    if "UNAUTHENTICATED" in codes:
        wrong = "refuses the token of the profile" if creds.token else "wants a token"
        return (
            f"{where} {wrong}. Set `token` in the profile to the server's, "
            "spark.connect.authenticate.token or SPARK_CONNECT_AUTHENTICATE_TOKEN there, from an "
            "environment variable: \"{{ env_var('DBT_ENV_SECRET_CDC_TOKEN') }}\"."
        )
    if any(STOPPED in str(error) for error in errors):
        return (
            f"{where} is ending, or has lost its cluster: it runs no statements any more. Start it "
            "again. What was committed stays: start dbt again, and the build goes on from there."
        )
    if "UNAVAILABLE" not in codes:
        return None
    if any("andshake" in str(error) for error in errors):
        return (
            f"{where} does not speak TLS, or has a certificate that is not trusted. A token is "
            "sent over TLS only, except to the host name `localhost`: `remote: "
            "sc://localhost:<port>`. "
            f"{OWN_AUTHORITY}"
        )
    _gone.add(str(creds.remote))
    return (
        f"{where} does not answer, even after {creds.reconnect_seconds} s "
        "(`reconnect_seconds` in the profile). Check that it runs, and that host and port are "
        "right. What was committed stays: start dbt again, and the build goes on from there."
        # Of a host with several addresses gRPC reports the last one, where nobody may listen.
        + (
            f" With TLS this may also be a certificate that is not trusted. {OWN_AUTHORITY}"
            if "use_ssl=true" in creds.address
            else ""
        )
    )


def without_token(creds: SparkCdcCredentials, message: str) -> str:
    """Returns an error's message, which may quote the url, without the token.

    Args:
        creds: The profile's connection settings.
        message: The message.
    """
    for shown in (creds.token, quote(creds.token or "", safe="")):
        message = message.replace(shown, "***") if shown else message
    return message


def _attempts(creds: SparkCdcCredentials) -> int:
    """How often a server is asked again in the time that the profile gives it."""
    attempts, left, wait = 0, creds.reconnect_seconds * 1000, FIRST_WAIT
    while left > 0:
        attempts, left, wait = attempts + 1, left - wait, min(wait * FACTOR, LONGEST_WAIT)
    return attempts


def _be_patient(spark: SparkSession, attempts: int) -> None:
    """Has the statements of a session try so often; Spark's own default is over ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session: Any = spark
    client = session.client
    policy = DefaultPolicy(
        max_retries=attempts,
        initial_backoff=FIRST_WAIT,
        backoff_multiplier=FACTOR,
        max_backoff=LONGEST_WAIT,
        max_server_retry_delay=LONGEST_WAIT,
    )
    client.set_retry_policies([policy])


def _code(error: BaseException) -> str | None:
    """The name of the status that a call to a server ended with."""
    code = getattr(error, "code", None)
    return getattr(code(), "name", None) if callable(code) else None


def _condition(error: BaseException) -> str:
    """What Spark calls an error."""
    ask = getattr(error, "getCondition", None)
    return str(ask() or "") if callable(ask) else ""


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """An error and those that it came from."""
    seen: set[int] = set()
    error: BaseException | None = exc
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
