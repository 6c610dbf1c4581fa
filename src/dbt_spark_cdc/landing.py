"""Landing: change files become rows of an append-only raw Delta table, each file exactly once.

A file is `<folder>/<table>/<file>`; `<table>/<file>` is its name. Every line becomes a row, with
size, modification time and checksum of its file. All new files of a run are one commit, so a run
that dies has landed all of them or none. The raw table alone decides what has landed; the model's
own table is a log derived from it, so that a run need not read the raw table again. docs/landing.md
has the rules.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from dbt.adapters.sparkcdc.creation import create_if_missing
from dbt.adapters.sparkcdc.landed_files import beside, is_visible, other_packing
from dbt.adapters.sparkcdc.remote import is_remote
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# A chunk of rows, for Arrow and Java: so many at most, and no more of them than have these bytes.
ROWS_A_CHUNK = 10_000
BYTES_A_CHUNK = 16 * 1024 * 1024
# A longer line is reported: a row of Spark and an array of Arrow cannot hold any line.
LINE_LIMIT = 256 * 1024 * 1024
# Columns are made of the lines of larger files; of these, rows are made sooner.
SMALL_FILE = 4 * 1024
BYTES_UNPACKED = 64 * 1024
# A task reads so much, and so many files at most. Each writes files of its own to the raw table, of
# every table that it meets: a capture that was waited for leaves hundreds of small files.
BYTES_A_TASK = 16 * 1024 * 1024
FILES_A_TASK = 1000
# A row of Spark cannot hold more.
SPARK_LIMIT = 2**31 - 1
# The end of the year 9999, in milliseconds since 1970.
LAST_TIME = 253_402_300_799_000
# Delta refuses or ignores a second commit of the same batch, for instance that of a second landing.
TXN_APP = "dbt-spark-cdc landing"
EMPTY = "empty file"

# Of the raw table, without what the commit adds: `_landed_at` and `_batch`.
LINES = (
    "_table string, value string, _file string, _row bigint, _problem string, _size bigint,"
    " _modified bigint, _checksum string"
)
ARROW_LINES = pa.schema(
    [
        ("_table", pa.string()),
        ("value", pa.string()),
        ("_file", pa.string()),
        ("_row", pa.int64()),
        ("_problem", pa.string()),
        ("_size", pa.int64()),
        ("_modified", pa.int64()),
        ("_checksum", pa.string()),
    ]
)
# What tables of the first version lack.
ADDED = {"_size": "bigint", "_modified_at": "timestamp", "_checksum": "string"}
# What every raw table has that `landed: true` declares.
LANDED = {
    "value": "string",
    "_file": "string",
    "_row": "bigint",
    "_landed_at": "timestamp",
    "_batch": "bigint",
    "_problem": "string",
    "_table": "string",
}
RAW = {**LANDED, **ADDED}
LOG = (
    "_table string, _file string, _batch bigint, _landed_at timestamp, lines bigint,"
    " unreadable bigint, problem string, bytes bigint, modified_at timestamp, checksum string"
)

Row = tuple[str, "str | None", str, int, "str | None", int, int, "str | None"]

# The executors of a cluster need not have this package: the functions travel whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


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


class Seen(NamedTuple):
    """What is known of a file that was landed or reported before.

    Attributes:
        size: In bytes; None where a former version of this package landed it.
        modified: Modification time in milliseconds since 1970.
        checksum: SHA-256 of its content.
        landed: Whether it ever had content.
    """

    size: int | None
    modified: int | None
    checksum: str | None
    landed: bool = True


class Plan(NamedTuple):
    """What becomes of the files that are new or have changed.

    Attributes:
        new: To be landed.
        reported: To be reported in the raw table, with the reason; nothing of them is landed.
        noted: To be noted in the log alone, with the reason or None; nothing is missing.
    """

    new: list[File]
    reported: list[tuple[File, str | None, str]]
    noted: list[tuple[File, str | None, str | None]]


class Folder(Protocol):
    """The landing folder, wherever it is."""

    limit: int | None

    def files(self) -> list[File]:
        """Lists the files of all tables."""

    def checksum(self, file: File) -> str:
        """Returns the SHA-256 of a file's content."""

    def lines(self, files: Sequence[File]) -> DataFrame:
        """Reads files into rows of LINES."""


