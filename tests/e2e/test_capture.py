"""`cdc capture postgres` on a real server, with kills, lost connections and a full disk."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture import server, slot, workload
from capture.clients import run
from dbt_spark_cdc.capture.lsn import parse_lsn as lsn
from tests.changes import Event, fold, multiset, read
from tests.e2e.conftest import ROOT
from tests.e2e.servers import free_port

SLOT = "reader"
CLIENTS = 4
SECONDS = 60.0
KILLS = 12


class Database:
    """A server with the order system of capture/, and a folder that its changes land in."""

    def __init__(self, conninfo: str, connection: psycopg.Connection, folder: Path) -> None:
        self.conninfo, self.connection, self.folder = conninfo, connection, folder
        self.into = folder / "landing"
        place = psycopg.conninfo.conninfo_to_dict(conninfo)
        self.host = str(place["host"])

    def command(self, *arguments: str, user: str = "postgres") -> list[str]:
        return [
            *(sys.executable, "-m", "dbt_spark_cdc.cli", "capture", "postgres", "--slot", SLOT),
            *("--dsn", f"host={self.host} user={user} dbname=postgres"),
            *("--into", str(self.into), "--flush-every", "0.05", "--status-every", "0.5"),
            *(() if "--table" in arguments else ("--table", "shop.*")),
            *("--insert-only", "shop.events", *arguments),
        ]

    def start(self, *arguments: str, **popen: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **popen,
        )

    def capture(self, *arguments: str, code: int = 0, user: str = "postgres") -> str:
        done = subprocess.run(
            self.command("--once", *arguments, user=user),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def state(self) -> dict[str, Any]:
        path = self.into / "_capture" / "state.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def status(self) -> dict[str, Any]:
        return json.loads((self.into / "_capture" / "status.json").read_text())

    def value(self, query: str) -> Any:
        row = self.connection.execute(query).fetchone()
        return row and row[0]

    def waits(self, position: int) -> bool:
        """Whether the reader has not confirmed a position."""
        slots = "select confirmed_flush_lsn::text from pg_replication_slots"
        return lsn(self.value(slots)) < position

    def events(self, table: str) -> list[Event]:
        return [event for path in sorted((self.into / table).iterdir()) for event in read(path)]

    def files_equal_the_database(self) -> None:
        """Folding fails at a change that is missing or comes twice."""
        truth = self.folder / "truth"
        for table in slot.write_truth(self.connection, truth):
            rows = read(truth / f"{table}.jsonl.gz")
            events = self.events(table) if (self.into / table).exists() else []
            assert multiset(fold(events)) == multiset(rows), table
        assert not list(self.into.glob("*/_*"))


@contextmanager
def opened(folder: Path, port: int | None = None) -> Iterator[Database]:
    try:
        programs = server.find_programs()
    except SystemExit as missing:
        pytest.skip(str(missing))
    with server.running_server(programs, port) as conninfo, psycopg.connect(conninfo) as connection:
        connection.autocommit = True
        connection.execute((ROOT / "capture" / "schema.sql").read_text())
        yield Database(conninfo, connection, folder)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with opened(tmp_path) as found:
        yield found


def until(condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("it took too long")


def killed(process: subprocess.Popen[str], number: int = signal.SIGKILL) -> str:
    process.send_signal(number)
    output, _ = process.communicate(timeout=SECONDS)
    return output


def test_killed_at_any_moment_nothing_is_lost_or_doubled(database: Database) -> None:
    """The snapshot and the stream are killed while clients work."""
    chance = random.Random(os.environ.get("SEED", "24"))
    opening, days = workload.plan(seed=24, events=15_000)
    run(database.conninfo, opening, 1)
    parts = [days[start : start + 60] for start in range(0, len(days), 60)]
    stop = threading.Event()

    def work() -> None:
        for part in parts:
            run(database.conninfo, part, CLIENTS)
            if not stop.is_set():
                time.sleep(0.4)

    with ThreadPoolExecutor(1) as pool:
        clients = pool.submit(work)
        try:
            for kill in range(KILLS):
                process = database.start("--snapshot", "--flush-every", "0")
                assert process.stdout
                if kill == 0:
                    until(database.state)  # it reads the tables
                elif kill % 4:
                    # The first report: from here on it streams.
                    while "batches" not in (line := process.stdout.readline()):
                        assert process.poll() is None, line
                    time.sleep(chance.uniform(0, 1))
                else:
                    time.sleep(chance.uniform(1, 3))
                    assert process.poll() is None
                killed(process)
                if kill == 0:
                    assert database.state().get("position") is None  # the snapshot starts over
        finally:
            stop.set()
        clients.result()
    database.capture("--snapshot")
    database.files_equal_the_database()
    starts = {path.name.split("-")[0] for path in database.into.glob("*/*.jsonl")}
    assert len(starts) > KILLS


def test_stopped_politely_it_lands_what_it_has(database: Database) -> None:
    process = database.start("--create-slot", "--flush-every", "60", "--gzip", "--json")
    assert process.stdout
    assert json.loads(process.stdout.readline())["changes"] == 0
    opening, _ = workload.plan(seed=5, events=500)
    run(database.conninfo, opening, 1)
    at = lsn(database.value("select pg_current_wal_flush_lsn()::text"))
    received = "select write_lsn::text from pg_stat_replication"
    until(lambda: lsn(database.value(received)) >= at)
    last = json.loads(killed(process, signal.SIGTERM).splitlines()[-1])
    assert process.returncode == 0
    assert last["changes"] > 300 and last["lag_seconds"] >= 0 and last["wal_status"] == "reserved"
    assert last | {"at": ""} == database.status() | {"at": ""}
    assert list(database.into.glob("customers/*.jsonl.gz"))
    database.files_equal_the_database()


def test_a_lost_session_and_a_restarted_server_are_survived(database: Database) -> None:
    opening, days = workload.plan(seed=6, events=2000)
    run(database.conninfo, opening, 1)
    process = database.start("--snapshot")
    until(lambda: database.state().get("position"))
    for part in (days[:200], days[200:400]):
        run(database.conninfo, part, CLIENTS)
        pid = until(lambda: database.value("select active_pid from pg_replication_slots"))
        # Twice: the walsender, and the connection that asks for the lag.
        database.connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where pid = %s or application_name like 'cdc capture%%'",
            (pid,),
        )
    assert until(lambda: database.status()["reconnects"] >= 2)
    run(database.conninfo, days[400:], CLIENTS)
    until(lambda: database.value("select active_pid from pg_replication_slots"))
    # A second reader of the slot says who has it; a second one of the folder ends at once.
    assert "Another process captures into" in database.capture(code=2)
    other = database.capture("--into", str(database.folder / "other"), "--retry-for", "0", code=1)
    assert f"The slot {SLOT} is in use by another process" in other
    assert "is active for PID" in other
    output = killed(process, signal.SIGTERM)
    assert "Nothing is lost; the next try is in 1 s." in output and "The capture goes on." in output
    database.capture()
    database.files_equal_the_database()


def test_a_full_disk_is_waited_out(database: Database) -> None:
    """Files may have 64 KiB, as on a disk that is full then; the change is not confirmed."""
    create = "create table shop.blobs (id integer primary key, text text)"
    database.connection.execute(create)
    database.capture("--create-slot")
    confirmed = "select confirmed_flush_lsn::text from pg_replication_slots"
    before = database.value(confirmed)
    database.connection.execute("insert into shop.blobs select 1, repeat('x', 100000)")

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))

    process = database.start("--retry-for", "1", preexec_fn=limited)
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, output
    assert "The folder cannot be written" in output and "File too large" in output
    assert database.value(confirmed) == before
    assert not list(database.into.glob("blobs/[!_]*"))
    process = database.start("--retry-for", "60", preexec_fn=limited)
    assert process.stdout
    while "next try" not in process.stdout.readline():
        pass
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    until(lambda: list(database.into.glob("blobs/[!_]*")))
    killed(process, signal.SIGTERM)
    database.files_equal_the_database()


def test_a_position_is_confirmed_while_captured_tables_are_quiet(database: Database) -> None:
    database.connection.execute("create table public.noise (id integer)")
    process = database.start("--create-slot", "--status-every", "0.2")
    until(lambda: database.state().get("position"))
    for _ in range(3):
        database.connection.execute("insert into public.noise select generate_series(1, 1000)")
        at = lsn(database.value("select pg_current_wal_flush_lsn()::text"))
        until(lambda at=at: not database.waits(at))
    killed(process)
    assert not list(database.into.glob("[!_]*/*"))


def test_what_has_to_be_changed_first_is_named(database: Database) -> None:
    connection = database.connection
    none = database.capture(code=2)
    assert f"There is no slot {SLOT}. --snapshot makes it" in none
    connection.execute(
        "create table shop.bare (a integer); create unlogged table shop.fleeting (a integer);"
        "create table shop.parted (a integer) partition by range (a);"
        "create schema other; create table other.carts (a integer primary key)"
    )
    tables = ("shop.bare", "shop.fleeting", "shop.parted", "shop.absent", "shop.carts", "none.*")
    options = [part for name in (*tables, "other.carts") for part in ("--table", name)]
    wrong = database.capture("--create-slot", *options, code=2)
    for told in (
        "shop.bare has no primary key and no replica identity: updates and deletes would be lost",
        "--table shop.fleeting: it is not logged",
        "--table shop.parted: it is partitioned",
        "--table shop.absent: there is no such table",
        "--table none.*: the schema has no tables",
        "other.carts and shop.carts have one folder, carts: use --folder-name",
    ):
        assert told in wrong
    connection.execute("drop table shop.bare; drop table shop.fleeting")
    connection.execute(f"select pg_create_logical_replication_slot('{SLOT}', 'test_decoding')")
    assert "is of test_decoding, not of wal2json" in database.capture(code=2)
    connection.execute(f"select pg_drop_replication_slot('{SLOT}')")
    connection.execute(f"select pg_create_logical_replication_slot('{SLOT}', 'wal2json')")
    assert "already exists, so a snapshot would not fit" in database.capture("--snapshot", code=2)
    secret = database.capture("--dsn", "host=x password=hunter2", code=2)
    assert "--dsn holds a password" in secret and "hunter2" not in secret
    assert database.state() == {}


def test_lost_changes_are_named_and_nothing_goes_on(database: Database) -> None:
    connection = database.connection
    database.capture("--create-slot")
    connection.execute("insert into shop.carts (cart_id) values (1)")
    connection.execute(f"select pg_logical_slot_get_changes('{SLOT}', null, null)")
    assert "another reader has moved it to" in database.capture(code=3)
    connection.execute(f"select pg_drop_replication_slot('{SLOT}')")
    assert "it was dropped, or did not survive a failover" in database.capture(code=3)

    shutil.rmtree(database.into)
    database.capture("--create-slot")
    connection.execute("alter system set max_slot_wal_keep_size = '1MB'")
    connection.execute("select pg_reload_conf()")
    connection.execute("create table public.noise (text text)")
    for _ in range(3):
        connection.execute("insert into public.noise select 'x'")
        connection.execute("select pg_switch_wal()")
    connection.execute("checkpoint")
    assert until(lambda: database.value("select wal_status from pg_replication_slots") == "lost")
    gone = database.capture("--snapshot", code=3)
    assert "the server has invalidated it (wal_status is lost)" in gone
    assert "Begin again with another folder, a new slot and --snapshot" in gone


def test_the_role_of_the_page_can_capture_and_do_no_more(database: Database) -> None:
    """The SQL is that of docs/capture.md."""
    page = (ROOT / "docs" / "capture.md").read_text()
    script = page.split("```sql\n", 1)[1].split("```", 1)[0]
    assert "create role" in script and "grant select" in script
    database.connection.execute(script)
    opening, _ = workload.plan(seed=8, events=300)
    run(database.conninfo, opening, 1)
    tables = ("--table", "shop.customers", "--table", "shop.orders")
    role = "cdc_capture"
    database.capture("--snapshot", *tables, user=role)
    database.connection.execute("update shop.customers set name = 'changed'")
    database.capture(*tables, user=role)
    assert {path.name for path in database.into.iterdir()} == {"_capture", "customers", "orders"}
    changed = [event for event in database.events("customers") if event["action"] == "U"]
    assert len(changed) == database.value("select count(*) from shop.customers")

    place = f"host={database.host} user={role} dbname=postgres"
    with psycopg.connect(place, autocommit=True) as connection:
        for statement in (
            "insert into shop.customers (customer_id, name) values (0, 'x')",
            "update shop.orders set status = 'x'",
            "delete from shop.customers",
            "truncate shop.orders",
            "select * from shop.payments",
            "select * from shop.addresses",
            "create table shop.mine (a integer)",
            "create table public.mine (a integer)",
            "alter table shop.orders add column a integer",
            "create role other",
            "select pg_read_file('/etc/passwd')",
            "copy shop.customers to '/tmp/out'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    other = ("--into", str(database.folder / "other"), "--slot", "another", "--snapshot")
    refused = database.capture(*other, "--table", "shop.payments", code=2, user=role)
    assert "grant select on shop.payments to the role" in refused
    assert database.value("select count(*) from pg_replication_slots") == 1


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj")


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def authority(folder: Path, name: str) -> Path:
    """Makes an authority; returns its certificate, beside which its key is."""
    made = folder / f"{name}.crt"
    key = ("-keyout", made.with_suffix(".key"))
    openssl("req", "-x509", *NEW_KEY, f"/CN={name}", "-days", "2", *key, "-out", made)
    return made


def server_certificate(issuer: Path, name: str, data: Path) -> None:
    """Puts key and certificate where a server looks for them, under the names that it expects."""
    key, asked, made = (data / f"server.{end}" for end in ("key", "csr", "crt"))
    openssl("req", "-new", *NEW_KEY, f"/CN={name}", "-keyout", key, "-out", asked)
    names = issuer.with_name("names.cnf")
    names.write_text(f"subjectAltName = DNS:{name}\n")
    signed = ("-CA", issuer, "-CAkey", issuer.with_suffix(".key"), "-set_serial", "1")
    openssl("x509", "-req", "-in", asked, *signed, "-extfile", names, "-out", made, "-days", "2")
    key.chmod(0o600)
    for path in (key, made):
        os.chown(path, data.stat().st_uid, data.stat().st_gid)


def test_tls_is_verified_and_what_fails_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    name, password = "db.example.test", "hunter2"
    known, other = authority(tmp_path, "known"), authority(tmp_path, "other")
    port = free_port()
    with opened(tmp_path, port) as database:
        data = Path(database.value("show data_directory"))
        server_certificate(known, name, data)
        (data / "pg_hba.conf").write_text(
            "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
        )
        for statement in (
            f"create role reading login replication password '{password}'",
            "grant usage on schema shop to reading",
            "grant select on all tables in schema shop to reading",
            "insert into shop.carts (cart_id) values (1)",
            "alter system set ssl = on",
            "select pg_reload_conf()",
        ):
            database.connection.execute(statement)
        until(lambda: database.value("show ssl") == "on")

        def capture(code: int = 0, root: Path = known, **place: str) -> str:
            monkeypatch.setenv("PGSSLROOTCERT", str(root))
            place = {"host": name, "sslmode": "verify-full", **place}
            place |= {"hostaddr": "127.0.0.1", "port": str(port), "user": "reading"}
            dsn = psycopg.conninfo.make_conninfo(**place, dbname="postgres")
            output = database.capture("--dsn", dsn, "--snapshot", code=code)
            assert password not in output and "CERTIFICATE" not in output
            assert not any(line in output for line in known.read_text().splitlines())
            return output

        monkeypatch.setenv("PGPASSWORD", password)
        for root in (other, tmp_path / "none.crt"):
            output = capture(2, root)
            assert "certificate" in output and "set PGSSLROOTCERT, or sslrootcert in" in output
        output = capture(2, host="elsewhere.example.test")
        assert f'"{name}" does not match host name "elsewhere.example.test"' in output
        assert "set PGHOST, or host in --dsn, to a name that it has" in output
        output = capture(2, host="")
        assert "host name must be specified" in output and "set PGHOST, or host in" in output
        assert "no encryption" in capture(2, sslmode="disable")
        monkeypatch.setenv("PGPASSWORD", "wrong")
        assert "password authentication failed" in capture(2)
        assert database.value("select count(*) from pg_replication_slots") == 0
        assert database.state() == {} and not list(database.into.glob("[!_]*"))

        monkeypatch.setenv("PGPASSWORD", password)
        capture()
        assert len(database.events("carts")) == 1
