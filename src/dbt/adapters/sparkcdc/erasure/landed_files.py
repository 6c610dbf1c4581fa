"""Landed files without some of their lines.

A line is replaced by an empty one, which landing ignores: so the other lines keep their numbers.
The new content is written beside the file, under a name that landing ignores, and takes the file's
place when the raw table and the log know its size and checksum. While it is there, landing leaves
the file alone; a run that died is continued from it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dbt_spark_cdc.packed import decompress, is_packed
from dbt_spark_cdc.whole_file import sync

BESIDE = ".cdc_erased"
UNFINISHED = ".cdc_writing"
# What files are packed with elsewhere. Read as text they would be lines of noise.
OTHER_PACKING = re.compile(r"(?i)\.(7z|br|bz2|deflate|lz4|lzma|lzo|snappy|xz|z|zip|zst|zstd)\Z")
# One that belongs to no member, and says no time: the same lines are the same bytes.
GZIP_TIME = 0


@dataclass(frozen=True)
class Rewrite:
    """A file that loses lines.

    Attributes:
        file: The file.
        table: The folder that it is in.
        lines: How many lines it loses.
        before: Its checksum, as the log has it.
        checksum: The checksum of what it is to hold.
        size: How many bytes that are; 0 where no line is left, and the file goes.
    """

    file: Path
    table: str
    lines: int
    before: str
    checksum: str
    size: int


class DamagedFile(ValueError):
    """A compressed file that cannot be read to its end, and so not be written again."""


def plan(folder: Path, lines: Mapping[str, Collection[str]]) -> tuple[list[Rewrite], list[str]]:
    """Returns which files lose lines, those of an erasure that died included.

    Args:
        folder: The landing folder.
        lines: For each table that the person may be in, the SHA-256 of the lines, without the line
            break. There may be none: a file that landing cannot unpack could have others.

    Returns:
        The files, and what is wrong with files that cannot be written again.
    """
    found, problems = [], []
    for table in sorted(path for path in folder.iterdir() if path.is_dir()):
        wanted = lines.get(table.name, ())
        for file in visible(table):
            if table.name in lines and (packing := other_packing(file.name)):
                problems.append(
                    f"{file}: {packing}. It may have lines of the person: replace it by one that"
                    " landing reads, or move it out of the folder"
                )
                continue
            try:
                count, left = _left(file, wanted)
            except DamagedFile as exc:
                problems.append(f"{file}: {exc}")
                continue
            if count or beside(file).is_file():
                before = hashlib.sha256(file.read_bytes()).hexdigest()
                after = hashlib.sha256(left).hexdigest()
                found.append(Rewrite(file, table.name, count, before, after, len(left)))
    return found, problems


def beside(file: Path) -> Path:
    """Returns where the new content of a file is until it takes the file's place.

    Args:
        file: The file.
    """
    return file.with_name(f".{file.name}{BESIDE}")


def _left(file: Path, lines: Collection[str]) -> tuple[int, bytes]:
    """What is left of a file, or of what an erasure that died has left of it."""
    known = beside(file) if beside(file).is_file() else file
    return without_lines(file.name, known.read_bytes(), lines)


def visible(folder: Path) -> Iterator[Path]:
    """Yields the files of a folder that landing reads.

    Args:
        folder: The folder of a table.
    """
    for file in sorted(folder.iterdir()):
        if file.is_file() and is_visible(file.name):
            yield file


def is_visible(name: str) -> bool:
    """Returns whether a file or folder is no temporary one, by the rules of Spark and Hadoop.

    Args:
        name: Its name.
    """
    return not name.startswith(("_", ".")) and not name.endswith("._COPYING_")


def other_packing(name: str) -> str:
    """Returns why a file cannot be unpacked, and the remedy; nothing where it is text or gzip.

    Args:
        name: Its name.
    """
    found = OTHER_PACKING.search(name)
    if not found:
        return ""
    return (
        f"landing does not unpack files that end with `{found[0]}`: send it as text, or packed by"
        " gzip under a name that ends with `.gz`"
    )


def without_lines(name: str, content: bytes, lines: Collection[str]) -> tuple[int, bytes]:
    """Empties the lines of a file that are among some.

    Args:
        name: Its name.
        content: Its bytes.
        lines: The SHA-256 of each of the lines.

    Returns:
        How many lines that were, and what is left; nothing where no other line is.

    Raises:
        DamagedFile: The file has such a line, and is damaged.
    """
    unpacked, _, problem = decompress(name, content)
    kept, count = [], 0
    for at, line in enumerate(unpacked.split(b"\n")):
        # Landing leaves out what stands before the first line; former versions did not.
        texts = (line,) if at else (line, line.removeprefix(BOM_UTF8))
        is_erased = any(
            text.strip() and hashlib.sha256(text).hexdigest() in lines for text in texts
        )
        count += is_erased
        kept.append(b"" if is_erased else line)
    if not count:
        return 0, content
    if problem:
        raise DamagedFile(
            f"{problem}, and it has lines of the person. Delete it: what could be read of it is in"
            " the raw table"
        )
    left = b"\n".join(kept)
    if not left.removeprefix(BOM_UTF8).strip():
        return count, b""
    return count, gzip.compress(left, mtime=GZIP_TIME) if is_packed(name, content) else left


def write_beside(file: Path, lines: Collection[str]) -> None:
    """Writes what a file is to hold beside it, with the file's time, all of it or nothing.

    Args:
        file: The file.
        lines: The SHA-256 of each of the lines that it loses.
    """
    _, left = _left(file, lines)
    stat = file.stat()
    unfinished = file.with_name(f".{file.name}{UNFINISHED}")
    with unfinished.open("wb") as out:
        out.write(left)
        out.flush()
        os.fsync(out.fileno())
    unfinished.chmod(stat.st_mode & 0o7777)
    os.utime(unfinished, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    unfinished.replace(beside(file))
    sync(file.parent)


def take_place(folder: Path) -> int:
    """Puts what was written beside files in their places; a file without lines goes.

    Args:
        folder: The landing folder.

    Returns:
        How many files went.
    """
    gone = 0
    for written in sorted(folder.glob(f"*/.*{BESIDE}")):
        file = written.with_name(written.name[1 : -len(BESIDE)])
        if file.is_file() and written.stat().st_size:
            written.replace(file)
        else:  # the file first: without what is beside it, it would be landed or reported
            gone += file.is_file()
            file.unlink(missing_ok=True)
            sync(file.parent)
            written.unlink()
        sync(file.parent)
    for unfinished in folder.glob(f"*/.*{UNFINISHED}"):
        unfinished.unlink()
    return gone