def land(dbt: Any, session: Any, folder: str, raw: str) -> DataFrame:
    """The body of a dbt Python model, incremental by append; its table logs the landed files.

    Args:
        dbt: What dbt hands to the model.
        session: What dbt hands to the model.
        folder: Landing folder, with a folder for each table below it.
        raw: Raw table, with its schema.

    Returns:
        Rows to append to the log: one for each file that was landed or has to be reported.
    """
    create_raw(session, raw, RAW)
    add_columns(session, raw, ADDED)
    in_raw = session.table(raw).agg(F.max("_batch")).first()[0]
    raw_last = -1 if in_raw is None else in_raw
    log = session.table(str(dbt.this)) if dbt.is_incremental else None
    logged = _read_log(log) if log is not None else []
    last = max((row["_batch"] for row in logged if row["_batch"] is not None), default=-1)
    if raw_last < last:
        # The raw table was dropped or restored: what it has lost is landed again, and notes, which
        # may be about that, are taken again.
        logged = [r for r in logged if r["_batch"] is not None and r["_batch"] <= raw_last]
    if raw_last > last:  # the run that landed these files died before it logged them
        logged += _rows(_summary(session, raw, last))

    source = open_folder(session, folder)
    plan = compare(source.files(), seen_files(logged), source.checksum, source.limit)
    batch = max(raw_last, last) + 1
    if plan.new or plan.reported:
        _append(session, raw, batch, source, plan)
    elif log is not None and raw_last <= last and not plan.noted:
        return log.limit(0)
    found = _summary(session, raw, last)
    if not plan.noted:
        return found
    now = datetime.now(timezone.utc)
    notes = [
        (f.table, f.name, None, now, 0, 0, problem, f.size, _as_time(f.modified), checksum)
        for f, checksum, problem in plan.noted
    ]
    return found.unionByName(session.createDataFrame(notes, LOG))


def compare(
    files: Iterable[File],
    seen: Mapping[str, Seen],
    checksum: Callable[[File], str],
    limit: int | None = None,
) -> Plan:
    """Decides what becomes of each file. Content is read only where name, size and time differ.

    Args:
        files: All files that the landing folder holds now.
        seen: What is known of files, by name.
        checksum: Returns the checksum of a file's content.
        limit: Bytes that a file may have at most, or None.
    """
    present = {file.name: file for file in files}
    gone: dict[tuple[str, int | None, int | None], list[str]] = {}
    for name, before in seen.items():
        if name not in present and before.landed and before.checksum:
            gone.setdefault((name.split("/")[0], before.size, before.modified), []).append(name)

    plan = Plan([], [], [])
    for name in sorted(present):
        file, known = present[name], seen.get(name)
        if file.problem:
            # Reported as if it had no bytes, so that it is landed once it can be read.
            if known is None:
                plan.reported.append((file._replace(size=0), None, file.problem))
            continue
        if known is None or not known.landed:
            if packing := other_packing(name):
                # As if it had no bytes: a later version may know how to unpack it.
                if known is None:
                    plan.reported.append((file._replace(size=0), None, packing))
                continue
            if file.size == 0:
                if known is None:
                    plan.reported.append((file, None, EMPTY))
                continue
            if limit is not None and file.size > limit:
                problem = f"file is larger than {limit:,} bytes: split it, and give the parts names"
                plan.reported.append((file, None, f"{problem} of their own"))
                continue
            former = gone.get((file.table, file.size, file.modified), [])
            content = checksum(file) if former else None
            same = [name for name in former if seen[name].checksum == content]
            if same:
                problem = f"renamed: its lines were landed from {same[0]} and are not landed again"
                plan.noted.append((file, content, problem))
            else:
                plan.new.append(file)
        elif known.size is not None and (known.size, known.modified) != file[1:3]:
            content = checksum(file)
            if content == known.checksum:
                plan.noted.append((file, content, None))  # so that it is not read again
            else:
                was = f"{known.size:,} bytes" if known.size != file.size else "other content"
                problem = f"replaced after it was landed, now {file.size:,} bytes, before {was}"
                plan.reported.append(
                    (file, content, f"{problem}: send the new content in a file of another name")
                )
    return plan


