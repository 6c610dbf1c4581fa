"""The landing folder: its files, and reading them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from dbt.adapters.sparkcdc.erasure.landed_files import beside, is_visible
from dbt.adapters.sparkcdc.session.remote import is_remote
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dbt_spark_cdc.landing.lines import (
    ARROW_LINES,
    LINES,
    files_batches,
    name_of,
    read_content,
    read_files,
    read_local,
)
from dbt_spark_cdc.packed import is_packed

# A task reads so much, and so many files at most. Each writes files of its own to the raw table, of
# every table that it meets: a capture that was waited for leaves hundreds of small files.
BYTES_A_TASK = 16 * 1024 * 1024
FILES_A_TASK = 1000
# So much is read by this process sooner than by tasks, whose workers would have to be asked first.
BYTES_READ_HERE = 4 * 1024 * 1024
ROWS_READ_HERE = 32 * 1024 * 1024
# A row of Spark cannot hold more.
SPARK_LIMIT = 2**31 - 1


class File(NamedTuple):
    """A file of the landing folder.

    Attributes:
        name: `<table>/<file>`.
        size: In bytes.
        modified: Modification time in milliseconds since 1970.
        path: What its reader opens it by.
        problem: Why it cannot be read; empty where it can.
    """

    name: str
    size: int
    modified: int
    path: str = ""
    problem: str = ""

    @property
    def table(self) -> str:
        """The folder that it lies in."""
        return self.name.split("/")[0]


class Folder(Protocol):
    """The landing folder, wherever it is."""

    limit: int | None

    def files(self) -> list[File]:
        """Lists the files of all tables."""

    def checksum(self, file: File) -> str:
        """Returns the SHA-256 of a file's content.

        Args:
            file: A file of the folder.
        """

    def lines(self, files: Sequence[File]) -> DataFrame:
        """Reads files into rows of LINES.

        Args:
            files: Files of the folder.
        """


def open_folder(session: Any, folder: str) -> Folder:
    """Returns the landing folder: read by Python on this machine, else through Spark.

    Args:
        session: Spark session.
        folder: Path or address.

    Raises:
        FileNotFoundError: There is no such folder on this machine.
    """
    parts = urlsplit(folder)
    if parts.scheme not in ("", "file") or is_remote(session):
        return SparkFolder(session, folder)
    conf = session._jsparkSession.sessionState().newHadoopConf()
    if not parts.scheme and not str(conf.get("fs.defaultFS", "file:///")).startswith("file:"):
        return SparkFolder(session, folder)
    path = Path(unquote(parts.path) if parts.scheme else folder).absolute()
    if not path.is_dir():
        raise FileNotFoundError(
            f"the landing folder {path} does not exist: create it, or correct `landing_folder` in"
            " the configuration of the landing model"
        )
    return LocalFolder(session, path)


class LocalFolder:
    """A folder on this machine, or one that all machines of the cluster mount."""

    limit: int | None = None

    def __init__(self, session: Any, folder: Path) -> None:
        self.session, self.folder = session, folder

    def files(self) -> list[File]:
        """Lists the files of all tables."""
        found = []
        for table in _visible(self.folder):
            if not os.path.isdir(table.path):
                continue
            hidden = set(os.listdir(table.path))
            for entry in _visible(table.path):
                # An erasure has written its new content, and has not noted it in the log yet.
                if beside(Path(entry.path)).name not in hidden:
                    try:
                        if not entry.is_file():
                            continue
                        stat = entry.stat()
                    except FileNotFoundError:  # removed since
                        continue
                    except OSError as exc:  # a link to itself, or to where this user may not look
                        name, _ = _readable(f"{table.name}/{entry.name}", entry.path)
                        problem = f"the file cannot be read ({exc.strerror}): correct the link"
                        found.append(File(name, 0, 0, entry.path, problem))
                        continue
                    modified = stat.st_mtime_ns // 1_000_000
                    name, problem = _readable(f"{table.name}/{entry.name}", entry.path)
                    found.append(File(name, stat.st_size, modified, entry.path, problem))
        return found

    def checksum(self, file: File) -> str:
        """Returns the SHA-256 of a file's content.

        Args:
            file: A file of the folder.
        """
        return hashlib.sha256(Path(file.path).read_bytes()).hexdigest()

    def lines(self, files: Sequence[File]) -> DataFrame:
        """Reads files into rows of LINES.

        Args:
            files: Files of the folder.
        """
        rows = _read_here(files) if is_little(files) else None
        if rows is not None:
            return self.session.createDataFrame(rows, LINES).coalesce(1)
        parts = [
            ([file.name for file in part], [file.path for file in part])
            for part in split_by_size(files)
        ]
        listed = self.session.createDataFrame(parts, "names array<string>, paths array<string>")
        return listed.repartition(len(parts)).mapInArrow(read_local, LINES)


class SparkFolder:
    """A folder that only Spark reaches, such as one in an object store."""

    limit: int | None = SPARK_LIMIT

    def __init__(self, session: Any, folder: str) -> None:
        self.session, self.folder = session, folder.rstrip("/")

    def files(self) -> list[File]:
        """Lists the files of all tables."""
        files = self._files()
        listed = files.selectExpr(
            "_metadata.file_path", "length", "unix_millis(modificationTime) as modified"
        )
        found = {
            name_of(row["file_path"]): File(
                name_of(row["file_path"]), row["length"], row["modified"], row["file_path"]
            )
            for row in listed.toArrow().to_pylist()
        }
        # Spark lists files of no bytes and does not read them.
        for name in map(name_of, files.inputFiles()):
            found.setdefault(name, File(name, 0, 0))
        # It leaves out hidden files, and not hidden folders.
        return [file for name, file in found.items() if all(map(is_visible, name.split("/")))]

    def checksum(self, file: File) -> str:
        """Returns the SHA-256 of a file's content.

        Args:
            file: A file of the folder.
        """
        if not file.size:
            return hashlib.sha256(b"").hexdigest()
        content = self._files().where(_is_one_of([file]))
        return str(content.select(F.sha2("content", 256)).toArrow()[0][0].as_py())

    def lines(self, files: Sequence[File]) -> DataFrame:
        """Reads files into rows of LINES.

        Args:
            files: Files of the folder.
        """
        content = self._files().where(_is_one_of(files))
        return content.selectExpr(
            "_metadata.file_path as path", "unix_millis(modificationTime) as modified", "content"
        ).mapInArrow(read_content, LINES)

    def _files(self) -> DataFrame:
        return self.session.read.format("binaryFile").load(f"{self.folder}/*/")


def is_little(files: Sequence[File]) -> bool:
    """Returns whether files hold so little that planning a statement takes longer than reading it.

    Args:
        files: The files. What a packed one holds, its size does not say.
    """
    is_small = sum(file.size for file in files) <= BYTES_READ_HERE and len(files) <= FILES_A_TASK
    return is_small and not any(is_packed(file.name, b"") for file in files)


def _read_here(files: Sequence[File]) -> pa.Table | None:
    """Rows of little files; None where they hold more than their names and sizes said."""
    content = list(read_files([file.name for file in files], [file.path for file in files]))
    size = sum(len(unread) for _, unread, _ in content)
    if size > BYTES_READ_HERE or any(is_packed(name, unread) for name, unread, _ in content):
        return None
    rows = pa.Table.from_batches(files_batches(content), ARROW_LINES)
    # Of short lines the rest of a row is the larger part.
    return rows if rows.nbytes <= ROWS_READ_HERE else None


def split_by_size(files: Sequence[File]) -> list[list[File]]:
    """Splits files into parts, each for one task.

    Args:
        files: At least one file. Their order stays, so that a part has files of few tables.
    """
    parts: list[list[File]] = [[]]
    size = 0
    for file in files:
        is_full = size + file.size > BYTES_A_TASK or len(parts[-1]) == FILES_A_TASK
        if parts[-1] and is_full:
            parts.append([])
            size = 0
        parts[-1].append(file)
        size += file.size
    return parts


def _readable(name: str, path: str) -> tuple[str, str]:
    """The name of a file as a text, and why it cannot be landed."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(name).decode("utf-8", errors="backslashreplace")
        return shown, "the name of the file is not valid UTF-8: rename it"
    if not os.access(path, os.R_OK):
        return name, "the file cannot be read: let the user of the build read it (`chmod a+r`)"
    return name, ""


def _is_one_of(files: Collection[File]) -> Column:
    """Spark opens no other file: the condition holds for its path."""
    return F.col("_metadata.file_path").isin([file.path for file in files])


def _visible(folder: str | Path) -> list[os.DirEntry[str]]:
    """Entries that are no temporary files, by the rules of Spark and Hadoop."""
    with os.scandir(folder) as entries:
        return [entry for entry in entries if is_visible(entry.name)]
