"""What becomes of the files of a landing folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, NamedTuple

from dbt.adapters.sparkcdc.erasure.landed_files import other_packing

from dbt_spark_cdc.landing.folder import File
from dbt_spark_cdc.landing.lines import EMPTY

# What the report of such a file begins with.
REPLACED = "replaced after it was landed,"


class Seen(NamedTuple):
    """What is known of a file that was landed or reported before.

    Attributes:
        size: In bytes; None where a former version of this package landed it.
        modified: Modification times that this content had, in milliseconds since 1970.
        checksum: SHA-256 of its content.
        landed: Whether it ever had content.
        replaced: Whether this content was reported, and nothing of it landed.
    """

    size: int | None
    modified: Set[int | None]
    checksum: str | None
    landed: bool = True
    replaced: bool = False


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
        # Content that was reported is asked for under another name, and new there.
        is_landed = before.landed and not before.replaced
        if name not in present and is_landed and before.checksum:
            for modified in before.modified:
                gone.setdefault((name.split("/")[0], before.size, modified), []).append(name)

    plan = Plan([], [], [])
    for name in sorted(present):
        file, known = present[name], seen.get(name)
        if file.problem:
            # Reported as if it had no bytes, so that it is landed once it can be read.
            if known is None:
                plan.reported.append((file._replace(size=0), None, file.problem))
        elif known is None or not known.landed:
            former = {
                other: seen[other].checksum
                for other in gone.get((file.table, file.size, file.modified), [])
            }
            _add_new(plan, file, known, former, checksum, limit)
        elif known.size is not None and (
            known.size != file.size or file.modified not in known.modified
        ):
            _add_changed(plan, file, known, checksum(file))
    return plan


def _add_new(
    plan: Plan,
    file: File,
    known: Seen | None,
    former: Mapping[str, str | None],
    checksum: Callable[[File], str],
    limit: int | None,
) -> None:
    """Plans a file of which nothing was landed; `former` are files that it may have been."""
    if packing := other_packing(file.name):
        # As if it had no bytes: a later version may know how to unpack it.
        if known is None:
            plan.reported.append((file._replace(size=0), None, packing))
    elif file.size == 0:
        if known is None:
            plan.reported.append((file, None, EMPTY))
    elif limit is not None and file.size > limit:
        problem = f"file is larger than {limit:,} bytes: split it, and give the parts names"
        plan.reported.append((file, None, f"{problem} of their own"))
    else:
        content = checksum(file) if former else None
        same = [name for name, other in former.items() if other == content]
        if same:
            problem = f"renamed: its lines were landed from {same[0]} and are not landed again"
            plan.noted.append((file, content, problem))
        else:
            plan.new.append(file)


def _add_changed(plan: Plan, file: File, known: Seen, content: str) -> None:
    """Plans a file that was landed, and has another size or time since."""
    if content == known.checksum:
        plan.noted.append((file, content, None))  # so that it is not read again
        return
    was = f"{known.size:,} bytes" if known.size != file.size else "other content"
    problem = f"{REPLACED} now {file.size:,} bytes, before {was}"
    plan.reported.append(
        (file, content, f"{problem}: send the new content in a file of another name")
    )


def seen_files(rows: Iterable[Mapping[str, Any]]) -> dict[str, Seen]:
    """Returns what is known of each file.

    Args:
        rows: Rows of the log.
    """
    by_file: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        # Former versions logged a file as empty which Spark's file stream had overlooked.
        if row["_batch"] is not None or row["bytes"] is not None:
            by_file.setdefault(row["_file"], []).append(row)
    return {name: _seen(found) for name, found in by_file.items()}


def _seen(rows: list[Mapping[str, Any]]) -> Seen:
    """What the rows of one file say.

    Their times are those of a clock, which may step back, and of Spark's or of this machine. So
    batches are ordered by their numbers, and notes, which have none, not at all: a note is of
    content that was known before, that of the last batch or, of a renamed file, of no batch.
    """
    # What has neither bytes nor a checksum was reported before the file had any content.
    last = max(
        rows,
        key=lambda row: (
            row["bytes"] != 0 or row["checksum"] is not None,
            -1 if row["_batch"] is None else row["_batch"],
        ),
    )
    same = [row for row in rows if row["checksum"] == last["checksum"]]
    times = {row["modified_at"] for row in same if row is last or row["_batch"] is None}
    # A note without a reason is of a file that was touched: it does not tell what became of it.
    fates = [row["problem"] for row in same if row["_batch"] is not None or row["problem"]]
    return Seen(
        last["bytes"],
        times,
        last["checksum"],
        landed=any(row["bytes"] != 0 for row in rows),
        replaced=bool(fates) and all((fate or "").startswith(REPLACED) for fate in fates),
    )