def seen_files(rows: Iterable[Mapping[str, Any]]) -> dict[str, Seen]:
    """Returns what is known of each file.

    Args:
        rows: Rows of the log.
    """
    seen: dict[str, Seen] = {}
    for row in sorted(rows, key=lambda row: row["_landed_at"]):
        # Former versions logged a file as empty which Spark's file stream had overlooked.
        if row["_batch"] is None and row["bytes"] is None:
            continue
        before = seen.get(row["_file"])
        seen[row["_file"]] = Seen(
            row["bytes"],
            row["modified_at"],
            row["checksum"],
            row["bytes"] != 0 or (before is not None and before.landed),
        )
    return seen


def _text(name: str, content: bytes) -> tuple[bytes, int, str | None]:
    """What `decompress` returns, without the mark that editors and exports put before a text."""
    unpacked, sound, problem = decompress(name, content)
    text = unpacked.removeprefix(BOM_UTF8)
    return text, max(sound - len(unpacked) + len(text), 0), problem


def decompress(name: str, content: bytes) -> tuple[bytes, int, str | None]:
    """Unpacks a file as far as it can be read.

    Args:
        name: File name; `.gz` marks gzip.
        content: The file's bytes.

    Returns:
        The readable bytes, how many of them are certain, and what is wrong with the file.
    """
    if not name.endswith(".gz"):
        return content, len(content), None
    unpacked, view, at = bytearray(), memoryview(content), 0
    while at < len(view):  # a gzip file may hold several members
        if at and not view[at] and not content[at:].strip(b"\0"):
            break  # filled up to the size of a block
        begin = len(unpacked)
        member = zlib.decompressobj(wbits=31)
        for start in range(at, len(view), BYTES_UNPACKED):
            chunk = view[start : start + BYTES_UNPACKED]
            before = member.copy()
            try:
                unpacked += member.decompress(chunk)
            except zlib.error as error:
                _decompress_bytewise(before, chunk, unpacked)
                # Damage is noticed late, often by the checksum alone: nothing shows where it began.
                return bytes(unpacked), begin, f"damaged gzip file ({error})"
            if member.eof:
                at = start + len(chunk) - len(member.unused_data)
                break
        else:
            return bytes(unpacked), len(unpacked), "gzip file is cut off"
    return bytes(unpacked), len(unpacked), None


def _decompress_bytewise(member: Any, chunk: memoryview, unpacked: bytearray) -> None:
    """Takes what a chunk holds before its damage."""
    for at in range(len(chunk)):
        try:
            unpacked += member.decompress(chunk[at : at + 1])
        except zlib.error:
            return


def read_lines(name: str, content: bytes) -> Iterator[tuple[str | None, int, str | None]]:
    """Splits a change file into lines.

    Args:
        name: File name; `.gz` marks gzip.
        content: The file's bytes.

    Yields:
        Line, row number from 1, and what is wrong with the line or None. Row 0 stands for the file.
    """
    unpacked, sound, problem = _text(name, content)
    if problem is None and not unpacked.strip():
        problem = EMPTY
    lines = unpacked.split(b"\n")
    rest = lines.pop() if problem else b""  # of a cut file the last line is half
    end = 0
    for row, line in enumerate(lines, start=1):
        end += len(line) + 1
        if line.strip():
            value, fault = _decoded(line)
            yield value, row, (problem if end > sound else None) or fault
    if problem:
        yield _decoded(rest)[0] or None, 0, problem


