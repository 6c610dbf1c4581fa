"""Lines of change files as rows; the executors of a cluster run this."""

from __future__ import annotations

import hashlib
import os
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa
from pyspark import cloudpickle

from dbt_spark_cdc import packed
from dbt_spark_cdc.packed import decompress

# A chunk of rows, for Arrow and Java: so many at most, and no more of them than have these bytes.
ROWS_A_CHUNK = 10_000
BYTES_A_CHUNK = 16 * 1024 * 1024
# A longer line is reported: a row of Spark and an array of Arrow cannot hold any line.
LINE_LIMIT = 256 * 1024 * 1024
# Columns are made of the lines of larger files; of these, rows are made sooner.
SMALL_FILE = 4 * 1024
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
Row = tuple[str, "str | None", str, int, "str | None", int, int, "str | None"]

# The executors of a cluster need not have this package: the functions travel whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
cloudpickle.register_pickle_by_value(packed)


def read_local(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads files of disks that all machines of the cluster mount.

    Args:
        batches: A row for each task: names and paths of its files.
    """
    for batch in batches:
        for part in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield from files_batches(read_files(*part))


def read_files(names: Sequence[str], paths: Sequence[str]) -> Iterator[tuple[str, bytes, int]]:
    """Reads files of this machine.

    Args:
        names: Their names.
        paths: Their paths.

    Yields:
        Name, content and modification time in milliseconds since 1970.
    """
    for name, path in zip(names, paths, strict=True):
        try:
            with open(path, "rb") as file:
                modified = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
                content = file.read()
        except FileNotFoundError:  # removed since it was listed; nothing says that it landed
            continue
        yield name, content, modified


def read_content(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Makes rows of files that Spark has read.

    Args:
        batches: Path, modification time and content of each file.
    """
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns)
        yield from files_batches(
            (name_of(path), content, modified)
            for path, modified, content in zip(*columns, strict=True)
        )


def name_of(address: str) -> str:
    """Returns the name of a file, `<table>/<file>`.

    Args:
        address: Its path as Spark writes it.
    """
    return unquote("/".join(address.split("/")[-2:]))


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


def read_lines(name: str, content: bytes) -> Iterator[tuple[str | None, int, str | None]]:
    """Splits a change file into lines.

    Args:
        name: File name, see `is_packed`.
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


def _text(name: str, content: bytes) -> tuple[bytes, int, str | None]:
    """What `decompress` returns, without the mark that editors and exports put before a text."""
    unpacked, sound, problem = decompress(name, content)
    text = unpacked.removeprefix(BOM_UTF8)
    return text, max(sound - len(unpacked) + len(text), 0), problem
