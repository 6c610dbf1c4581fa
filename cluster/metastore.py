"""PostgreSQL for the metastore: one that many processes share, with a server of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
from dbt.adapters.sparkcdc import private

from capture import server
from cluster.options import HOST, Folder, Problem

OLDEST = 15
INSTALL = "apt-get install postgresql-15"
# PostgreSQL refuses to run as root.
SYSTEM_USER = "postgres"
USER = "metastore"
DATABASE = "metastore"
ANSWER_SECONDS = 20

SETTINGS = """
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
password_encryption = 'scram-sha-256'
timezone = 'UTC'
shared_buffers = 32MB
max_connections = 100
# Logs of statements would show what tables are called, and nothing of use.
log_statement = 'none'
"""
# The server has no socket but this one, and whoever asks needs the password.
ACCESS = """
host {database} {user} {host}/32 scram-sha-256
host postgres {user} {host}/32 scram-sha-256
"""


def programs() -> Path:
    """Returns the folder of PostgreSQL's programs.

    Raises:
        Problem: There is none of version 15 or later.
    """
    if found := server.installations(OLDEST):
        return found[0]
    raise Problem(
        f"The metastore needs PostgreSQL {OLDEST} or later, which is not installed. On Debian 12: "
        f"{INSTALL}"
    )


def prepare(folder: Folder, port: int, password: str) -> list[str]:
    """Makes the metastore's database server, unless it is there, and writes its configuration.

    Args:
        folder: The cluster's folder.
        port: Where it shall listen.
        password: Of its one user.

    Returns:
        The command that runs it.

    Raises:
        Problem: It cannot be made.
    """
    found, data = programs(), folder.postgres / "data"
    as_user = _as_user()
    if not (data / "PG_VERSION").exists():
        _create(folder, found, as_user, password)
    settings = SETTINGS.format(host=HOST, port=port)
    access = ACCESS.format(host=HOST, user=USER, database=DATABASE)
    for name, text in (("postgresql.auto.conf", settings), ("pg_hba.conf", access)):
        (data / name).write_text(text.lstrip(), encoding="utf-8")
    return [*as_user, str(found / "postgres"), "-D", str(data)]


def _create(folder: Folder, found: Path, as_user: list[str], password: str) -> None:
    shutil.rmtree(folder.postgres, ignore_errors=True)  # what an attempt that failed left
    folder.postgres.mkdir(mode=private.FOLDER)
    if as_user:
        shutil.chown(folder.postgres, SYSTEM_USER)
        reachable = subprocess.run([*as_user, "test", "-w", str(folder.postgres)])
        if reachable.returncode:
            raise Problem(
                f"PostgreSQL cannot run as root, and its user {SYSTEM_USER} cannot enter "
                f"{folder.postgres}. Name another folder with --folder, or run the cluster as "
                "another user than root."
            )
    with tempfile.NamedTemporaryFile("w", dir=folder.postgres, encoding="utf-8") as secret:
        secret.write(password)
        secret.flush()
        if as_user:
            shutil.chown(secret.name, SYSTEM_USER)
        command = [
            *(*as_user, str(found / "initdb"), "--pgdata", str(folder.postgres / "data")),
            *("--username", USER, f"--pwfile={secret.name}", "--auth=scram-sha-256"),
            *("--encoding=UTF8", "--no-locale"),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=folder.postgres)
    if ran.returncode:
        raise Problem(f"PostgreSQL's initdb failed:\n{ran.stdout}{ran.stderr}".rstrip())


def create_database(port: int, password: str) -> None:
    """Makes the metastore's database, unless it is there, and the table that Hive counts ids in.

    Args:
        port: Where the server listens.
        password: Of its one user.

    Raises:
        Problem: The server cannot be asked.
    """
    _wait_and_run(
        port,
        password,
        "postgres",
        f"select 1 from pg_database where datname = '{DATABASE}'",
        f"create database {DATABASE} template template0",
    )
    # It is in no mapping of Hive's: its library for ids makes it, as late as the others.
    _wait_and_run(
        port,
        password,
        DATABASE,
        "select 1 from pg_tables where tablename = 'SEQUENCE_TABLE'",
        'create table "SEQUENCE_TABLE" ("SEQUENCE_NAME" varchar(255) primary key, '
        '"NEXT_VAL" bigint not null)',
    )


def _wait_and_run(port: int, password: str, database: str, known: str, make: str) -> None:
    asked = f"host={HOST} port={port} user={USER} dbname={database} connect_timeout=5"
    end = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            with psycopg.connect(asked, password=password, autocommit=True) as connection:
                if not connection.execute(known.encode()).fetchone():
                    connection.execute(make.encode())
                return
        except psycopg.OperationalError as exc:
            # The server listens a moment before it answers.
            if time.monotonic() > end:
                raise Problem(f"The metastore's PostgreSQL cannot be asked: {exc}") from exc
            time.sleep(0.1)


def _as_user() -> list[str]:
    return ["setpriv", *_privileges()] if os.geteuid() == 0 else []


def _privileges() -> list[str]:
    # Unlike runuser and su it becomes the program, so that its process is the server's.
    return [f"--reuid={SYSTEM_USER}", f"--regid={SYSTEM_USER}", "--init-groups"]
