"""The PostgreSQL server: connections, what is checked first, and what its errors mean."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbt_spark_cdc.capture.folder import State
from dbt_spark_cdc.capture.lsn import format_lsn, parse_lsn
from dbt_spark_cdc.capture.options import ALL, Options, Wanted
from dbt_spark_cdc.capture.problems import (
    CaptureProblem,
    ChangesLost,
    Misconfigured,
    Unavailable,
)

try:
    import psycopg
except ImportError as exc:
    raise Misconfigured(
        "cdc capture postgres needs psycopg: pip install 'dbt-spark-cdc[postgres]'"
    ) from exc
from psycopg import conninfo

PLUGIN = "wal2json"
# The log and the rows of a snapshot are printed by the same rules, whatever the role's are.
SESSION = (
    *("-c TimeZone=UTC", "-c DateStyle=ISO", "-c IntervalStyle=postgres"),
    *("-c extra_float_digits=1", "-c bytea_output=hex", "-c statement_timeout=0"),
    # A row that a policy hides would be missing from a snapshot; with this it is an error.
    "-c row_security=off",
)
# A peer that is gone without a word is noticed within about a minute.
DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
LOCAL = ("", "localhost", "127.0.0.1", "::1")
# Of a connection that was refused: waiting changes nothing.
REFUSED = (
    *("authentication failed", "no password supplied", "pg_hba.conf", "does not exist"),
    *("certificate", "server does not support SSL", "is not permitted to log in"),
    *("must be superuser or replication role", "invalid ", "may not be used"),
    *("host name must be specified", "private key file", "alert unknown ca"),
)
# The relations of some schemas: identity, kind, whether they are logged, and what the log says of
# updates and deletes.
RELATIONS = """
    select c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text,
        c.relpersistence::text,
        case c.relreplident
            when 'f' then true
            when 'n' then false
            when 'd' then exists (select from pg_index where indrelid = c.oid and indisprimary)
            else exists (select from pg_index where indrelid = c.oid and indisreplident)
        end,
        has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname = any (%s)
    order by n.nspname, c.relname
