"""`cdc status`: where tables stand, as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from dbt_spark_cdc.observe.runs import COUNTERS
from dbt_spark_cdc.observe.status import BEHIND, FAILED, NOT_BUILT, UP_TO_DATE, TableStatus, Unread

OVERVIEW_WIDTH = 130

_COLOURS = {UP_TO_DATE: "green", BEHIND: "yellow", FAILED: "red", NOT_BUILT: "yellow"}


def overview(found: Sequence[TableStatus], now: datetime) -> Table:
    """Returns one line for each table.

    Args:
        found: The tables.
        now: The present.
    """
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    shown.add_column("table", no_wrap=True)
    for name in ("state", "lag", "unread", "high-water", "last change"):
        shown.add_column(name, no_wrap=True)
    for name in ("rows", "quarantined", "files", "small", "DVs"):
        shown.add_column(name, justify="right", no_wrap=True)
    for one in found:
        last = one.stored[-1].table if one.stored else None
        files = [stored.table for stored in one.stored if stored.table]
        shown.add_row(
            escape(one.table.name),
            _coloured(one.state),
            duration(one.lag(now)),
            _unread_text(one.unread),
            _number(one.high_water_mark),
            ago(_changed(one), now),
            _number(last.rows if last else None),
            _quarantined_text(one),
            _number(sum(len(table.files) for table in files)),
            _number(sum(stored.small_files for stored in one.stored)),
            _number(sum(table.deletion_vectors for table in files)),
        )
    return shown


def details(one: TableStatus, now: datetime) -> Iterator[RenderableType]:
    """Returns all that is known of one table.

    Args:
        one: The table.
        now: The present.
    """
    yield f"[bold]{escape(one.table.name)}[/]  {_coloured(one.state)}"
    if one.reason:
        yield f"  {escape(one.reason)}"
    facts = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    facts.add_row("source", escape(one.table.source_name) or "-")
    facts.add_row("lag", duration(one.lag(now)))
    facts.add_row("unread raw rows", _unread_text(one.unread))
    if one.unread_versions is not None:
        facts.add_row("unread versions of the history", str(one.unread_versions))
    facts.add_row("high-water mark", _number(one.high_water_mark))
    facts.add_row("newest event", one.newest_event or "-")
    facts.add_row("quarantined", _quarantined_text(one))
    if one.result:
        spent = f"{one.result.status}, {one.result.seconds:.1f} s"
        facts.add_row("last result", f"{spent}, {ago(one.result.finished, now)}")
    for test in one.failed_tests:
        facts.add_row("failed test", escape(f"{test.node.split('.')[2]}: {test.message}"))
    if one.runs:
        run = one.runs[-1]
        counted = ", ".join(
            f"{run.counters[name]:,} {name.replace('_', ' ')}"
            for name in COUNTERS
            if run.counters.get(name)
        )
        facts.add_row(
            "last run with changes", f"{ago(run.at, now)}: {counted or 'nothing counted'}"
        )
    yield facts
    files = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("stored in", "version", "rows", "files", "small", "size", "DVs", "hidden rows"):
        files.add_column(name, justify="left" if name == "stored in" else "right", no_wrap=True)
    for stored in one.stored:
        table = stored.table
        files.add_row(
            escape(str(stored.node.get("relation_name") or stored.node["name"])),
            _number(table.version if table else None),
            _number(table.rows if table else None),
            _number(len(table.files) if table else None),
            _number(stored.small_files if table else None),
            size(table.size if table else None),
            _number(table.deletion_vectors if table else None),
            _number(table.deleted_rows if table else None),
        )
    yield files


def show(console: Console, found: Sequence[TableStatus], one: bool, now: datetime) -> None:
    """Prints where tables stand.

    Args:
        console: Where to print.
        found: The tables.
        one: Whether one of them was asked for.
        now: The present.
    """
    if one:
        for part in details(found[0], now):
            console.print(part, soft_wrap=isinstance(part, str))
        return
    # A narrow terminal wraps lines, and loses no cell.
    console.width = max(console.width, OVERVIEW_WIDTH)
    console.print(overview(found, now))
    for status in found:
        if status.reason and status.state != BEHIND:
            text = f"{escape(status.table.name)}: {escape(status.reason)}"
            console.print(text, soft_wrap=True)


def _changed(one: TableStatus) -> datetime | None:
    changes: list[datetime] = []
    for stored in one.stored:
        commits = stored.table.commits if stored.table else []
        changes += [commit.at for commit in commits if commit.changes_rows][:1]
    return max(changes, default=None)


def _coloured(state: str) -> str:
    colour = _COLOURS.get(state)
    return f"[{colour}]{state}[/]" if colour else state


def _unread_text(unread: Unread) -> str:
    if unread.rows is None:
        return "some" if unread.since else "-"
    return f"{'' if unread.exact or not unread.rows else '<= '}{unread.rows:,}"


def _quarantined_text(one: TableStatus) -> str:
    # A first build counts none: "at least 0" says nothing.
    if one.quarantined is None or not (one.quarantined or one.quarantined_exact):
        return "-"
    return f"{'' if one.quarantined_exact else '>= '}{one.quarantined:,}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Returns a number of bytes as people read it.

    Args:
        value: The number.
    """
    if value is None:
        return "-"
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def duration(value: timedelta | None) -> str:
    """Returns a span of time in its largest units.

    Args:
        value: The span.
    """
    if value is None:
        return "-"
    seconds = value.total_seconds()
    if seconds < 60:
        return f"{seconds:.0f} s"
    units: tuple[tuple[str, int], ...] = (("d", 86400), ("h", 3600), ("min", 60))
    for place, (unit, length) in enumerate(units):
        if seconds >= length:
            whole, rest = divmod(int(seconds), length)
            if place + 1 < len(units):
                below, smaller = units[place + 1]
                if rest >= smaller:
                    return f"{whole} {unit} {rest // smaller} {below}"
            return f"{whole} {unit}"
    return "-"


def ago(at: datetime | None, now: datetime) -> str:
    """Returns how long ago something was.

    Args:
        at: When.
        now: The present.
    """
    return "-" if at is None else f"{duration(max(now - at, timedelta()))} ago"