def _decoded(line: bytes) -> tuple[str | None, str | None]:
    """A line as text, and what is wrong with it."""
    if len(line) > LINE_LIMIT:
        return None, f"line is longer than {LINE_LIMIT:,} bytes"
    try:
        return line.decode("utf-8"), None
    except UnicodeDecodeError:
        return line.decode("utf-8", errors="replace"), "line is not valid UTF-8"


def file_rows(name: str, content: bytes, modified: int) -> Iterator[Row]:
    """Returns the rows of a file, in the order of ARROW_LINES.

    Args:
        name: `<table>/<file>`.
        content: Its bytes.
        modified: Its modification time in milliseconds since 1970.
    """
    checksum = hashlib.sha256(content).hexdigest()
    table = name.split("/")[0]
    for value, row, problem in read_lines(name, content):
        yield table, value, name, row, problem, len(content), modified, checksum


def file_batches(name: str, content: bytes, modified: int) -> Iterator[pa.RecordBatch]:
    """Returns the rows of a file as record batches of ARROW_LINES.

    They are those of `file_rows`. Most files have no fault, and columns are made of their lines at
    once and not row by row.

    Args:
        name: `<table>/<file>`.
        content: Its bytes.
        modified: Its modification time in milliseconds since 1970.
    """
    unpacked, _, problem = _text(name, content)
    if problem or not unpacked.strip():
        yield from as_batches(file_rows(name, content, modified))
        return
    checksum = hashlib.sha256(content).hexdigest()
    constants = {
        "_table": name.split("/")[0],
        "_file": name,
        "_size": len(content),
        "_modified": modified,
        "_checksum": checksum,
    }
    for rows, lines in _chunks(unpacked):
        values, problems = _columns(lines)
        known = {"value": values, "_row": pa.array(rows, pa.int64()), "_problem": problems}
        columns = [
            known[field.name]
            if field.name in known
            else pa.repeat(pa.scalar(constants[field.name], field.type), len(rows))
            for field in ARROW_LINES
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=ARROW_LINES)


def _chunks(unpacked: bytes) -> Iterator[tuple[list[int], list[bytes]]]:
    """Row numbers and lines that are not blank, in chunks."""
    rows: list[int] = []
    lines: list[bytes] = []
    size = at = row = 0
    while at < len(unpacked):
        # All lines at once would take the memory of the file once more.
        end = unpacked.find(b"\n", at + BYTES_A_CHUNK)
        end = len(unpacked) if end < 0 else end
        for line in unpacked[at:end].split(b"\n"):
            row += 1
            if not line or line.isspace():
                continue
            if lines and (len(lines) == ROWS_A_CHUNK or size + len(line) > BYTES_A_CHUNK):
                yield rows, lines
                rows, lines, size = [], [], 0
            rows.append(row)
            lines.append(line)
            size += len(line)
        at = end + 1
    if lines:
        yield rows, lines