"""


@dataclass(frozen=True)
class Slot:
    """A row of pg_replication_slots."""

    plugin: str | None
    database: str | None
    wal_status: str | None
    reason: str | None
    confirmed: int | None
    restart: int | None = None


@dataclass(frozen=True)
class Table:
    """A table that is captured."""

    oid: int
    schema: str
    name: str
    identified: bool
    readable: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def settings(dsn: str, slot: str, environment: dict[str, str]) -> dict[str, Any]:
    """Completes a connection string.

    Without an `sslmode` of the user's a connection to another machine needs a certificate that a
    known authority has issued for the server's name: `verify-full`.

    Args:
        dsn: How to reach the database, in libpq's words.
        slot: Name of the slot, by which the server's administrator knows the connection.
        environment: The environment variables.

    Returns:
        The arguments for `psycopg.connect`.

    Raises:
        Misconfigured: The connection string cannot be read, or holds a password.
    """
    try:
        given: dict[str, Any] = conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as exc:
        raise Misconfigured(
            f"--dsn cannot be read: {str(exc).strip()}. Write it as libpq does, such as 'host=db "
            "dbname=shop user=cdc' or postgresql://cdc@db/shop."
        ) from exc
    for secret in sorted(given.keys() & {"password", "sslpassword"}):
        raise Misconfigured(
            f"--dsn holds a {secret}, which every user of this machine can read in the list of "
            "processes. Use PGPASSFILE (~/.pgpass), a service file or PGPASSWORD; for the key of "
            "a certificate one without a password, readable by this user alone."
        )
    complete = DEFAULTS | {"fallback_application_name": f"cdc capture {slot}"} | given
    if environment.get("PGCONNECT_TIMEOUT") and "connect_timeout" not in given:
        del complete["connect_timeout"]
    asked = str(given.get("options") or environment.get("PGOPTIONS", ""))
    complete["options"] = " ".join([asked, *SESSION]).strip()
    complete["client_encoding"] = "utf8"
    by_service = given.get("service") or environment.get("PGSERVICE")
    hosts = str(given.get("host") or environment.get("PGHOST", ""))
    hosts = str(given.get("hostaddr") or hosts)
    is_local = all(host in LOCAL or host.startswith(("/", "@")) for host in hosts.split(","))
    if not (by_service or is_local or given.get("sslmode") or environment.get("PGSSLMODE")):
        complete["sslmode"] = "verify-full"
    return complete


def connect(arguments: dict[str, Any], **more: str) -> psycopg.Connection:
    """Connects to the database.

    Args:
        arguments: What `settings` returns.
        more: Further arguments of `psycopg.connect`.

    Raises:
        Misconfigured: The server refuses the connection.
        Unavailable: It cannot be reached.
    """
    try:
        return psycopg.connect(**(arguments | more), autocommit=True)
    except psycopg.OperationalError as exc:
        raise refusal(str(exc)) from exc


def refusal(text: str) -> CaptureProblem:
    """Tells what a connection that could not be made means.

    Args:
        text: What libpq says.
    """
    message = " ".join(text.split())
    if "must be superuser or replication role" in message:
        message += " Let an administrator run: alter role ... replication"
    elif "root certificate file" in message or "certificate verify failed" in message:
        message += (
            " The server's certificate is verified, also where you name no sslmode: set "
            "PGSSLROOTCERT, or sslrootcert in --dsn, to the file of the authority that has issued "
            "it (`system` for those of the operating system), or choose another sslmode."
        )
    elif "does not match host name" in message or "host name must be specified" in message:
        message += (
            " The certificate has to be for the name that you connect to: set PGHOST, or host in "
            "--dsn, to a name that it has (hostaddr may give the address), or let the server have "
            "a certificate for this name."
        )
    kind = Misconfigured if any(part in message for part in REFUSED) else Unavailable
    return kind(f"No connection to PostgreSQL: {message}")


def meaning(sqlstate: str | None, text: str, slot: str) -> CaptureProblem:
    """Tells what an error of the server means for the capture.

    Args:
        sqlstate: Its code.
        text: Its message, with detail and hint.
        slot: Name of the slot.
    """
    message = " ".join(text.split())
    if "may not be used as an output plugin" in message:
        return Misconfigured(
            f"The server does not allow {PLUGIN}: {message} Let an administrator add it:"
            f" alter system set output_plugin_libraries = 'pgoutput, {PLUGIN}';"
            " select pg_reload_conf()"
        )
    if sqlstate == "58P01" and PLUGIN in message:
        return Misconfigured(
            f"The server has no {PLUGIN}: {message} On Debian it is the package "
            f"postgresql-<version>-{PLUGIN}."
        )
    if sqlstate == "58P01" or "invalidated" in message or "can no longer" in message:
        return ChangesLost(lost(slot, message))
    if sqlstate == "55006":
        return Unavailable(
            f"The slot {slot} is in use by another process: {message} End it, or let it end."
        )
    if sqlstate == "53400":
        return Misconfigured(
            f"{message} Raise max_replication_slots, or drop a slot that nobody reads: "
            "select pg_drop_replication_slot(...)"
        )
    if sqlstate == "42501":
        return Misconfigured(
            f"{message} The role needs `replication`, and for the snapshot `usage` on the schemas "
            "and `select` on the tables: alter role <role> replication; grant usage on schema "
            "<schema> to <role>; grant select on <schema>.<table> to <role>"
        )
    if sqlstate and sqlstate[:2] in ("22", "42"):
        return Misconfigured(message)
    return Unavailable(message or "The server ended the connection.")


def lost(slot: str, why: str) -> str:
    """Returns the message for a slot whose changes are gone.

    Args:
        slot: Name of the slot.
        why: What has happened, as a sentence.
    """
    return (
        f"The slot {slot} cannot give the next changes: {why} What is in the folder is whole up to "
        "its position. Begin again with another folder, a new slot and --snapshot; the tables take "
        f"the rows as a new state. To let go of the old slot: "
        f"select pg_drop_replication_slot('{slot}')"
    )


def read_slot(connection: psycopg.Connection, name: str) -> Slot | None:
    """Returns the slot of a name, or None.

    Args:
        connection: A connection to the database.
        name: Name of the slot.
    """
    row = connection.execute(
        """
        select plugin::text, database::text, wal_status,
            coalesce(to_jsonb(s)->>'invalidation_reason', case when
                to_jsonb(s)->>'conflicting' = 'true' then 'a conflict with recovery' end),
            confirmed_flush_lsn::text, restart_lsn::text
        from pg_replication_slots s where slot_name = %s
        """,
        (name,),
    ).fetchone()
    return Slot(*row[:4], *(at and parse_lsn(at) for at in row[4:])) if row else None


def server_position(connection: psycopg.Connection) -> int:
    """Returns how far the server's log is on its disk.

    Args:
        connection: A connection to the database.
    """
    row = connection.execute(
        "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() "
        "else pg_current_wal_flush_lsn() end::text"
    ).fetchone()
    assert row
    return parse_lsn(row[0])


def check_database(connection: psycopg.Connection, options: Options) -> list[Table]:
    """Checks server and tables.

    Args:
        connection: A connection to the database.
        options: The command's.

    Returns:
        The tables that are captured.

    Raises:
        Misconfigured: All that has to be changed.
    """
    problems = []
    level = connection.execute("show wal_level").fetchone()
    if level != ("logical",):
        problems.append(
            f"wal_level is {level[0] if level else '?'}. Let an administrator run: alter system "
            "set wal_level = logical; and restart the server."
        )
    schemas = [wanted.schema for wanted in options.tables]
    rows = connection.execute(RELATIONS, (schemas,)).fetchall()
    tables = [
        Table(oid, schema, name, identified, readable)
        for oid, schema, name, kind, kept, identified, readable in rows
        if kind == "r" and kept == "p" and options.wants(schema, name)
    ]
    kinds = {(row[1], row[2]): (row[3], row[4]) for row in rows}
    problems += [
        f"--table {wanted}: {problem}"
        for wanted in options.tables
        if (problem := _problem_of(wanted, tables, kinds))
    ]
    problems += [
        f"{table} has no primary key and no replica identity: updates and deletes would be "
        f"lost. Run: alter table {table} replica identity full; or, where rows are only "
        f"inserted, name it with --insert-only {table}."
        for table in tables
        if not table.identified
        and not any(wanted.covers(table.schema, table.name) for wanted in options.insert_only)
    ]
    problems += check_folders(options, [(table.schema, table.name) for table in tables])
    if problems:
        raise Misconfigured("\n  - ".join(["The capture cannot begin.", *problems]))
    return tables


def _problem_of(
    wanted: Wanted, tables: Sequence[Table], kinds: Mapping[tuple[str, str], tuple[str, str]]
) -> str | None:
    """Why a wanted table, or schema, cannot be captured; None where it can.

    Args:
        wanted: What the command names.
        tables: The tables that can be.
        kinds: Kind and persistence of all relations, by schema and name, as PostgreSQL has them.
    """
    if wanted.table == ALL:
        has_any = any(wanted.covers(table.schema, table.name) for table in tables)
        remedy = "Correct its name, or create its tables first."
        return None if has_any else f"the schema has no tables, or is not there. {remedy}"
    if (wanted.schema, wanted.table) not in kinds:
        return "there is no such table. Correct its name, as the database spells it."
    kind, persistence = kinds[wanted.schema, wanted.table]
    if kind == "p":
        return (
            "it is partitioned, and its changes carry the names of the "
            f"partitions. Name these, or '{wanted.schema}.*'."
        )
    if kind != "r":
        return "it is not a table, so its changes are not logged. Name the table of its rows."
    if persistence != "p":
        return (
            "it is not logged (unlogged or temporary). Leave it out; or, if it is unlogged, run: "
            f"alter table {wanted} set logged."
        )
    return None


def check_folders(options: Options, tables: Sequence[tuple[str, str]]) -> list[str]:
    """Returns what is wrong with the folders of tables.

    Args:
        options: The command's.
        tables: Schema and name of each.
    """
    problems = []
    folders = defaultdict(list)
    for schema, table in tables:
        try:
            folders[options.folder(schema, table)].append(f"{schema}.{table}")
        except ValueError as exc:
            problems.append(f"{exc}.")
    problems += [
        f"{' and '.join(names)} have one folder, {folder}: use --folder-name "
        "'{schema}.{table}'."
        for folder, names in folders.items()
        if len(names) > 1
    ]
    return problems


def next_step(
    state: State | None,
    slot: Slot | None,
    options: Options,
    system: str,
    database: str,
    server_at: int,
) -> str:
    """Decides how a capture begins: what is in the folder against what the server has.

    Args:
        state: How far the folder's files reach.
        slot: The slot, where there is one.
        options: The command's.
        system: Identifier of the server's data directory.
        database: Its database.
        server_at: The server's position.

    Returns:
        `stream` (go on), `adopt` (go on from the slot's own position), `create` (make the slot
        first) or `snapshot` (make the slot, drop one that an unfinished snapshot left, and take the
        rows first).

    Raises:
        Misconfigured: Folder, slot and options do not fit.
        ChangesLost: Changes are missing between the folder's and the slot's position.
    """
    name = options.slot
    if state and state.slot != name:
        raise Misconfigured(
            f"{options.into} holds the files of the slot {state.slot}, not of {name}. A folder is "
            "filled by one slot: name another folder with --into."
        )
    if slot and slot.plugin != PLUGIN:
        raise Misconfigured(
            f"The slot {name} is of {slot.plugin or 'physical replication'}, not of {PLUGIN}. Name "
            "another slot."
        )
    if slot and slot.database != database:
        raise Misconfigured(
            f"The slot {name} is of the database {slot.database}, and the connection is to "
            f"{database}. Name another slot, or connect to that database."
        )
    if state is None or state.position is None:
        return _first_step(state, slot, options)
    if state.system != system:
        raise ChangesLost(
            lost(name, f"the files are of the server {state.system}, and this one is {system}.")
        )
    if slot is None:
        raise ChangesLost(lost(name, "it was dropped, or did not survive a failover."))
    _check_valid(slot, name)
    if slot.confirmed is not None and slot.confirmed > state.position:
        raise ChangesLost(
            lost(
                name,
                f"another reader has moved it to {format_lsn(slot.confirmed)}, and the folder ends "
                f"at {format_lsn(state.position)}.",
            )
        )
    if server_at < state.position:
        raise ChangesLost(
            lost(
                name,
                f"the server is at {format_lsn(server_at)} and the folder at "
                f"{format_lsn(state.position)}: the server was set back, by a restored backup or a "
                "failover that lost transactions.",
            )
        )
    return "stream"


def _first_step(state: State | None, slot: Slot | None, options: Options) -> str:
    """What `next_step` decides where the folder has no position yet."""
    name = options.slot
    if state and not options.snapshot:
        raise Misconfigured(
            "A snapshot was begun and not finished. Run the command with --snapshot; it starts "
            "over."
        )
    if options.snapshot and slot and not state:
        raise Misconfigured(
            f"The slot {name} already exists, so a snapshot would not fit its position. "
            f"Drop it (select pg_drop_replication_slot('{name}')), name another, or leave out "
            "--snapshot."
        )
    if options.snapshot:
        return "snapshot"
    if slot is None and not options.create_slot:
        raise Misconfigured(
            f"There is no slot {name}. --snapshot makes it and begins with the rows that the "
            "tables hold; --create-slot makes it and captures what changes from now on."
        )
    if slot:
        _check_valid(slot, name)
    return "adopt" if slot else "create"


def _check_valid(slot: Slot, name: str) -> None:
    if slot.wal_status == "lost" or slot.reason:
        raise ChangesLost(
            lost(
                name,
                f"the server has invalidated it ({slot.reason or 'wal_status is lost'}), because "
                "it held back more log than max_slot_wal_keep_size allows.",
            )
        )


def environment() -> dict[str, str]:
    """Returns the environment variables."""
    return dict(os.environ)
