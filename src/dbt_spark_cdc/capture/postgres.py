"""`cdc capture postgres`: reads a slot of wal2json into a landing folder, exactly once."""

from __future__ import annotations

import errno
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import psycopg

from dbt_spark_cdc.capture import server, snapshot
from dbt_spark_cdc.capture.folder import Batch, CaptureFolder, State
from dbt_spark_cdc.capture.lsn import format_lsn, microseconds, parse_lsn
from dbt_spark_cdc.capture.options import Options
from dbt_spark_cdc.capture.problems import CaptureProblem, Misconfigured, Unavailable
from dbt_spark_cdc.capture.server import Table
from dbt_spark_cdc.capture.stream import Message, Stream

LONGEST_PAUSE = 30.0
# Seconds after which a signal to stop is heeded, at the latest.
POLL_SECONDS = 0.2
# wal2json writes the fields in this order; a line that differs is read as JSON.
_CHANGE = re.compile(
    rb'\{"action":"[IUDT]","xid":\d+,"timestamp":"[^"]*","lsn":"[^"]*",'
    rb'"schema":("(?:[^"\\]|\\.)*"),"table":("(?:[^"\\]|\\.)*")'
)
_CHANGES = ("I", "U", "D", "T")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNIDENTIFIED = "no tuple identifier"

Tell = Callable[[str], None]


class Stopped(Exception):
    """The command was asked to stop."""


@dataclass
class Counters:
    """What was captured since the process began.

    Attributes:
        changes: Changes that are in files.
        transactions: Transactions that were received, also of tables that are not captured.
        snapshot_rows: Rows of the snapshot.
        batches: Times that files were landed.
        bytes: Bytes of lines that are in files.
        reconnects: Failures that were tried again.
        unidentified: Updates and deletes that wal2json could not print, because their table has no
            primary key and no replica identity.
        lag_seconds: The longest time from a commit until its changes were on the disk, since the
            last report; None where nothing was landed.
    """

    changes: int = 0
    transactions: int = 0
    snapshot_rows: int = 0
    batches: int = 0
    bytes: int = 0
    reconnects: int = 0
    unidentified: int = 0
    lag_seconds: float | None = None


