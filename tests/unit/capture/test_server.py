"""How a capture begins, and what the server's errors mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from dbt_spark_cdc.capture.folder import State
from dbt_spark_cdc.capture.options import Options
from dbt_spark_cdc.capture.problems import (
    CaptureProblem,
    ChangesLost,
    Misconfigured,
    Unavailable,
)
from dbt_spark_cdc.capture.server import (
    Slot,
    check_folders,
    meaning,
    next_step,
    refusal,
    settings,
)

NONE = Options("", "shop", (), Path("landing"))
SNAPSHOT, CREATE = replace(NONE, snapshot=True), replace(NONE, create_slot=True)
BEGUN = State("shop", "7", "app", ())
AT_9 = replace(BEGUN, position=9)
SLOT = Slot("wal2json", "app", "reserved", None, 9)


def step(state: State | None, slot: Slot | None, options: Options, at: int = 100) -> str:
    return next_step(state, slot, options, "7", "app", at)


@pytest.mark.parametrize(
    ("state", "slot", "options", "expected"),
    [
        (None, None, SNAPSHOT, "snapshot"),
        (None, None, CREATE, "create"),
        (None, SLOT, NONE, "adopt"),
        (None, SLOT, CREATE, "adopt"),
        (BEGUN, None, SNAPSHOT, "snapshot"),
        (BEGUN, SLOT, SNAPSHOT, "snapshot"),
        (AT_9, SLOT, NONE, "stream"),
        (AT_9, SLOT, SNAPSHOT, "stream"),
        (AT_9, replace(SLOT, confirmed=3), CREATE, "stream"),
    ],
)
def test_how_it_begins(
    state: State | None, slot: Slot | None, options: Options, expected: str
) -> None:
    assert step(state, slot, options) == expected


@pytest.mark.parametrize(
    ("state", "slot", "options", "kind", "text"),
    [
        (None, None, NONE, Misconfigured, "There is no slot shop"),
        (None, SLOT, SNAPSHOT, Misconfigured, "a snapshot would not fit its position"),
        (BEGUN, SLOT, NONE, Misconfigured, "begun and not finished"),
        (None, replace(SLOT, plugin="pgoutput"), NONE, Misconfigured, "is of pgoutput"),
        (None, replace(SLOT, plugin=None), NONE, Misconfigured, "physical replication"),
        (None, replace(SLOT, database="x"), NONE, Misconfigured, "is of the database x"),
        (replace(AT_9, slot="a"), SLOT, NONE, Misconfigured, "files of the slot a, not of shop"),
        (None, replace(SLOT, wal_status="lost"), NONE, ChangesLost, "has invalidated it"),
        (AT_9, replace(SLOT, wal_status="lost"), NONE, ChangesLost, "wal_status is lost"),
        (AT_9, replace(SLOT, reason="wal_removed"), NONE, ChangesLost, "wal_removed"),
        (AT_9, None, SNAPSHOT, ChangesLost, "it was dropped"),
        (AT_9, replace(SLOT, confirmed=10), NONE, ChangesLost, "has moved it to 0/A"),
        (replace(AT_9, system="8"), SLOT, NONE, ChangesLost, "files are of the server 8"),
        (replace(AT_9, position=101), SLOT, NONE, ChangesLost, "the server was set back"),
    ],
)
def test_what_does_not_fit(
    state: State | None,
    slot: Slot | None,
    options: Options,
    kind: type[CaptureProblem],
    text: str,
) -> None:
    with pytest.raises(kind, match=text):
        step(state, slot, options)


@pytest.mark.parametrize(
    ("code", "text", "kind", "told"),
    [
        (
            "55000",
            'library "wal2json" may not be used as an output plugin.',
            Misconfigured,
            "set output_plugin_libraries = 'pgoutput, wal2json'",
        ),
        ("58P01", 'could not access file "wal2json": No such file', Misconfigured, "On Debian"),
        ("58P01", "requested WAL segment has already been removed", ChangesLost, "removed"),
        ("55000", "This slot has been invalidated because", ChangesLost, "Begin again"),
        ("55006", 'slot "shop" is active for PID 7.', Unavailable, "in use by another process"),
        ("53400", "all replication slots are in use", Misconfigured, "max_replication_slots"),
        ("42501", "permission denied", Misconfigured, "grant select on"),
        ("57P01", "terminating connection", Unavailable, "terminating connection"),
        (None, "", Unavailable, "The server ended the connection"),
    ],
)
def test_errors(code: str | None, text: str, kind: type[CaptureProblem], told: str) -> None:
    problem = meaning(code, text, "shop")
    assert type(problem) is kind and told in str(problem)


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("Connection refused\n\tIs the server running?", Unavailable, "refused Is the server"),
        ("FATAL: the database system is starting up", Unavailable, "starting up"),
        ('FATAL: password authentication failed for user "x"', Misconfigured, "failed"),
        ('root certificate file "/x" does not exist', Misconfigured, "PGSSLROOTCERT"),
        ("FATAL: must be superuser or replication role to", Misconfigured, "alter role"),
        ('invalid sslmode value: "x"', Misconfigured, "sslmode"),
        ("SSL error: certificate verify failed", Misconfigured, "PGSSLROOTCERT"),
        ('server certificate for "x" does not match host name "y"', Misconfigured, "PGHOST"),
        ("host name must be specified for a verified SSL connection", Misconfigured, "PGHOST"),
        ('private key file "/x" has group or world access', Misconfigured, "access"),
        ("SSL error: tlsv1 alert unknown ca", Misconfigured, "unknown ca"),
        ("SSL error: unexpected eof while reading", Unavailable, "eof"),
    ],
)
def test_refused_connections(text: str, kind: type[CaptureProblem], told: str) -> None:
    problem = refusal(text)
    assert type(problem) is kind and told in str(problem)


@pytest.mark.parametrize(
    ("dsn", "environment", "expected"),
    [
        ("host=db.example.com", {}, "verify-full"),
        ("", {"PGHOST": "db.example.com"}, "verify-full"),
        ("postgresql://u@db.example.com/app", {}, "verify-full"),
        ("hostaddr=10.0.0.1 host=localhost", {}, "verify-full"),
        ("host=localhost,db.example.com", {}, "verify-full"),
        ("host=db.example.com sslmode=require", {}, "require"),
        ("host=db.example.com", {"PGSSLMODE": "require"}, None),
        ("service=shop", {}, None),
        ("host=/run/postgresql", {}, None),
        ("host=127.0.0.1", {}, None),
        ("", {}, None),
    ],
)
def test_a_connection_to_another_machine_is_verified(
    dsn: str, environment: dict[str, str], expected: str | None
) -> None:
    assert settings(dsn, "shop", environment).get("sslmode") == expected


@pytest.mark.parametrize(
    "dsn",
    ["host=x password=hunter2", "postgresql://u:hunter2@x/app", "host=x sslpassword=hunter2"],
)
def test_a_password_among_the_arguments_is_refused(dsn: str) -> None:
    with pytest.raises(Misconfigured, match=r"--dsn holds a (ssl)?password") as refused:
        settings(dsn, "shop", {})
    assert "hunter2" not in str(refused.value)


def test_the_session_prints_as_the_decoder_reads() -> None:
    options = settings("options='-c search_path=x'", "shop", {})["options"]
    assert options.startswith("-c search_path=x ") and "-c TimeZone=UTC" in options
    assert settings("", "shop", {"PGOPTIONS": "-c a=b"})["options"].startswith("-c a=b ")


def test_two_tables_do_not_share_a_folder() -> None:
    tables = [("a", "t"), ("b", "t"), ("a", "_u")]
    shared = check_folders(NONE, tables)
    assert len(shared) == 2 and "a.t and b.t have one folder, t" in shared[1]
    assert check_folders(replace(NONE, folder_name="{schema}.{table}"), tables) == []