def _columns(lines: list[bytes]) -> tuple[pa.Array, pa.Array]:
    """Lines as texts, and what is wrong with each of them."""
    if len(lines[0]) <= LINE_LIMIT:  # a longer one is alone in its chunk
        try:
            values = pa.array(lines, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:  # no valid UTF-8
            pass
        else:
            return values, pa.nulls(len(lines), pa.string())
    values, problems = zip(*map(_decoded, lines), strict=True)
    return pa.array(values, pa.string()), pa.array(problems, pa.string())


def files_batches(files: Iterable[tuple[str, bytes, int]]) -> Iterator[pa.RecordBatch]:
    """Returns the rows of files, those of small ones together.

    Args:
        files: Name, content and modification time of each, as for `file_batches`.
    """
    return _in_chunks(_in_order(files))


def _in_order(files: Iterable[tuple[str, bytes, int]]) -> Iterator[pa.RecordBatch]:
    small: list[Row] = []
    for name, content, modified in files:
        if len(content) < SMALL_FILE:
            small += file_rows(name, content, modified)
        if small and (len(small) >= ROWS_A_CHUNK or len(content) >= SMALL_FILE):
            yield from as_batches(small)
            small = []
        if len(content) >= SMALL_FILE:
            yield from file_batches(name, content, modified)
    yield from as_batches(small)


def _in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Puts small batches together."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows >= ROWS_A_CHUNK or size + batch.nbytes > BYTES_A_CHUNK):
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def as_batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Packs rows into record batches of ARROW_LINES.

    Args:
        rows: Rows in the order of ARROW_LINES.
    """
    chunk: list[Row] = []
    size = 0
    for row in rows:
        length = len(row[1] or "")
        if chunk and (len(chunk) == ROWS_A_CHUNK or size + length > BYTES_A_CHUNK):
            yield _as_arrow(chunk)
            chunk, size = [], 0
        chunk.append(row)
        size += length
    if chunk:
        yield _as_arrow(chunk)


def _as_arrow(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, ARROW_LINES, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_LINES)


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
            if not table.is_dir():
                continue
            hidden = set(os.listdir(table.path))
            for entry in _visible(table.path):
                # An erasure has written its new content, and has not told the log yet.
                if entry.is_file() and beside(Path(entry.path)).name not in hidden:
                    try:
                        stat = entry.stat()
                    except FileNotFoundError:  # removed since
                        continue
                    modified = stat.st_mtime_ns // 1_000_000
                    name, problem = _readable(f"{table.name}/{entry.name}", entry.path)
                    found.append(File(name, stat.st_size, modified, entry.path, problem))
        return found

    def checksum(self, file: File) -> str:
        """Returns the SHA-256 of a file's content."""
        return hashlib.sha256(Path(file.path).read_bytes()).hexdigest()

    def lines(self, files: Sequence[File]) -> DataFrame:
        """Reads files into rows of LINES."""
        parts = [
            ([file.name for file in part], [file.path for file in part])
            for part in split_by_size(files)
        ]
        listed = self.session.createDataFrame(parts, "names array<string>, paths array<string>")
        return listed.repartition(len(parts)).mapInArrow(_read_local, LINES)


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
            _name_of(row["file_path"]): File(
                _name_of(row["file_path"]), row["length"], row["modified"], row["file_path"]
            )
            for row in _rows(listed)
        }
        # Spark lists files of no bytes and does not read them.
        for name in map(_name_of, files.inputFiles()):
            found.setdefault(name, File(name, 0, 0))
        # It leaves out hidden files, and not hidden folders.
        return [file for name, file in found.items() if all(map(is_visible, name.split("/")))]

    def checksum(self, file: File) -> str:
        """Returns the SHA-256 of a file's content."""
        if not file.size:
            return hashlib.sha256(b"").hexdigest()
        content = self._files().where(_is_one_of([file]))
        return str(_rows(content.select(F.sha2("content", 256).alias("checksum")))[0]["checksum"])

    def lines(self, files: Sequence[File]) -> DataFrame:
        """Reads files into rows of LINES."""
        content = self._files().where(_is_one_of(files))
        return content.selectExpr(
            "_metadata.file_path as path", "unix_millis(modificationTime) as modified", "content"
        ).mapInArrow(_read_content, LINES)

    def _files(self) -> DataFrame:
        return self.session.read.format("binaryFile").load(f"{self.folder}/*/")


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


def _name_of(address: str) -> str:
    return unquote("/".join(address.split("/")[-2:]))


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


def _read_local(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads parts (names, paths); runs on the executors."""
    for batch in batches:
        for part in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield from files_batches(_read_part(*part))


def _read_part(names: Sequence[str], paths: Sequence[str]) -> Iterator[tuple[str, bytes, int]]:
    for name, path in zip(names, paths, strict=True):
        try:
            with open(path, "rb") as file:
                modified = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
                content = file.read()
        except (
            FileNotFoundError
        ):  # removed since the folder was listed; nothing says that it landed
            continue
        yield name, content, modified


def _read_content(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Splits files (path, modified, content); runs on the executors."""
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns)
        yield from files_batches(
            (_name_of(path), content, modified)
            for path, modified, content in zip(*columns, strict=True)
        )