@dataclass
class Capture:
    """A capture that tries again until it is stopped.

    Attributes:
        options: The command's.
        tell: Takes a sentence for the log.
        report: Takes the numbers, every `status_seconds`.
        pause: Waits some seconds; true where the command was asked to stop.
        environment: The environment variables.
        is_silent: Whether `report` has failed, which is said once.
    """

    options: Options
    tell: Tell
    report: Callable[[dict[str, Any]], None]
    pause: Callable[[float], bool]
    environment: dict[str, str]
    counters: Counters = field(default_factory=Counters)
    is_silent: bool = False

    def run(self) -> None:
        """Captures until it is stopped; with `once`, until the folder has what is committed now.

        Raises:
            CaptureProblem: It cannot go on, or tried in vain for too long.
        """
        folder = CaptureFolder(self.options.into, self.options.compressed)
        with folder.locked():
            failing_since: float | None = None
            failures = 0

            def healthy() -> None:
                nonlocal failing_since, failures
                if failing_since is not None:
                    self.tell("The capture goes on.")
                failing_since, failures = None, 0

            while True:
                try:
                    return self._session(folder, healthy)
                except Stopped:
                    return
                except (Unavailable, OSError, psycopg.Error) as exc:
                    problem = _temporary(exc, self.options)
                if not isinstance(problem, Unavailable):
                    raise problem
                now = time.monotonic()
                failing_since = now if failing_since is None else failing_since
                if now - failing_since >= self.options.retry_seconds:
                    raise problem
                wait = min(2.0**failures, LONGEST_PAUSE)
                failures += 1
                self.counters.reconnects += 1
                self.tell(f"{problem} Nothing is lost; the next try is in {wait:.0f} s.")
                if self.pause(wait):
                    return

    def _session(self, folder: CaptureFolder, healthy: Callable[[], None]) -> None:
        """Captures until the connection is lost; each one begins like a new process."""
        options = self.options
        state, gone = folder.recover()
        for name in gone:
            self.tell(f"{options.into / name} was landed last and is not there any more.")
        arguments = server.settings(options.dsn, options.slot, self.environment)
        connection = server.connect(arguments)
        try:
            stream = Stream(arguments, options.slot)
            try:
                state = self._begin(folder, state, connection, stream)
                Session(self, folder, state, connection, stream, healthy).run()
            finally:
                stream.close()
        finally:
            connection.close()

    def _begin(
        self,
        folder: CaptureFolder,
        state: State | None,
        connection: psycopg.Connection,
        stream: Stream,
    ) -> State:
        """Checks everything, and brings folder and slot to where changes can follow."""
        options = self.options
        warn_of_open_connection(connection, self.tell)
        tables = server.check_database(connection, options)
        system, database = stream.system(), connection.info.dbname
        slot = server.read_slot(connection, options.slot)
        at = server.server_position(connection)
        step = server.next_step(state, slot, options, system, database, at)
        names = tuple(str(wanted) for wanted in options.tables)
        new = State(options.slot, system, database, names)
        if step == "stream":
            assert state
            for name in sorted(set(names) - set(state.tables)):
                self.tell(
                    f"{name} is captured from now on; the rows that it held before are not in the "
                    "folder."
                )
            return state if names == state.tables else _replaced(folder, state, names)
        if step == "adopt":
            assert slot and slot.confirmed is not None
            return _replaced(folder, new, names, slot.confirmed)
        if step == "create":
            return _replaced(folder, new, names, stream.create_slot().position)
        if missing := snapshot.tables_without_rights(tables):
            raise Misconfigured("\n  - ".join(["The snapshot cannot begin.", *missing]))
        # From here on a slot of this name is ours; without a position it may be dropped.
        folder.save(new)
        if slot:
            connection.execute("select pg_drop_replication_slot(%s)", (options.slot,))
            self.tell("The snapshot was not finished: it starts again.")
        return self._snapshot(folder, new, tables, connection, stream)

    def _snapshot(
        self,
        folder: CaptureFolder,
        state: State,
        tables: Iterable[Table],
        connection: psycopg.Connection,
        stream: Stream,
    ) -> State:
        options, counters = self.options, self.counters
        self.tell("The slot is made now, which waits for the transactions that are open.")
        at = snapshot.time_before(connection)
        made = stream.create_slot()
        counters.snapshot_rows = 0
        batch = Batch(folder, 0, options.file_bytes)
        reader = server.connect(server.settings(options.dsn, options.slot, self.environment))
        due = time.monotonic() + options.status_seconds
        try:
            snapshot.begin(reader, made.snapshot)
            for table in tables:
                name = options.folder(table.schema, table.name)
                for line in snapshot.rows(reader, table, at):
                    batch.add(name, line)
                    counters.snapshot_rows += 1
                    if counters.snapshot_rows % 1000 == 0:
                        if self.pause(0):
                            raise Stopped
                        if time.monotonic() >= due:
                            self.tell(f"Snapshot: {counters.snapshot_rows} rows, now of {table}")
                            due = time.monotonic() + options.status_seconds
        finally:
            reader.close()
        landed = batch.commit(state, made.position)
        counters.bytes += batch.bytes
        self.tell(f"Snapshot: {counters.snapshot_rows} rows at {format_lsn(made.position)}.")
        return landed


