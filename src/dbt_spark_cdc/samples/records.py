"""The first records of a change file: JSON in any layout, CSV or Parquet, packed or not."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

RECORDS = 5_000
BYTES = 32 * 1024**2
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
_OTHER_KINDS = {
    b"Obj\x01": "Avro",
    b"ORC": "ORC",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}
_REMEDY = "Name a file of events in one of these formats, or load it into a table and name that."
_FLAGS = {"I", "U", "D", "T"}


class Unreadable(Exception):
    """A sample cannot be had; the message says why and what to do."""


class NoRecords(Unreadable):
    """The file is sound and holds no record: a header alone, or no line."""


@dataclass
class Sample:
    """Records of a file or table.

    Attributes:
        name: What was read.
        kind: `json`, `csv`, `parquet` or `table`.
        records: The first records, as dicts; JSON that is no object as it is.
        types: Spark types of columns, where the file or table knows them.
        payload: Column that the records were found in as JSON text; empty: they are columns.
        beside: The other columns of the table that has this one.
        rows: The rows of that table that the records stand in.
        notes: What was strange about it.
        by_line: Whether each record stands on a line of its own.
        reader: Options by which Spark reads the file as these columns.
    """

    name: str
    kind: str
    records: list[Any]
    types: Mapping[str, str] = field(default_factory=dict)
    payload: str = ""
    beside: tuple[str, ...] = ()
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    by_line: bool = True
    reader: Mapping[str, str] = field(default_factory=dict)


def read_sample(path: Path, limit: int = RECORDS) -> Sample:
    """Reads the first records of a file, or of the newest file in a folder.

    Args:
        path: File or folder.
        limit: How many records to read at most.

    Raises:
        Unreadable: The file is empty, damaged or of another kind.
    """
    file = _newest(path) if path.is_dir() else path
    try:
        head, notes = _head(file)
    except OSError as exc:
        raise Unreadable(
            f"{file} cannot be read: {exc.strerror or exc}. Name a file that this user may read."
        ) from exc
    if not head.strip():
        raise NoRecords(f"{file} is empty. Name a file that holds events.")
    for magic, kind in _OTHER_KINDS.items():
        if head.startswith(magic):
            raise Unreadable(
                f"{file} is a file of kind {kind}. JSON, CSV and Parquet are read, also packed by "
                "gzip; load anything else into a table and name that."
            )
    sample = _parquet(file, limit) if head.startswith(PARQUET) else _text(file, head, limit)
    sample.notes[:0] = notes
    if not sample.records:
        raise NoRecords(f"{file} holds no records. Name a file that holds events.")
    return unfolded(sample)


def unfolded(sample: Sample) -> Sample:
    """Returns the sample with the events that a column holds as JSON text, if one does.

    Args:
        sample: Records that may be rows of a raw table, a line of JSON in each.
    """
    if sample.kind == "json":
        return sample
    names = dict.fromkeys(name for row in sample.records for name in row)
    # The key of a message, which stands before its value, is JSON as well.
    for name in sorted(names, key=lambda name: name != "value"):
        rows = [row for row in sample.records if _is_object(row.get(name))]
        if len(rows) < len(sample.records) / 2:
            continue
        read = [(_json_or_none(row[name]), row) for row in rows]
        found = [(event, row) for event, row in read if isinstance(event, dict)]
        # A few bad lines are what a raw table may hold.
        if len(found) >= len(rows) / 2:
            return replace(
                sample,
                records=[event for event, _ in found],
                types={},
                payload=name,
                beside=tuple(other for other in names if other != name),
                rows=[row for _, row in found],
            )
    return sample


def _is_object(text: Any) -> bool:
    return isinstance(text, str) and text.lstrip()[:1] == "{"


def _newest(folder: Path) -> Path:
    files = [
        file
        for file in folder.rglob("*")
        if file.is_file() and not any(part[0] in "_." for part in file.relative_to(folder).parts)
    ]
    if not files:
        raise Unreadable(f"{folder} is a folder without files. Name a file that holds events.")
    return max(files, key=lambda file: (file.stat().st_mtime, file.name))


def _head(file: Path) -> tuple[bytes, list[str]]:
    """The first bytes, unpacked, and what was wrong on the way."""
    with file.open("rb") as raw:
        if raw.read(2) != GZIP:
            raw.seek(0)
            return raw.read(BYTES), []
    unpacked, notes = bytearray(), []
    try:
        with gzip.open(file) as packed:
            while len(unpacked) < BYTES and (part := packed.read1(1024**2)):
                unpacked += part
    except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
        if not unpacked:
            raise Unreadable(f"{file} is a damaged gzip file ({exc}). Fetch it again.") from exc
        notes.append(f"the gzip file is damaged ({exc}); what comes before the damage was read")
    return bytes(unpacked), notes


def _parquet(file: Path, limit: int) -> Sample:
    import pyarrow as pa
    from pyarrow import parquet

    with file.open("rb") as raw:
        packed = raw.read(2) == GZIP
    try:
        source = io.BytesIO(gzip.decompress(file.read_bytes())) if packed else file
        opened = parquet.ParquetFile(source)
        records: list[Any] = []
        for batch in opened.iter_batches(batch_size=min(limit, 1_000)):
            records += batch.to_pylist()
            if len(records) >= limit:
                break
    except (pa.ArrowException, OSError, EOFError, zlib.error) as exc:
        raise Unreadable(f"{file} is a damaged Parquet file ({exc}). Fetch it again.") from exc
    types = {column.name: spark_type(column.type) for column in opened.schema_arrow}
    return Sample(file.name, "parquet", records[:limit], types)


def spark_type(arrow: Any) -> str:
    """Returns the Spark type of an Arrow type.

    Args:
        arrow: A pyarrow.DataType.
    """
    import pyarrow as pa

    simple = {
        "bool": "boolean",
        "int8": "tinyint",
        "int16": "smallint",
        "int32": "int",
        "int64": "bigint",
        "uint8": "smallint",
        "uint16": "int",
        "uint32": "bigint",
        "uint64": "decimal(20,0)",
        "halffloat": "float",
        "float": "float",
        "double": "double",
        "date32[day]": "date",
        "binary": "binary",
        "large_binary": "binary",
    }
    if str(arrow) in simple:
        return simple[str(arrow)]
    if pa.types.is_decimal(arrow) and arrow.precision <= 38:
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "timestamp" if arrow.tz else "timestamp_ntz"
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return f"array<{spark_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        fields = (arrow.field(number) for number in range(arrow.num_fields))
        return "struct<" + ",".join(f"{f.name}:{spark_type(f.type)}" for f in fields) + ">"
    return "string"


def _text(file: Path, head: bytes, limit: int) -> Sample:
    whole = len(head) < BYTES
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        # The sample may end inside of a character.
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise Unreadable(
                f"{file} is text in UTF-16. Convert it: iconv -f utf-16 -t utf-8"
            ) from exc
        if b"\0" in head:
            raise Unreadable(
                f"{file} is not a text file (it holds NUL bytes), and not Parquet. JSON, CSV and "
                "Parquet are read; load anything else into a table and name that."
            ) from exc
        if whole or exc.start < len(head) - 4:
            raise Unreadable(
                f"{file} is neither Parquet nor text in UTF-8 (byte {exc.start}). Convert it: "
                "iconv -f latin1 -t utf-8"
            ) from exc
        text = head[: exc.start].decode("utf-8-sig")
    if not whole:
        text = text[: text.rfind("\n") + 1] or text
    if text.lstrip()[:1] in ("{", "["):
        return _json(file, text, limit)
    return _csv(file, text, limit)


def _json(file: Path, text: str, limit: int) -> Sample:
    notes: list[str] = []
    # Not splitlines(): a text may hold a line separator of Unicode.
    lines = [line for line in text.split("\n") if line.strip()][:limit]
    parsed = [_json_or_none(line) for line in lines]
    good = [record for record in parsed if isinstance(record, dict)]
    if good and len(good) >= len(lines) / 2:
        # A line `null` is the tombstone that Kafka keeps for a deleted key.
        tombstones = sum(line.strip() == "null" for line in lines)
        bad = len(lines) - len(good) - tombstones
        if bad:
            notes.append(f"{bad} of {len(lines)} lines are no JSON objects and would be bad events")
        return Sample(file.name, "json", good, notes=notes)
    records = list(itertools.islice(_values(text), limit))
    if not records:
        raise Unreadable(
            f"{file} begins like JSON but is not valid JSON: {_json_fault(text)}. Write one event "
            "per line, or an array of events."
        )
    by_line = len(lines) == len(records) and text.lstrip()[0] != "["
    if not by_line:
        notes.append("the events are not on one line each, as a raw table of lines needs them")
    return Sample(file.name, "json", records, notes=notes, by_line=by_line)


def _values(text: str) -> Iterator[Any]:
    """JSON values that follow one another, arrays taken apart, as far as they can be read."""
    decoder = json.JSONDecoder(parse_float=Decimal)
    at = 0
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError):
            return
        yield from (v for v in (value if isinstance(value, list) else [value]) if v is not None)


def _json_fault(text: str) -> str:
    try:
        json.JSONDecoder().raw_decode(text.lstrip())
    except (json.JSONDecodeError, RecursionError) as exc:
        return str(exc)
    return "it holds no objects"


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except (json.JSONDecodeError, RecursionError):
        return None


def _check_header(file: Path, names: Sequence[str]) -> None:
    """Raises Unreadable where Spark would not find the columns by the names of the first line."""
    if blank := [name for name in names if name != name.strip()]:
        raise Unreadable(
            f"{file} has blanks around the names of columns: "
            f"{', '.join(f'`{name}`' for name in blank)}. Remove the blanks from its first line."
        )
    if "" in names:
        raise Unreadable(
            f"{file} has no name for column {names.index('') + 1} of its first line. Write one."
        )
    counted = Counter(name.lower() for name in names)
    if twice := [name for name in names if counted[name.lower()] > 1]:
        raise Unreadable(
            f"{file} has columns whose names are the same but for case: {', '.join(twice)}. Rename"
            " all but one of them in its first line."
        )


def _csv(file: Path, text: str, limit: int) -> Sample:
    if "\0" in text[:1000]:
        raise Unreadable(f"{file} is neither Parquet, JSON nor CSV. {_REMEDY}")
    first = text.lstrip("\r\n").partition("\n")[0].rstrip()
    delimiter = max(",;\t|", key=first.count)
    if delimiter not in first:
        raise Unreadable(
            f"{file} is neither Parquet, JSON nor CSV: its first line is `{first[:60]}`. {_REMEDY}"
        )
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    except csv.Error as exc:
        raise Unreadable(f"{file} is not valid CSV: {exc}. Correct the file.") from exc
    notes = []
    headed = rows[0][0].strip() not in _FLAGS
    if not headed:
        names = ["Op", *(f"_c{number}" for number in range(1, len(rows[0])))]
        notes.append("the file has no line of column names: name the columns _c1, _c2, ...")
    else:
        names = rows.pop(0)
        _check_header(file, names)
    rows = rows[:limit]
    odd = sum(len(row) != len(names) for row in rows)
    if odd:
        notes.append(f"{odd} of {len(rows)} rows have another number of cells than the first line")
    records = [{name: cell or None for name, cell in zip(names, row, strict=False)} for row in rows]
    reader = {"sep": delimiter, "header": str(headed).lower()}
    return Sample(file.name, "csv", records, notes=notes, reader=reader)
