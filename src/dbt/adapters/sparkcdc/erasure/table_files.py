"""The files of tables: which hold rows of some keys, and a search that proves they do not.

A row that is deleted stays in files: under deletion vectors, in files that no version owns, in the
change feed, and its values in the statistics and predicates of the log. All of them are read here
as they lie on the disk, compressed columns included. What only Iceberg tables have is in
`iceberg.py`, beside this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from dbt.adapters.sparkcdc.erasure import avro_file

from dbt_spark_cdc.packed import GZIP_BEGINS, decompress

LOG = "_delta_log"
# Commits, checksums and checkpoints; compacted commits have two numbers.
NUMBERED = re.compile(r"\.?(\d{20})\.")
SIDECARS = "_sidecars"
OTHERS_WRITE = (
    "cdc: another program wrote {name}, or set it back, while cdc_erase ran. Run cdc_erase again"
    " when nothing else writes: it finishes the erasure."
)
ROWS_A_BATCH = 65_536
FIELD_ID = b"PARQUET:field_id"
# Statistics keep the first characters of texts: 16 of them in Iceberg's manifests, 32 in Delta's
# log, 64 in an index of Parquet. The last one of an upper bound is another one.
SHORTENED = frozenset([15, 31, 63])


@dataclass
class Found:
    """What a search came to.

    Attributes:
        searched: How many files were read.
        holding: The files that hold one of the values, below the folder.
    """

    searched: int = 0
    holding: list[str] = field(default_factory=list)


def data_files(folder: Path) -> set[str]:
    """Returns the Parquet files of a table's folder, live or not, without those of the log.

    Args:
        folder: The table's folder.
    """
    files = (path.relative_to(folder) for path in folder.rglob("*.parquet") if path.is_file())
    return {path.as_posix() for path in files if path.parts[0] != LOG}


def remove_empty_folders(folder: Path) -> None:
    """Removes the folders below a folder that hold no file; a partition's has a value as its name.

    Args:
        folder: The folder, which stays.
    """
    for below in sorted(folder.rglob("*"), reverse=True):
        if below.is_dir() and not below.is_symlink() and not any(below.iterdir()):
            below.rmdir()


def forget_log(folder: Path, version: int) -> int:
    """Removes what the log has of versions before one that has a checkpoint.

    Args:
        folder: The table's folder.
        version: The oldest version that stays.

    Returns:
        How many files were removed.

    Raises:
        FileNotFoundError: That version has no checkpoint, and the table could not be read after.
    """
    log = folder / LOG
    names = sorted(path.name for path in log.iterdir() if path.is_file())
    if not any(name.startswith(f"{version:020}.checkpoint") for name in names):
        raise FileNotFoundError(f"{log} has no checkpoint of version {version}")
    removed = 0
    for name in names:
        number = NUMBERED.match(name)
        if number and int(number[1]) < version:
            (log / name).unlink()
            removed += 1
    kept = "".join(_sidecars(log, version))
    for path in (log / SIDECARS).glob("*.parquet") if (log / SIDECARS).is_dir() else ():
        if path.name not in kept:
            path.unlink()
            removed += 1
    return removed


def _sidecars(log: Path, version: int) -> Iterator[str]:
    """The names of the files that a checkpoint of several parts consists of."""
    for path in log.glob(f"{version:020}.checkpoint*"):
        if path.suffix == ".json":
            yield path.read_text(encoding="utf-8")
        elif "sidecar" in pq.read_schema(path).names:
            rows = pq.read_table(path, columns=["sidecar"]).column(0).to_pylist()
            yield from (row["path"] for row in rows if row)


def physical_names(schema: str) -> dict[str, str]:
    """Returns what the files call the columns of a table.

    Args:
        schema: The schema of the table's metadata, as JSON.
    """
    fields = json.loads(schema)["fields"]
    mapped = "delta.columnMapping.physicalName"
    return {item["name"]: item["metadata"].get(mapped, item["name"]) for item in fields}


def holds_keys(file: Path, keys: pa.Table, names: Mapping[str, str | int]) -> bool:
    """Returns whether a Parquet file has a row of one of the keys, deleted or not.

    Args:
        file: The file.
        keys: The keys, a row each.
        names: What the file calls the columns, or the ids by which it knows them. One that it lacks
            holds any key: it may be a partition column.
    """
    with pq.ParquetFile(file) as parquet:
        known = _columns(parquet.schema_arrow)
        names = {
            # Files that were not written by Iceberg have no ids.
            name: known.get(names[name], name)
            for name in keys.column_names
            if names[name] in known or (isinstance(names[name], int) and name in known)
        }
        there = list(names)
        if not there:
            return False
        wanted = set(zip(*(keys.column(name).to_pylist() for name in there), strict=True))
        columns = [names[name] for name in there]
        for batch in parquet.iter_batches(ROWS_A_BATCH, columns=columns):
            rows = batch.select(columns)
            mask = None
            for name, column in zip(there, rows.columns, strict=True):
                values = keys.column(name).unique()
                try:
                    values = values.cast(column.type)
                except pa.ArrowInvalid:  # the type was widened since, and some key needs that
                    column = column.cast(values.type)
                one = pc.is_in(column, value_set=values)
                mask = one if mask is None else pc.and_(mask, one)
            some = rows.filter(mask)
            if wanted & set(zip(*(column.to_pylist() for column in some.columns), strict=True)):
                return True
    return False


def _columns(schema: pa.Schema) -> dict[str | int, str]:
    """The columns of a file by their names and by their ids."""
    found: dict[str | int, str] = {name: name for name in schema.names}
    for column in schema:
        if column.metadata and FIELD_ID in column.metadata:
            found[int(column.metadata[FIELD_ID])] = column.name
    return found


def search(
    folder: Path,
    values: Sequence[str],
    keys: pa.Table | None,
    names: Mapping[str, str | int],
    beginnings: Sequence[str] = (),
) -> Found:
    """Searches all files of a folder for values: their names, their bytes, what is compressed.

    Args:
        folder: The folder, with all below it.
        values: Texts.
        keys: Keys that no Parquet file outside the log may have a row of.
        names: See `holds_keys`.
        beginnings: Shortened texts, which no file but those of data may hold.
    """
    needles = spellings(values)
    shortened = sorted({*needles, *spellings(beginnings)})
    found = Found()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        is_named = any(needle in unquote(path.name).encode() for needle in needles)
        if not path.is_file():
            if is_named:
                found.holding.append(name.as_posix())
            continue
        found.searched += 1
        is_data = path.suffix == ".parquet" and name.parts[0] != LOG
        if (
            is_named
            or holds_text(path, needles if is_data else shortened)
            or (is_data and keys is not None and holds_keys(path, keys, names))
        ):
            found.holding.append(name.as_posix())
    return found


def spellings(values: Iterable[str]) -> list[bytes]:
    """Returns the bytes that texts are written as: plain, and as JSON writes them.

    Args:
        values: The texts.
    """
    found = set()
    for value in values:
        for text in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
            found.add(text.encode("utf-8", "surrogatepass"))
    return sorted(found - {b""})


def holds_text(file: Path, needles: Sequence[bytes]) -> bool:
    """Returns whether a file holds one of the texts.

    Args:
        file: A file; Parquet, Avro and gzip are unpacked as well. One of Avro that cannot be
            unpacked may hold anything.
        needles: See `spellings`.
    """
    if not needles:
        return False
    content = file.read_bytes()
    if any(needle in content for needle in needles):
        return True
    if content.startswith(GZIP_BEGINS):  # of a damaged file, what can be read
        unpacked = decompress(file.name, content)[0]
        return any(needle in unpacked for needle in needles)
    if content[:4] == avro_file.MAGIC:
        try:
            return any(n in block for block in avro_file.blocks(content) for n in needles)
        except ValueError:
            return True
    if content[:4] == b"PAR1":
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(ROWS_A_BATCH):
                for column in batch.columns:
                    if any(_matches(texts, needles) for texts in _texts(column)):
                        return True
    return False


def _matches(texts: pa.Array, needles: Sequence[bytes]) -> bool:
    return any(pc.any(pc.match_substring(texts, needle)).as_py() for needle in needles)


def _texts(column: Any) -> Iterator[pa.Array]:
    """The texts and bytes of a column, those inside of lists, maps and structs included."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield from _texts(column.dictionary)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield column.cast(pa.large_binary())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        yield column
    elif pa.types.is_struct(kind):
        for child in column.flatten():
            yield from _texts(child)
    elif pa.types.is_map(kind):
        yield from _texts(column.keys)
        yield from _texts(column.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _texts(column.values)