class Session:
    """A stream that is read into the folder."""

    def __init__(
        self,
        capture: Capture,
        folder: CaptureFolder,
        state: State,
        connection: psycopg.Connection,
        stream: Stream,
        healthy: Callable[[], None],
    ) -> None:
        """Prepares to read what follows the folder's position.

        Args:
            capture: To which it belongs.
            folder: Where the files go.
            state: How far the folder's files reach.
            connection: One for questions.
            stream: One that was not started.
            healthy: To be called whenever the folder is up to date with what was received.
        """
        assert state.position is not None
        self.options, self.counters = capture.options, capture.counters
        self.capture, self.folder, self.state = capture, folder, state
        self.connection, self.stream, self.healthy = connection, stream, healthy
        self.position = state.position
        # Everything that was committed before it has been received.
        self.received = state.position
        self.batch = self._new_batch()
        self.in_transaction = False
        self.skips = False
        # The oldest commit of the batch: when it was received, and how old it was then.
        self.since = 0.0
        self.age = 0.0
        self.folders: dict[tuple[bytes, bytes], str] = {}
        self.codec = _codec(connection)

    def run(self) -> None:
        """Reads until the command is stopped or, with `once`, until it has caught up."""
        options = self.options
        goal = server.server_position(self.connection) if options.once else None
        self.stream.start(self.position, plugin_options(options))
        now = time.monotonic()
        status_due = reply_due = stop_due = now
        # An idle server sends nothing to land. By then a full disk would have shown.
        healthy_at = now + max(options.status_seconds, options.flush_seconds)
        while True:
            message = self.stream.receive(POLL_SECONDS if goal is None else POLL_SECONDS / 4)
            if message:
                self._take(message)
            now = time.monotonic()
            if not self.in_transaction:
                waits = self.batch.lines and now - self.since >= options.flush_seconds
                if waits or self.batch.bytes >= options.file_bytes:
                    self._land()
                if goal is not None and self.received >= goal:
                    self._land()
                    self._status()
                    return
            if now >= status_due:
                status_due = now + options.status_seconds
                self._heartbeat()
                self._status()
                is_up_to_date = not (self.in_transaction or self.batch.lines)
                if now >= healthy_at and is_up_to_date:
                    self.healthy()
            if goal is not None and now >= reply_due:
                reply_due = now + POLL_SECONDS
                self.stream.confirm(self.received, self.position, wants_reply=True)
            if now >= stop_due:
                stop_due = now + POLL_SECONDS
                self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self.capture.pause(0):
            if not self.in_transaction:
                self._land()
            self._status()
            raise Stopped

    def _take(self, message: Message) -> None:
        line = message.payload
        if line is None:
            if not self.in_transaction:
                self.received = max(self.received, message.position)
            if message.wants_reply:
                self.stream.confirm(self.received, self.position)
            return
        found = _CHANGE.match(line)
        if found:
            if not self.skips:
                self._change(found[1], found[2], line)
            return
        record = json.loads(line)
        action = record.get("action")
        if action == "B":
            self.in_transaction = True
            self.skips = parse_lsn(record["nextlsn"]) <= self.position
            if not self.batch.lines:
                self.since = time.monotonic()
                self.age = (message.sent - microseconds(record["timestamp"])) / 1e6
        elif action == "C":
            self.in_transaction = False
            self.received = max(self.received, parse_lsn(record["nextlsn"]))
            self.counters.transactions += not self.skips
        elif action in _CHANGES and not self.skips:
            schema, table = (json.dumps(record[name]).encode() for name in ("schema", "table"))
            self._change(schema, table, line)
        self._warn()

    def _change(self, schema: bytes, table: bytes, line: bytes) -> None:
        known = self.folders.get((schema, table))
        if known is None:
            known = self.folders[schema, table] = self._folder_of(schema, table)
        if self.codec:
            line = line.decode(self.codec).encode()
        self.batch.add(known, line)

    def _folder_of(self, schema: bytes, table: bytes) -> str:
        names = [self._decoded(name) for name in (schema, table)]
        seen = [(self._decoded(one), self._decoded(other)) for one, other in self.folders]
        if problems := server.check_folders(self.options, [*seen, (names[0], names[1])]):
            raise Misconfigured(
                f"A new table cannot be landed: {' '.join(problems)} Nothing is lost: its changes "
                "wait in the slot."
            )
        return self.options.folder(*names)

    def _decoded(self, name: bytes) -> str:
        return str(json.loads(name.decode(self.codec or "utf-8")))

    def _land(self) -> None:
        """Lands the batch, and then lets the server forget its changes."""
        if self.received > self.position:
            counters, batch = self.counters, self.batch
            self.state = batch.commit(self.state, self.received)
            self.position = self.received
            if batch.lines:
                lag = self.age + time.monotonic() - self.since
                counters.lag_seconds = max(lag, counters.lag_seconds or 0.0)
                counters.batches += 1
                counters.changes += batch.lines
                counters.bytes += batch.bytes
            self.batch = self._new_batch()
            self.healthy()
        self.stream.confirm(self.received, self.position)

    def _heartbeat(self) -> None:
        """Confirms a position also where no captured table changes: the server keeps no log."""
        if not self.in_transaction and not self.batch.lines:
            self._land()
        else:
            self.stream.confirm(self.received, self.position)

    def _new_batch(self) -> Batch:
        return Batch(self.folder, self.position, self.options.file_bytes)

    def _warn(self) -> None:
        for warning in self.stream.warnings:
            if _UNIDENTIFIED in warning:
                self.counters.unidentified += 1
                warning += (
                    ": the change is in no file. Run: alter table ... replica identity full; and "
                    "take the table's rows again."
                )
            self.capture.tell(f"PostgreSQL warns: {warning}")
        self.stream.warnings.clear()

    def _status(self) -> None:
        at = server.server_position(self.connection)
        slot = server.read_slot(self.connection, self.options.slot)
        counters = self.counters
        status = {
            "at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "slot": self.options.slot,
            "position": format_lsn(self.position),
            "lag_bytes": max(at - self.position, 0),
            "lag_seconds": None if counters.lag_seconds is None else round(counters.lag_seconds, 3),
            "retained_bytes": None if slot is None or slot.restart is None else at - slot.restart,
            "wal_status": slot.wal_status if slot else None,
            "changes": counters.changes,
            "transactions": counters.transactions,
            "snapshot_rows": counters.snapshot_rows,
            "batches": counters.batches,
            "bytes": counters.bytes,
            "reconnects": counters.reconnects,
            "unidentified": counters.unidentified,
        }
        counters.lag_seconds = None
        self.folder.write_json("status.json", status)
        try:
            self.capture.report(status)
        except OSError as exc:  # the folder has no part in it, and changes must not wait for it
            if not self.capture.is_silent:
                self.capture.is_silent = True
                self.capture.tell(f"Reports cannot be printed, and are in status.json: {exc}.")


