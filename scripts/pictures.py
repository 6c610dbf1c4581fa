"""Draws the pictures of docs/concepts.md: events on a line of positions, and their versions.

    python scripts/pictures.py            # write docs/concepts/*.svg
    python scripts/pictures.py --check    # exit 1 if one would change

The versions are written down here as the rules have them. A test folds the events by the code that
the functional tests compare tables with, and compares.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "concepts"

WIDTH, LEFT, RIGHT = 740, 100, 520
EVENTS_HEIGHT, LANE_HEIGHT, TITLE_HEIGHT = 46, 34, 26

STYLE = """
    svg { --paper: #ffffff; --ink: #1f2328; --faint: #59636e; --line: #8c959f; --bar: #ddeaf7;
      --edge: #4a6f94; --new: #1a7f4b; --end: #b3312f; --on-mark: #ffffff; }
    @media (prefers-color-scheme: dark) {
      svg { --paper: #0d1117; --ink: #e6edf3; --faint: #9198a1; --line: #656c76; --bar: #172638;
        --edge: #7fa7cf; --new: #3fb27f; --end: #f0716e; --on-mark: #0d1117; }
    }
"""


@dataclass(frozen=True)
class Change:
    """An event of a source row.

    Attributes:
        position: Its `_seq`.
        op: `I`, `U`, `D` or `T`.
        key: Key of the row; None for a truncate.
        name: Value of the column `name`.
        city: Value of the column `city`; None where the event leaves it unset.
        batch: Number of the batch in which it arrives.
        old_key: The key that it changes, if it changes one.
    """

    position: int
    op: str
    key: int | None = None
    name: str | None = None
    city: str | None = None
    batch: int = 1
    old_key: int | None = None


@dataclass(frozen=True)
class Version:
    """A row of the history: its key, values and positions; `end` is None while it is open."""

    key: int
    name: str
    city: str
    begin: int
    end: int | None = None


@dataclass(frozen=True)
class Picture:
    """One rule.

    Attributes:
        name: Name of the file.
        says: What a reader who cannot see it is told.
        changes: All events, in the order in which they arrive.
        batches: For each batch, the versions after it.
    """

    name: str
    says: str
    changes: tuple[Change, ...]
    batches: tuple[tuple[Version, ...], ...]


PICTURES = (
    Picture(
        "order",
        "The events of the positions 6, 2 and 4 arrive in this order, one per batch. After the last"
        " one the versions are those of the positions, as if the events had arrived in order.",
        (
            Change(6, "U", 1, "Ann", "Bern"),
            Change(2, "I", 1, "Ann", "Rome", batch=2),
            Change(4, "U", 1, "Ann", "Oslo", batch=3),
        ),
        (
            (Version(1, "Ann", "Bern", 6),),
            (Version(1, "Ann", "Rome", 2, 6), Version(1, "Ann", "Bern", 6)),
            (
                Version(1, "Ann", "Rome", 2, 4),
                Version(1, "Ann", "Oslo", 4, 6),
                Version(1, "Ann", "Bern", 6),
            ),
        ),
    ),
    Picture(
        "insert",
        "An insert at position 2 makes an open version.",
        (Change(2, "I", 1, "Ann", "Rome"),),
        ((Version(1, "Ann", "Rome", 2),),),
    ),
    Picture(
        "update",
        "The update at 4 changes the city and makes a version; the one at 6 changes nothing.",
        (
            Change(2, "I", 1, "Ann", "Rome"),
            Change(4, "U", 1, "Ann", "Oslo"),
            Change(6, "U", 1, "Ann", "Oslo"),
        ),
        ((Version(1, "Ann", "Rome", 2, 4), Version(1, "Ann", "Oslo", 4)),),
    ),
    Picture(
        "late",
        "The event of position 4 arrives in the second batch and splits the version from 2 to 6.",
        (
            Change(2, "I", 1, "Ann", "Rome"),
            Change(6, "U", 1, "Ann", "Oslo"),
            Change(4, "U", 1, "Ann", "Bern", batch=2),
        ),
        (
            (Version(1, "Ann", "Rome", 2, 6), Version(1, "Ann", "Oslo", 6)),
            (
                Version(1, "Ann", "Rome", 2, 4),
                Version(1, "Ann", "Bern", 4, 6),
                Version(1, "Ann", "Oslo", 6),
            ),
        ),
    ),
    Picture(
        "delete",
        "The delete at 5 closes the version. An update of position 3 that arrives after it changes"
        " the history only. The insert at 7 begins a new lifetime.",
        (
            Change(1, "I", 1, "Ann", "Rome"),
            Change(5, "D", 1),
            Change(3, "U", 1, "Ann", "Oslo", batch=2),
            Change(7, "I", 1, "Ann", "Bern", batch=3),
        ),
        (
            (Version(1, "Ann", "Rome", 1, 5),),
            (Version(1, "Ann", "Rome", 1, 3), Version(1, "Ann", "Oslo", 3, 5)),
            (
                Version(1, "Ann", "Rome", 1, 3),
                Version(1, "Ann", "Oslo", 3, 5),
                Version(1, "Ann", "Bern", 7),
            ),
        ),
    ),
    Picture(
        "truncate",
        "The truncate at 5 closes the versions of all keys, and that of key 2 which arrives later.",
        (
            Change(1, "I", 1, "Ann", "Rome"),
            Change(5, "T"),
            Change(7, "I", 1, "Ann", "Oslo"),
            Change(3, "I", 2, "Bob", "Bern", batch=2),
        ),
        (
            (Version(1, "Ann", "Rome", 1, 5), Version(1, "Ann", "Oslo", 7)),
            (
                Version(1, "Ann", "Rome", 1, 5),
                Version(1, "Ann", "Oslo", 7),
                Version(2, "Bob", "Bern", 3, 5),
            ),
        ),
    ),
    Picture(
        "partial",
        "The update at 6 leaves the city unset and takes it from the version before. The late event"
        " at 4 changes what it takes.",
        (
            Change(2, "I", 1, "Ann", "Rome"),
            Change(6, "U", 1, "Anna"),
            Change(4, "U", 1, "Ann", "Oslo", batch=2),
        ),
        (
            (Version(1, "Ann", "Rome", 2, 6), Version(1, "Anna", "Rome", 6)),
            (
                Version(1, "Ann", "Rome", 2, 4),
                Version(1, "Ann", "Oslo", 4, 6),
                Version(1, "Anna", "Oslo", 6),
            ),
        ),
    ),
    Picture(
        "key_change",
        "The update at 5 changes the key from 3 to 7: one ends where the other begins.",
        (
            Change(2, "I", 3, "Ann", "Rome"),
            Change(5, "U", 7, "Ann", "Rome", old_key=3),
        ),
        ((Version(3, "Ann", "Rome", 2, 5), Version(7, "Ann", "Rome", 5)),),
    ),
    Picture(
        "duplicate",
        "The insert and the update arrive a second time, and the versions stay as they are.",
        (
            Change(2, "I", 1, "Ann", "Rome"),
            Change(5, "U", 1, "Ann", "Oslo"),
            Change(2, "I", 1, "Ann", "Rome", batch=2),
            Change(5, "U", 1, "Ann", "Oslo", batch=2),
        ),
        (
            (Version(1, "Ann", "Rome", 2, 5), Version(1, "Ann", "Oslo", 5)),
            (Version(1, "Ann", "Rome", 2, 5), Version(1, "Ann", "Oslo", 5)),
        ),
    ),
)


def draw(picture: Picture) -> str:
    """Returns the picture as SVG, complete in itself, for light and dark."""
    keys = sorted({version.key for batch in picture.batches for version in batch})
    title = TITLE_HEIGHT if len(picture.batches) > 1 else 0
    panel = title + EVENTS_HEIGHT + LANE_HEIGHT * len(keys)
    height = panel * len(picture.batches) + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"',
        "  font-family=\"ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\""
        ' font-size="13">',
        f"  <title>{escape(picture.says)}</title>",
        f"  <style>{STYLE}  </style>",
        f'  <rect width="{WIDTH}" height="{height}" rx="8" fill="var(--paper)"/>',
    ]
    for index in range(len(picture.batches)):
        lines += _panel(picture, index + 1, keys, index * panel + title)
    return "\n".join([*lines, "</svg>", ""])


def _panel(picture: Picture, batch: int, keys: Sequence[int], top: int) -> Iterator[str]:
    """What is known after a batch: its events above, the versions below, the table at the side."""
    if len(picture.batches) > 1:
        yield _text(LEFT, top - 6, f"after batch {batch}", "--ink", "start", weight="600")
    line = top + 18
    yield _text(LEFT - 38, line + 5, "events", "--faint", "end")
    yield f'  <path d="M{LEFT} {line}H{RIGHT}" stroke="var(--line)"/>'
    # Of an event that came twice the last arrival is shown.
    known = {
        (change.position, change.key): change for change in picture.changes if change.batch <= batch
    }
    for change in known.values():
        yield from _mark(change, change.batch == batch, line)
    lanes = {key: line + 32 + LANE_HEIGHT * index for index, key in enumerate(keys)}
    for key, lane in lanes.items():
        yield _text(LEFT - 38, lane + 17, f"key {key}", "--faint", "end")
    versions = picture.batches[batch - 1]
    for version in versions:
        yield from _bar(version, lanes[version.key])
    rows = [version for version in versions if version.end is None]
    yield _text(RIGHT + 56, line + 5, "current table", "--faint", "start")
    for version in rows:
        row = f"{version.key}, {version.name}, {version.city}"
        yield _text(RIGHT + 56, lanes[version.key] + 17, row, "--ink", "start")
    if not rows:
        yield _text(RIGHT + 56, lanes[keys[0]] + 17, "no row", "--faint", "start")


def _mark(change: Change, is_new: bool, line: int) -> Iterator[str]:
    """An event: filled in the batch in which it arrives, an outline afterwards."""
    x = _x(change.position)
    colour = "--end" if change.op in ("D", "T") else "--new"
    fill = colour if is_new else "--paper"
    yield f'  <circle cx="{x}" cy="{line}" r="10" fill="var({fill})" stroke="var({colour})"/>'
    yield _text(x, line + 4, change.op, "--on-mark" if is_new else colour, "middle", size=12)
    yield _text(x, line + 24, _told(change), "--faint", "middle", size=11)


def _told(change: Change) -> str:
    """What an event says."""
    if change.op == "T":
        return "all"
    if change.op == "D":
        return f"key {change.key}"
    key = f"{change.old_key} to {change.key}" if change.old_key else f"{change.key}"
    return ", ".join([key, change.name or "", change.city or "(unset)"])


def _bar(version: Version, top: int) -> Iterator[str]:
    """A version, from its beginning to its end, or to the edge while it is open."""
    x, end = _x(version.begin), _x(version.end) if version.end else RIGHT + 24
    dashes = "none" if version.end else "5 3"
    yield (
        f'  <rect x="{x}" y="{top}" width="{end - x - 2}" height="26" rx="4" fill="var(--bar)"'
        f' stroke="var(--edge)" stroke-dasharray="{dashes}"/>'
    )
    yield _text(x + 8, top + 17, f"{version.name}, {version.city}", "--ink", "start")


def _text(
    x: int, y: int, text: str, colour: str, anchor: str, size: int = 13, weight: str = "400"
) -> str:
    return (
        f'  <text x="{x}" y="{y}" fill="var({colour})" text-anchor="{anchor}" font-size="{size}"'
        f' font-weight="{weight}">{escape(text)}</text>'
    )


def _x(position: int) -> int:
    """Where a position stands; they go from 1 to 8."""
    return LEFT + (RIGHT - LEFT) * (position - 1) // 7


def main(check: bool, folder: Path = FOLDER) -> int:
    """Writes or checks the pictures; returns the exit code.

    Args:
        check: Write nothing, and return 1 if one is not up to date.
        folder: The folder of the pictures.
    """
    wanted = {folder / f"{picture.name}.svg": draw(picture) for picture in PICTURES}
    outdated = [
        file
        for file, text in wanted.items()
        if not file.exists() or file.read_text(encoding="utf-8") != text
    ]
    if check:
        for file in outdated:
            print(f"{file.name} is out of date: run `python scripts/pictures.py`.", file=sys.stderr)
        return 1 if outdated else 0
    folder.mkdir(parents=True, exist_ok=True)
    for file in outdated:
        file.write_text(wanted[file], encoding="utf-8")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if outdated")
    sys.exit(main(parser.parse_args().check))
