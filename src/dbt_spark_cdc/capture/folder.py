"""The landing folder of a capture: its files, and how far they reach.

A batch of files becomes part of the folder in one step, the replacement of `_capture/state.json`:

1. The lines are written to hidden files, which are synced.
2. The state is replaced: the new position, and the hidden files that belong to it.
3. The hidden files get their names.

A process that dies before step 2 has landed nothing, and the slot still has the changes. After it,
the next process finishes step 3. The slot's position is confirmed after step 3.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dbt_spark_cdc.capture.lsn import format_lsn, parse_lsn
from dbt_spark_cdc.capture.problems import Misconfigured
from dbt_spark_cdc.whole_file import sync, write_whole

OWN = "_capture"
PART = ".part"
# Lines wait in memory until there are so many bytes of them, of all tables.
MEMORY = 8 * 1024 * 1024


@dataclass(frozen=True)
class State:
    """What `_capture/state.json` says.

    Attributes:
        slot: The slot that the files come from.
        system: Identifier of the server's data directory.
        database: Its database.
        tables: The tables that are captured, as the options name them.
        position: The files hold all changes before it; None while a snapshot is taken.
        files: The files of the newest batch: the name of each, and its hidden name before.
    """

    slot: str
    system: str
    database: str
    tables: tuple[str, ...]
    position: int | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Returns the text of the file."""
        fields = asdict(self) | {"files": dict(self.files)}
        fields["position"] = None if self.position is None else format_lsn(self.position)
        return json.dumps(fields, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> State:
        """Reads the text of the file.

        Args:
            text: What the file holds.

        Raises:
            ValueError: It is not what `to_json` writes.
        """
        fields = json.loads(text)
        try:
            position = fields["position"]
            return cls(
                slot=str(fields["slot"]),
                system=str(fields["system"]),
                database=str(fields["database"]),
                tables=tuple(map(str, fields["tables"])),
                position=None if position is None else parse_lsn(position),
                files={str(name): str(part) for name, part in fields["files"].items()},
            )
        except (AttributeError, KeyError, TypeError) as exc:
            raise ValueError(f"{exc} is missing or wrong") from exc


class CaptureFolder:
    """A landing folder that one slot fills."""

    def __init__(self, path: Path, compressed: bool = False) -> None:
        """Names the folder; nothing is read or written.

        Args:
            path: The folder.
            compressed: Whether its new files are compressed with gzip.
        """
        self.path = path
        self.suffix = ".jsonl.gz" if compressed else ".jsonl"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other captures out as long as the block lasts, however it ends.

        Raises:
            Misconfigured: Another process captures into the folder, or it cannot be written.
        """
        try:
            (self.path / OWN).mkdir(parents=True, exist_ok=True)
            lock = (self.path / OWN / "lock").open("a")
        except OSError as exc:
            raise Misconfigured(
                f"The folder {self.path} cannot be written: {exc}. Let this user write it, or name "
                "another folder with --into."
            ) from exc
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Misconfigured(
                    f"Another process captures into {self.path}. Stop it, or name another folder "
                    "and another slot."
                ) from None
            yield

    def state(self) -> State | None:
        """Returns how far the files reach; None where nothing was captured yet.

        Raises:
            Misconfigured: The state cannot be understood.
        """
        path = self.path / OWN / "state.json"
        try:
            return State.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as exc:
            raise Misconfigured(
                f"{path} was changed by hand or damaged ({exc}). Restore it; or begin with an "
                "empty folder, a new slot and --snapshot."
            ) from exc

    def save(self, state: State) -> None:
        """Replaces the state; it is on the disk when this returns.

        Args:
            state: How far the files reach.
        """
        write_whole(self.path / OWN / "state.json", state.to_json(), durable=True)

    def recover(self) -> tuple[State | None, list[str]]:
        """Finishes the batch that a dead process landed, and removes what it did not land.

        Returns:
            The state, and the names of files that are not in the folder although they were landed
            last: somebody moved them away.

        Raises:
            OSError: The disk does not take it; the next try does the same.
        """
        state = self.state()
        gone = self.publish(state) if state else []
        for partial in self.path.glob(f"*/_{'[0-9A-F]' * 16}-*.jsonl*{PART}"):
            partial.unlink(missing_ok=True)
        return state, gone

    def publish(self, state: State) -> list[str]:
        """Gives the files of the newest batch their names.

        Args:
            state: What `save` has written; it names the files.

        Returns:
            The names for which there is neither a file nor a hidden one.
        """
        gone = []
        for name, part in state.files.items():
            try:
                os.rename(self.path / part, self.path / name)
            except FileNotFoundError:
                if not (self.path / name).exists():
                    gone.append(name)
        for folder in {Path(name).parent for name in state.files}:
            if (self.path / folder).is_dir():
                sync(self.path / folder)
        return gone

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Replaces a file of the capture's own folder.

        Args:
            name: Name of the file.
            content: What it is to hold.
        """
        write_whole(self.path / OWN / name, json.dumps(content) + "\n")


class Batch:
    """Lines that become part of the folder together."""

    def __init__(self, folder: CaptureFolder, start: int, most_bytes: int) -> None:
        """Begins a batch; nothing is written yet.

        Args:
            folder: Where the files go.
            start: The files hold changes from this position on.
            most_bytes: A file that has so many bytes, before compression, gets no further lines.
        """
        self.folder, self.start, self.most_bytes = folder, start, most_bytes
        self.bytes = 0
        self.lines = 0
        self._waiting: dict[str, list[bytes]] = {}
        self._waiting_bytes = 0
        self._sizes: dict[str, list[int]] = {}

    def add(self, table: str, line: bytes) -> None:
        """Adds a line.

        Args:
            table: Folder of its table.
            line: The line, without its end.

        Raises:
            OSError: The disk does not take it. The batch has to be discarded.
        """
        self._waiting.setdefault(table, []).append(line)
        self.lines += 1
        self.bytes += len(line) + 1
        self._waiting_bytes += len(line) + 1
        if self._waiting_bytes >= MEMORY:
            self._write()

    def commit(self, state: State, position: int) -> State:
        """Makes the batch part of the folder; it is on the disk when this returns.

        Args:
            state: What the folder's state was.
            position: The batch holds all changes before it.

        Returns:
            The state now.

        Raises:
            OSError: The disk does not take it. `CaptureFolder.recover` has to follow.
        """
        self._write()
        files = {}
        for table, sizes in self._sizes.items():
            for number in range(1, len(sizes) + 1):
                part = self._part(table, number)
                sync(self.folder.path / part)
                name = f"{self.start:016X}-{position:016X}-{number:04}{self.folder.suffix}"
                files[f"{table}/{name}"] = part
            sync(self.folder.path / table)
        if files:
            sync(self.folder.path)
        landed = replace(state, position=position, files=files)
        self.folder.save(landed)
        self.folder.publish(landed)
        return landed

    def _write(self) -> None:
        for table, lines in self._waiting.items():
            sizes = self._sizes.get(table)
            if sizes is None:
                (self.folder.path / table).mkdir(exist_ok=True)
                sizes = self._sizes[table] = [0]
            elif sizes[-1] >= self.most_bytes:
                sizes.append(0)
            content = b"\n".join([*lines, b""])
            sizes[-1] += len(content)
            if self.folder.suffix.endswith(".gz"):
                content = gzip.compress(content, compresslevel=3, mtime=0)
            with (self.folder.path / self._part(table, len(sizes))).open("ab") as part:
                part.write(content)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _part(self, table: str, number: int) -> str:
        return f"{table}/_{self.start:016X}-{number:04}{self.folder.suffix}{PART}"
