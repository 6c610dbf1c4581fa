"""A Delta table as its log describes it: commits, files, statistics and rows, without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from dbt.adapters.sparkcdc.delta.log import STAGED, commit_versions
from dbt.adapters.sparkcdc.tables.places import local_folder
from pyarrow import parquet

# `<version>.checkpoint[.<part>.<parts> | .<uuid>].parquet|json`
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(\w+)")
# Further back only the file that holds a commit's rows is of interest, and not who wrote it.
COMMITS_READ = 200
_RESTORE = (
    "Restore the table's files from a backup; or, if all its events are still there, drop the "
    "table and build it again."
)
_ASK_SPARK = "Query the table with Spark, for instance with `dbt show`."


class UnreadableLog(Exception):
    """A log that is damaged, incomplete or written in a way that only Spark understands."""


@dataclass(frozen=True)
class DataFile:
    """A file of a table.

    Attributes:
        path: Where it is.
        size: Its bytes.
        modified: When it was written.
        partition: Values of the partition columns, as text.
        stats: Delta's statistics: `numRecords`, `minValues`, `maxValues`, `nullCount`.
        deleted: Rows that a deletion vector hides; None without one.
    """

    path: Path
    size: int
    modified: datetime
    partition: Mapping[str, str | None]
    stats: Mapping[str, Any]
    deleted: int | None

    @property
    def rows(self) -> int | None:
        """The rows that readers see; None where the file has no statistics."""
        rows = self.stats.get("numRecords")
        return None if rows is None else int(rows) - (self.deleted or 0)


@dataclass(frozen=True)
class Commit:
    """A commit.

    Attributes:
        version: The version of the table that it made.
        at: When.
        operation: What Delta calls it.
        checkpoint: What the package noted in it; empty where it was not the package's own.
        changes_rows: Whether it added or removed rows.
        files: How many files the table had then; None where no checksum says so.
    """

    version: int
    at: datetime
    operation: str
    checkpoint: Mapping[str, Any]
    changes_rows: bool
    files: int | None


@dataclass
class DeltaTable:
    """A table at its newest version.

    Attributes:
        folder: Where it is.
        version: The newest version.
        files: The files that it consists of, by path.
        schema: Its columns, as Delta writes them.
        properties: Its table properties.
        commits: The newest commits, the last one first.
    """

    folder: Path
    version: int = -1
    files: dict[str, DataFile] = field(default_factory=dict)
    schema: list[dict[str, Any]] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)

    @property
    def rows(self) -> int | None:
        """Its rows; None where a file has no statistics."""
        counts = [file.rows for file in self.files.values()]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(file.size for file in self.files.values())

    @property
    def deletion_vectors(self) -> int:
        """How many of its files hide rows."""
        return sum(file.deleted is not None for file in self.files.values())

    @property
    def deleted_rows(self) -> int:
        """How many rows are hidden."""
        return sum(file.deleted or 0 for file in self.files.values())

    def physical(self, column: str) -> str:
        """Returns the name that a column has in files and statistics.

        Args:
            column: Its name.
        """
        for known in self.schema:
            if known["name"].lower() == column.lower():
                name = known.get("metadata", {}).get("delta.columnMapping.physicalName")
                return str(name or known["name"])
        return column

    def newest(self, column: str) -> Any:
        """Returns the largest value of a column, or None where the statistics do not tell.

        Args:
            column: A top-level column.
        """
        name = self.physical(column)
        values = [
            file.stats["maxValues"][name]
            for file in self.files.values()
            if file.stats.get("maxValues", {}).get(name) is not None
        ]
        try:
            return max(values, default=None)
        except TypeError:  # structs
            return None

    def read(self, columns: Sequence[str], files: Sequence[DataFile] | None = None) -> pa.Table:
        """Reads rows. Deletion vectors are not applied: ask `deleted_rows` whether there are any.

        Args:
            columns: The columns; one that a file does not have is NULL there.
            files: Of these files only; None: of all.

        Raises:
            UnreadableLog: A file is gone or damaged.
        """
        parts = []
        for file in self.files.values() if files is None else files:
            try:
                source = parquet.ParquetFile(file.path)
                present = set(source.schema_arrow.names)
                names = {column: self.physical(column) for column in columns}
                rows = source.read(columns=[name for name in names.values() if name in present])
            except (OSError, pa.ArrowException) as exc:
                raise UnreadableLog(f"{file.path} cannot be read: {exc}. {_RESTORE}") from exc
            values = {}
            for column, name in names.items():
                if name in present:
                    values[column] = rows[name]
                else:
                    value = file.partition.get(name)
                    values[column] = pa.chunked_array([pa.array([value] * rows.num_rows)])
            parts.append(pa.table(values))
        if not parts:
            return pa.table({column: pa.array([], pa.null()) for column in columns})
        return pa.concat_tables(parts, promote_options="permissive")


def read_table(folder: Path, commits: int = COMMITS_READ) -> DeltaTable | None:
    """Reads a table's log.

    Args:
        folder: The table's folder.
        commits: How many of the newest commits to describe.

    Returns:
        None where there is no Delta table.

    Raises:
        UnreadableLog: The log is not whole, or a catalog holds a part of it.
    """
    log = folder / "_delta_log"
    try:
        names = [path.name for path in log.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise UnreadableLog(f"{log} cannot be read: {exc}. Let this user read it.") from exc
    try:
        if any(staged in names and any((log / staged).iterdir()) for staged in STAGED):
            raise UnreadableLog(
                f"A catalog holds commits of {folder}: only Spark can read it. {_ASK_SPARK}"
            )
        return _replayed(folder, log, names, commits)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as exc:
        raise UnreadableLog(f"The log {log} is damaged: {exc}. {_RESTORE}") from exc


def _replayed(folder: Path, log: Path, names: list[str], limit: int) -> DeltaTable | None:
    versions = sorted(commit_versions(names))
    start, parts = _newest_checkpoint(names)
    if not versions and start is None:
        return None
    table = DeltaTable(folder, start if start is not None else -1)
    for part in parts:
        for action in _checkpoint_actions(log, part):
            _apply(table, action)
    for version in [version for version in versions if version > table.version]:
        if version != table.version + 1:
            raise UnreadableLog(f"The log {log} has no commit {table.version + 1}. {_RESTORE}")
        for action in _json_lines(log / f"{version:020}.json"):
            _apply(table, action)
        table.version = version
    for version in reversed(versions[-limit:]):
        table.commits.append(_commit(log, version))
    return table


def _newest_checkpoint(names: list[str]) -> tuple[int | None, list[str]]:
    """The newest checkpoint that has all its parts."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            found.setdefault((int(match[1]), int(match[3] or 0)), []).append(name)
    whole = [key for key, parts in found.items() if len(parts) >= key[1]]
    if not whole:
        return None, []
    version, count = newest = max(whole)
    return version, sorted(found[newest]) if count else found[newest][:1]


