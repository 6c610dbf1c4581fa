"""The options of `cdc capture postgres`, checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_NAME = r'("(?:[^"]|"")+"|[^".]+)'
_TABLE = re.compile(rf"{_NAME}\.{_NAME}")
# Characters that have a meaning in wal2json's lists.
_SPECIAL = re.compile(r"([\\ ,.*'\"])")
_FIELDS = re.compile(r"\{([^{}]*)\}")

ALL = "*"


@dataclass(frozen=True)
class Wanted:
    """A table to capture, or all tables of a schema."""

    schema: str
    table: str

    @property
    def pattern(self) -> str:
        """As an entry of wal2json's option `add-tables`."""
        table = ALL if self.table == ALL else _escaped(self.table)
        return f"{_escaped(self.schema)}.{table}"

    def covers(self, schema: str, table: str) -> bool:
        """Tells whether a table is meant.

        Args:
            schema: Schema of the table.
            table: Its name.
        """
        return self.schema == schema and self.table in (ALL, table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True)
class Options:
    """The options of the command.

    Attributes:
        dsn: How to reach the database, in libpq's words and without a password.
        slot: Name of the replication slot.
        tables: What is captured.
        into: The landing folder.
        folder_name: Folder of a table; `{table}` and `{schema}` stand for its names.
        insert_only: Tables without a key of which rows are only ever inserted.
        snapshot: Whether a new slot begins with the rows that the tables hold.
        create_slot: Whether a missing slot is made, to capture from now on.
        compressed: Whether the files are compressed with gzip.
        once: Whether to end as soon as everything that is committed by now is in the folder.
        flush_seconds: How long a change waits at most before its file is complete.
        file_bytes: A file of this size gets no further lines.
        status_seconds: Seconds between two reports; also between two confirmations of a position
            when nothing is captured.
        retry_seconds: How long to try again before giving up.
    """

    dsn: str
    slot: str
    tables: tuple[Wanted, ...]
    into: Path
    folder_name: str = "{table}"
    insert_only: tuple[Wanted, ...] = ()
    snapshot: bool = False
    create_slot: bool = False
    compressed: bool = False
    once: bool = False
    flush_seconds: float = 1.0
    file_bytes: int = 256 * 1024 * 1024
    status_seconds: float = 10.0
    retry_seconds: float = 300.0

    def wants(self, schema: str, table: str) -> bool:
        """Tells whether a table is captured.

        Args:
            schema: Schema of the table.
            table: Its name.
        """
        return any(wanted.covers(schema, table) for wanted in self.tables)

    def folder(self, schema: str, table: str) -> str:
        """Returns the folder of a table.

        Args:
            schema: Schema of the table.
            table: Its name.

        Raises:
            ValueError: No folder can have the name, or the landing model would ignore it.
        """
        name = self.folder_name.replace("{schema}", schema).replace("{table}", table)
        if "/" in name or "\0" in name:
            raise ValueError(
                f"the folder {name!r} of {schema}.{table} cannot have a slash: choose another with "
                "--folder-name"
            )
        if name.startswith(("_", ".")) or name.endswith("._COPYING_"):
            raise ValueError(
                f"the landing model ignores the folder {name!r} of {schema}.{table}: choose "
                "another with --folder-name, such as 't-{table}'"
            )
        if len(name.encode()) > 255:
            raise ValueError(
                f"the folder {name!r} of {schema}.{table} has a name over 255 bytes: choose a "
                "shorter one with --folder-name"
            )
        return name


def check(
    slot: str,
    tables: Sequence[str],
    insert_only: Sequence[str],
    folder_name: str,
    snapshot: bool,
    create_slot: bool,
) -> list[str]:
    """Checks what can be checked without a server.

    Args:
        slot: Name of the slot.
        tables: Tables to capture, as they were named.
        insert_only: Those whose rows are only inserted.
        folder_name: Pattern for the folders of tables.
        snapshot: Whether the slot begins with a snapshot.
        create_slot: Whether to create the slot.

    Returns:
        Everything that is wrong, each with its option and remedy.
    """
    problems = []
    if not _SLOT.fullmatch(slot):
        problems.append(
            f"--slot {slot!r}: a slot's name has lower-case letters, digits and underscores, at "
            "most 63 of them."
        )
    if not tables:
        problems.append("--table: name at least one table, SCHEMA.TABLE or 'SCHEMA.*'.")
    for option, names in (("--table", tables), ("--insert-only", insert_only)):
        for name in names:
            if parse_table(name) is None:
                problems.append(
                    f"{option} {name!r}: write SCHEMA.TABLE or 'SCHEMA.*', as the database spells "
                    'them; a name with a dot in double quotes, "my.schema".orders.'
                )
    unknown = set(_FIELDS.findall(folder_name)) - {"schema", "table"}
    if unknown or "{table}" not in folder_name:
        problems.append(
            f"--folder-name {folder_name!r}: it has to contain {{table}} and may contain "
            "{schema}, nothing else in braces."
        )
    if snapshot and create_slot:
        problems.append("--snapshot makes the slot itself; leave out --create-slot.")
    return problems


def parse_table(text: str) -> Wanted | None:
    """Reads `SCHEMA.TABLE` or `SCHEMA.*`; None where it is neither.

    Args:
        text: What was named.
    """
    found = _TABLE.fullmatch(text)
    if not found or found[1] == ALL:
        return None
    return Wanted(_unquoted(found[1]), _unquoted(found[2]))


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _escaped(name: str) -> str:
    return _SPECIAL.sub(r"\\\1", name)