def create_raw(session: Any, raw: str, columns: Mapping[str, str]) -> None:
    """Creates an append-only raw table, and its schema, where there is none.

    Args:
        session: A session.
        raw: The table, with its schema.
        columns: Types by name.
    """
    if schema := raw.rpartition(".")[0]:
        session.sql(f"create schema if not exists {schema}")
    create_if_missing(
        session.sql,
        session,
        raw,
        "select " + ", ".join(f"cast(null as {kind}) as {name}" for name, kind in columns.items()),
        "partitioned by (_table)"
        " tblproperties ('delta.appendOnly' = 'true', 'delta.enableDeletionVectors' = 'false')",
    )


def add_columns(session: Any, raw: str, added: Mapping[str, str]) -> None:
    """Gives a raw table of a former version the columns that it lacks.

    Args:
        session: A session.
        raw: The table, with its schema.
        added: Types by name.
    """
    columns = session.table(raw).columns
    missing = [f"{name} {kind}" for name, kind in added.items() if name not in columns]
    if missing:
        session.sql(f"alter table {raw} add columns ({', '.join(missing)})")


def _append(session: Any, raw: str, batch: int, source: Folder, plan: Plan) -> None:
    """Lands a batch, all of it or nothing.

    Raises:
        RuntimeError: Delta ignored the commit.
    """
    reports: list[Row] = [
        (file.table, None, file.name, 0, problem, file.size, file.modified, checksum)
        for file, checksum, problem in plan.reported
    ]
    rows = source.lines(plan.new) if plan.new else None
    if reports:
        reported = session.createDataFrame(reports, LINES)
        rows = reported if rows is None else rows.unionByName(reported)
    assert rows is not None
    (
        rows.withColumn("_landed_at", F.current_timestamp())
        .withColumn("_batch", F.lit(batch).cast("bigint"))
        .withColumn("_modified_at", F.timestamp_millis("_modified"))
        .drop("_modified")
        .write.format("delta")
        .mode("append")
        .option("txnAppId", TXN_APP)
        .option("txnVersion", batch)
        .saveAsTable(raw)
    )
    if session.table(raw).where(F.col("_batch") == batch).isEmpty():
        raise RuntimeError(
            f"Delta has not written batch {batch} to {raw}: its log says that the batch was written"
            " before, and its rows are gone. The table was restored or changed by hand. Drop the"
            " raw table and run the landing model again: it lands all files that are still there"
        )


def _summary(session: Any, raw: str, last: int) -> DataFrame:
    """The rows of the log that the raw table gives for the batches after `last`."""
    return (
        session.table(raw)
        .where(F.col("_batch") > last)
        .groupBy("_table", "_file", "_batch")
        .agg(
            F.min("_landed_at").alias("_landed_at"),
            F.count_if(F.col("_problem").isNull()).alias("lines"),
            F.count_if(F.col("_problem").isNotNull()).alias("unreadable"),
            F.first("_problem", ignorenulls=True).alias("problem"),
            F.first("_size").alias("bytes"),
            F.first("_modified_at").alias("modified_at"),
            F.first("_checksum").alias("checksum"),
        )
    )


def _read_log(log: DataFrame) -> list[dict[str, Any]]:
    """What the log knows; one of a former version lacks columns."""
    names = ("_file", "_batch", "_landed_at", "bytes", "modified_at", "checksum")
    kinds = {"bytes": "bigint", "modified_at": "timestamp", "checksum": "string"}
    return _rows(
        log.select(
            *(
                F.col(name) if name in log.columns else F.lit(None).cast(kinds[name]).alias(name)
                for name in names
            )
        )
    )


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries, through Arrow; a modification time as milliseconds since 1970."""
    if "modified_at" in frame.columns:
        frame = frame.withColumn("modified_at", F.unix_millis("modified_at"))
    return frame.toArrow().to_pylist()


def _as_time(milliseconds: int) -> datetime:
    # Python's times end before those of file systems.
    return datetime.fromtimestamp(min(milliseconds, LAST_TIME) / 1000, timezone.utc)