def plugin_options(options: Options) -> dict[str, str]:
    """Returns the options of wal2json.

    Args:
        options: The command's.
    """
    return {
        "format-version": "2",
        "include-lsn": "true",
        "include-timestamp": "true",
        "include-xids": "true",
        "include-types": "true",
        "include-typmod": "true",
        "include-pk": "true",
        "add-tables": ",".join(wanted.pattern for wanted in options.tables),
    }


def warn_of_open_connection(connection: psycopg.Connection, tell: Tell) -> None:
    """Says so where the connection to another machine can be read or redirected on the way.

    Args:
        connection: A connection to the database.
        tell: Prints a line.
    """
    status = connection.info.get_parameters()
    host = connection.info.hostaddr or connection.info.host
    if host in server.LOCAL or host.startswith(("/", "@")):
        return
    if not connection.pgconn.ssl_in_use:
        tell(f"The connection to {connection.info.host} is not encrypted (sslmode).")
    elif status.get("sslmode") not in ("verify-ca", "verify-full"):
        tell(f"The certificate of {connection.info.host} is not verified (sslmode).")


def _replaced(
    folder: CaptureFolder, state: State, tables: tuple[str, ...], position: int | None = None
) -> State:
    at = state.position if position is None else position
    new = replace(state, tables=tables, position=at)
    folder.save(new)
    return new


def _codec(connection: psycopg.Connection) -> str | None:
    """The Python codec of the database, in which wal2json prints; None where it is UTF-8."""
    row = connection.execute("show server_encoding").fetchone()
    assert row
    if row[0] in ("UTF8", "SQL_ASCII"):
        return None
    # The client's encoding decides which codec psycopg names.
    connection.execute("select set_config('client_encoding', %s, false)", row)
    codec = connection.info.encoding
    connection.execute("set client_encoding to 'UTF8'")
    return codec


def _temporary(exc: Exception, options: Options) -> CaptureProblem:
    """Tells what interrupted a session."""
    if isinstance(exc, CaptureProblem):
        return exc
    if isinstance(exc, OSError):
        is_full = exc.errno in _FULL
        what = "The disk is full" if is_full else "The folder cannot be written"
        remedy = "Make room" if is_full else "Let this user write it"
        return Unavailable(f"{what}: {options.into}: {exc}. {remedy}; nothing is lost.")
    assert isinstance(exc, psycopg.Error)
    return server.meaning(exc.sqlstate, str(exc), options.slot)