def _checkpoint_actions(log: Path, name: str) -> Iterator[dict[str, Any]]:
    if name.endswith(".json"):
        actions: Iterator[dict[str, Any]] = _json_lines(log / name)
    else:
        actions = _parquet_actions(log / name)
    for action in actions:
        if action.get("sidecar"):
            yield from _parquet_actions(log / "_sidecars" / unquote(action["sidecar"]["path"]))
        else:
            yield action


def _parquet_actions(path: Path) -> Iterator[dict[str, Any]]:
    source = parquet.ParquetFile(path)
    wanted = [name for name in ("add", "metaData", "sidecar") if name in source.schema_arrow.names]
    for batch in source.iter_batches(columns=wanted):
        yield from batch.to_pylist(maps_as_pydicts="lossy")


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _apply(table: DeltaTable, action: Mapping[str, Any]) -> None:
    if added := action.get("add"):
        stats = added.get("stats")
        vector = added.get("deletionVector")
        table.files[added["path"]] = DataFile(
            path=_file_path(table.folder, added["path"]),
            size=added["size"],
            modified=_time(added["modificationTime"]),
            partition=dict(added.get("partitionValues") or {}),
            stats=json.loads(stats) if stats else {},
            deleted=vector["cardinality"] if vector else None,
        )
    elif removed := action.get("remove"):
        # A new deletion vector removes and adds the same path, in either order.
        vector = removed.get("deletionVector")
        known = table.files.get(removed["path"])
        if known and known.deleted == (vector["cardinality"] if vector else None):
            del table.files[removed["path"]]
    elif metadata := action.get("metaData"):
        table.schema = json.loads(metadata["schemaString"])["fields"]
        table.properties = dict(metadata.get("configuration") or {})


def _file_path(folder: Path, path: str) -> Path:
    """Paths are relative, or URIs in shallow clones; both are encoded as URIs."""
    if re.match(r"[a-z][a-z0-9+.-]*:", path):
        local = local_folder(path)
        if local is None:
            raise UnreadableLog(f"{path} is not on a disk of this machine. {_ASK_SPARK}")
        return local
    return folder / unquote(path)


def _commit(log: Path, version: int) -> Commit:
    info: dict[str, Any] = {}
    changes_rows = False
    for action in _json_lines(log / f"{version:020}.json"):
        info = action.get("commitInfo", info)
        moved = action.get("add") or action.get("remove") or {}
        changes_rows = changes_rows or bool(moved.get("dataChange"))
    try:
        checkpoint = json.loads(info.get("userMetadata") or "{}")
    except ValueError:
        checkpoint = {}
    operation = str(info.get("operation") or "")
    # A session keeps a checkpoint after the commit that it was made for; others carry it, too.
    is_checkpoint = (
        isinstance(checkpoint, dict)
        and "cdc" in checkpoint
        and operation.endswith(checkpoint.get("operation") or "")
    )
    at = info.get("inCommitTimestamp") or info.get("timestamp")
    if at is None:
        at = (log / f"{version:020}.json").stat().st_mtime * 1000
    return Commit(
        version=version,
        at=_time(at),
        operation=operation,
        checkpoint=checkpoint if is_checkpoint else {},
        changes_rows=changes_rows,
        files=_files_then(log, version),
    )


def _files_then(log: Path, version: int) -> int | None:
    try:
        known = json.loads((log / f"{version:020}.crc").read_text(encoding="utf-8"))["numFiles"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return known if isinstance(known, int) else None


def _time(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
