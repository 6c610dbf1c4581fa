"""`cdc explain`: what the next build would read and write, and why a row is as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dbt_spark_cdc.observe.status import Stored, TableStatus
from dbt_spark_cdc.observe.status_text import ago, size
from dbt_spark_cdc.project import BadProject, CdcTable, Node, Project, dbt_result
from dbt_spark_cdc.words import counted, quoted

_ENDS = ("D", "T")
_OPERATIONS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}
_IS_HERE = "_is_at_key"
_LABELS = (
    _IS_HERE,
    "_op",
    "_seq",
    "_ts",
    "_event_id",
    "_unset",
    "_arrived",
    "_resolved",
    "_row_id",
)


@dataclass(frozen=True)
class Step:
    """A step of the next build.

    Attributes:
        does: `read`, `decode`, `write` or `nothing`.
        relation: The table or view.
        text: What happens there.
    """

    does: str
    relation: str
    text: str


@dataclass(frozen=True)
class Event:
    """An event of a row.

    Attributes:
        position: Its place in the source's order.
        time: When it was committed there; None where events have no time.
        operation: Its operation.
        arrived: The arrival that brought it.
        effect: What it did.
        version: Which version of the history remembers it, counted from 1.
    """

    position: str
    time: str | None
    operation: str
    arrived: Any
    effect: str
    version: int | None


@dataclass(frozen=True)
class Row:
    """A row, and how it came to be.

    Attributes:
        key: Its key.
        events: Its events, in their order.
        versions: Its versions in the history.
        current: What the final table has of it; None where it has nothing.
    """

    key: dict[str, str]
    events: list[Event]
    versions: list[dict[str, Any]]
    current: dict[str, Any] | None


def next_steps(project: Project, found: TableStatus, now: datetime) -> list[Step]:
    """Returns what the next build would do for a table, as Delta's logs tell it.

    Args:
        project: The project.
        found: Where the table stands.
        now: The present.
    """
    table, unread, raw = found.table, found.unread, found.raw
    missing = [stored.node["name"] for stored in found.stored if not stored.may_be_there]
    steps = []
    if raw:
        files = project.external_folder(raw.node)
        steps.append(_read(found, raw, files, bool(missing), now))
    if table.staging:
        steps.append(_decode(project, table))
    idle = unread.rows == 0 and not missing
    for node in table.nodes:
        name = str(node.get("relation_name") or node["name"])
        if node["config"]["materialized"] == "view":
            steps.append(Step("nothing", name, "a view: it reads the history whenever it is asked"))
            continue
        stored = found.of(node)
        if stored.problem:
            steps.append(Step("write", name, f"unknown: {stored.problem}"))
        elif stored.table is None:
            steps.append(Step("write", name, "the first build makes it, from all events"))
        elif node is table.final and table.history:
            behind = found.unread_versions or 0
            if idle and not behind:
                steps.append(Step("nothing", name, "it has every change of the history"))
            else:
                verb = "waits" if behind == 1 else "wait"
                commits = counted(behind, "commit")
                waiting = f"{commits} of the history {verb} for it; " if behind else ""
                text = f"{waiting}rows whose open version changed are written or deleted"
                steps.append(Step("write", name, f"{text} ({_files(stored)})"))
        elif idle:
            steps.append(Step("nothing", name, "it has read everything"))
        else:
            steps.append(Step("write", name, _lookup(stored)))
    return steps


def _read(found: TableStatus, raw: Stored, folder: Path | None, first: bool, now: datetime) -> Step:
    name = str(raw.node.get("relation_name") or raw.node["name"])
    unread = found.unread
    if raw.table is None and folder and unread.rows == 0 and not first:
        return Step("nothing", name, f"no file came into {folder} since the last build")
    if raw.table is None and folder:
        return Step("read", name, f"all files in {folder}")
    if raw.table is None:
        return Step("read", name, raw.problem or "there is no such Delta table on this machine")
    if unread.rows == 0 and not first:
        mark = found.high_water_mark
        until = "" if mark is None else f" up to {mark:,}"
        return Step("nothing", name, f"all of it is read{until} (version {raw.table.version})")
    count = "rows" if unread.rows is None else counted(unread.rows, "row")
    since = f", the oldest written {ago(unread.since, now)}" if unread.since else ""
    if first:
        return Step("read", name, f"all of it: {count}{since}")
    of_files = size(sum(file.size for file in unread.files))
    files = f" in {counted(len(unread.files), 'file')} ({of_files})"
    at_most = "" if unread.exact else "at most "
    after = "" if found.high_water_mark is None else f" after {found.high_water_mark:,}"
    return Step("read", name, f"{at_most}{count}{after}{files if unread.files else ''}{since}")


def _decode(project: Project, table: CdcTable) -> Step:
    assert table.staging is not None
    declaration = table.declaration
    quarantine = project.quarantine(table)
    if declaration.get("on_bad_event") == "fail":
        bad = "a bad event stops the table before anything is written"
    elif quarantine:
        bad = f"bad events show in {quarantine.get('relation_name') or quarantine['name']}"
    else:
        bad = "bad events are not applied, and no model on cdc.quarantine shows them"
    name = str(table.staging.get("relation_name") or table.staging["name"])
    return Step("decode", name, f"format {declaration.get('format')}; {bad}")


def _lookup(stored: Stored) -> str:
    table = stored.table
    assert table is not None
    latest = [f for f in table.files.values() if f.partition.get("_cdc_is_latest") == "true"]
    if not latest or len(latest) == len(table.files):
        return f"the rows of the keys that these events name, in one commit ({_files(stored)})"
    text = f"open versions of these keys are looked up in {len(latest)} of {len(table.files)} files"
    text += f" ({size(sum(file.size for file in latest))} of {size(table.size)}); for late-arriving"
    return f"{text} events the closed ones too; one commit writes what changed"


def _files(stored: Stored) -> str:
    table = stored.table
    return f"{counted(len(table.files), 'file')}, {size(table.size)}" if table else "no files"


def parse_key(table: CdcTable, given: Sequence[str]) -> dict[str, str]:
    """Returns a key by its columns.

    Args:
        table: The table.
        given: `value` for a key of one column, else `column=value` for each.

    Raises:
        BadProject: It is not the table's key.
    """
    names = table.declaration.get("keys") or ["_row_id"]
    names = [names] if isinstance(names, str) else list(names)
    wanted = f"The key of {table.name} is {', '.join(names)}: give "
    wanted += " ".join(f"--key {name}=VALUE" for name in names)
    columns = {str(name).lower() for name in (table.source or {}).get("columns", {})}
    named = {f"{name}=" for name in columns | {names[0].lower()}}
    # The text of a key may hold the sign itself.
    if len(names) == len(given) == 1 and not given[0].lower().startswith(tuple(named)):
        return {names[0]: given[0]}
    spelled = {name.lower(): name for name in names}
    key = {}
    for part in given:
        name, equals, value = part.partition("=")
        if not equals or name.strip().lower() not in spelled:
            raise BadProject(f"{wanted}.")
        key[spelled[name.strip().lower()]] = value
    if set(key) != set(names):
        raise BadProject(f"{wanted}.")
    return {name: key[name] for name in names}


def explain_row(
    project: Project,
    found: TableStatus,
    key: Mapping[str, str],
    profiles: Path | None,
    target: str | None,
) -> Row:
    """Asks Spark, through dbt, for the events and versions of a row.

    Args:
        project: The project.
        found: Where its table stands.
        key: The row's key.
        profiles: Folder of profiles.yml; None: where dbt looks.
        target: Target of the profile; None: its default.

    Raises:
        BadProject: dbt cannot answer, as before the first build.
    """
    if missing := [stored.node["name"] for stored in found.stored if not stored.may_be_there]:
        raise BadProject(
            f"{found.table.name} is not built: no table {', '.join(missing)} holds the row. Run "
            "`dbt build` first; `cdc explain` without --key shows what it will read."
        )
    # The results of the last build are not to be replaced.
    command = ["--no-write-json", "show", "--inline", query(found, key), "--limit", "-1"]
    answer = dbt_result(command, project.root, profiles, target).results[0].agate_table
    parts: dict[str, list[dict[str, Any]]] = {"event": [], "version": [], "current": []}
    for row in sorted(answer.rows, key=lambda row: int(row["place"])):
        parts[row["part"]].append(json.loads(row["content"], parse_float=str))
    current = parts["current"][0] if parts["current"] else None
    return Row(
        dict(key),
        explained(parts["event"], list(key), parts["version"], found.high_water_mark),
        parts["version"],
        current,
    )


def query(found: TableStatus, key: Mapping[str, str]) -> str:
    """Returns the statement that reads events, versions and current row of a key.

    Args:
        found: Where the table stands.
        key: The key.

    Raises:
        BadProject: No model has the events.
    """
    table = found.table
    events = table.resolver or table.staging
    if events is None:
        raise BadProject(
            f"{table.name} has no model on cdc.events, which would hold its events. Add a staging "
            "model, or leave --key out."
        )
    at_key = _condition(table, key)
    if "_row_id" not in key:
        moved = " or ".join(f"{quoted(f'_old_{name}')} is not null" for name in key)
        at_key += f" or (({moved}) and {_condition(table, key, old=True)})"
    if table.resolver:
        entities = f"select _entity_id from {_ref(events)} where {at_key}"
        at_key = f"_entity_id in ({entities})"
    here = "true" if table.resolver else _condition(table, key)
    order = f"_seq, if(_op in ('D', 'T') or not {here}, 1, 0), _event_id, _arrived"
    columns = f"*, {here} as {_IS_HERE}"
    parts = [_part("event", _ref(events), f"{at_key} or _op = 'T'", order, columns)]
    if table.history and found.of(table.history).may_be_there:
        where = f"_entity_id in ({entities})" if table.resolver else _condition(table, key)
        parts.append(_part("version", _ref(table.history), where, "_cdc_created_at, _seq"))
    final = table.final
    is_view = final is not None and final["config"]["materialized"] == "view"
    if final and (is_view or found.of(final).may_be_there):
        parts.append(_part("current", _ref(final), _condition(table, key), "1"))
    return "\nunion all\n".join(parts)


def _part(part: str, relation: str, where: str, order: str, columns: str = "*") -> str:
    return (
        f"select '{part}' as part, cast(row_number() over (order by {order}) as string) as place, "
        f"to_json(struct({columns}), map('ignoreNullFields', 'false')) as content "
        f"from {relation} where {where}"
    )


def _condition(table: CdcTable, key: Mapping[str, str], old: bool = False) -> str:
    columns = (table.source or {}).get("columns") or {}
    conditions = []
    for name, value in key.items():
        kind = (columns.get(name) or {}).get("data_type") or "bigint"
        column = quoted(name)
        if old:
            column = f"coalesce({quoted(f'_old_{name}')}, {column})"
        # Neither quotes nor braces of a value can reach SQL or Jinja this way.
        text = f"decode(unhex('{value.encode().hex()}'), 'utf-8')"
        conditions.append(f"{column} = cast({text} as {kind})")
    return f"({' and '.join(conditions)})"


def _ref(node: Node) -> str:
    return f"{{{{ ref('{node['package_name']}', '{node['name']}') }}}}"


def explained(
    events: Sequence[Mapping[str, Any]],
    key: Sequence[str],
    versions: Sequence[Mapping[str, Any]],
    read_to: int | None,
) -> list[Event]:
    """Tells what each event did to a row.

    Args:
        events: Its events in order, with all columns of the model that has them, and whether they
            left the row at this key.
        key: The columns of its key.
        versions: Its versions in the history, in order.
        read_to: The newest arrival that was read; of a row that is followed through its keys, the
            newest run of the resolver. None where neither is numbered.
    """
    remembered = {
        event["_event_id"]: place
        for place, version in enumerate(versions, start=1)
        for event in [{"_event_id": version.get("_event_id")}, *(version.get("_events") or [])]
    }
    explained: list[Event] = []
    seen: set[Any] = set()
    row: dict[str, Any] | None = None
    for place, event in enumerate(events):
        event_id, operation, arrived = event["_event_id"], event["_op"], event.get("_arrived")
        came = event.get("_resolved", arrived)
        if read_to is not None and isinstance(came, int) and came > read_to:
            effect = "not read yet"
        elif event_id in seen:
            effect = "a duplicate"
        else:
            row, effect = _applied(row, event, key)
            later = [other.get("_arrived") for other in events[place + 1 :] if other["_op"] != "T"]
            known = [other for other in later if isinstance(other, int)]
            if isinstance(arrived, int) and known and min(known) < arrived:
                effect += f"; late-arriving, after events of arrival {min(known)}"
            seen.add(event_id)
        explained.append(
            Event(
                position=_text(event["_seq"]),
                time=event.get("_ts"),
                operation=_OPERATIONS.get(operation, str(operation)),
                arrived=arrived,
                effect=effect,
                version=remembered.get(event_id),
            )
        )
    return explained


def _applied(
    row: dict[str, Any] | None, event: Mapping[str, Any], key: Sequence[str]
) -> tuple[dict[str, Any] | None, str]:
    if event["_op"] in _ENDS:
        return None, "ended the row" if row is not None else "there was no row to end"
    if event.get(_IS_HERE) is False:
        moved = ", ".join(_text(event.get(name)) for name in key)
        return None, f"moved {'the row' if row is not None else 'away'} to the key {moved}"
    values = {n: v for n, v in event.items() if n not in _LABELS and not _is_internal(n, event)}
    unset = set(event.get("_unset") or [])
    after = {n: (row or {}).get(n) if n in unset else v for n, v in values.items()}
    if row is None:
        left = f"; not given: {', '.join(sorted(unset))}" if unset else ""
        former = [_text(event[f"_old_{n}"]) for n in key if event.get(f"_old_{n}") is not None]
        moved = f" by a move from the key {', '.join(former)}" if former else ""
        return after, f"began the row{moved}{left}"
    changed = [n for n in after if after[n] != row.get(n)]
    if not changed:
        return after, "changed nothing"
    return after, "changed " + ", ".join(
        f"{name}: {_text(row.get(name))} -> {_text(after[name])}" for name in changed
    )


def _is_internal(name: str, event: Mapping[str, Any]) -> bool:
    """Columns of the canonical event and of the resolver; the rest are the table's own."""
    return (name.startswith("_old_") and name[5:] in event) or (
        "_entity_id" in event
        and name.startswith("_")
        and name.endswith(("_entity_id", "_entity_ids", "_segment_id"))
    )


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dict):
        return "/".join(_text(part) for part in value.values())
    return json.dumps(value) if isinstance(value, (list, bool)) else str(value)


def as_json(found: TableStatus, steps: Sequence[Step], row: Row | None) -> dict[str, Any]:
    """Returns the explanation as `--json` prints it.

    Args:
        found: Where the table stands.
        steps: What the next build would do.
        row: The row that was asked for.
    """
    return {
        "table": found.table.name,
        "state": found.state,
        "reason": found.reason or None,
        "next": [asdict(step) for step in steps],
        "row": asdict(row) if row else None,
    }


def show(console: Console, found: TableStatus, steps: Sequence[Step], row: Row | None) -> None:
    """Prints the explanation.

    Args:
        console: Where to print.
        found: Where the table stands.
        steps: What the next build would do.
        row: The row that was asked for.
    """
    reason = f": {escape(found.reason)}" if found.reason else ""
    console.print(f"[bold]{escape(found.table.name)}[/] is {found.state}{reason}", soft_wrap=True)
    console.print("\nThe next `dbt build`", soft_wrap=True)
    for step in steps:
        does = "leaves" if step.does == "nothing" else f"{step.does}s"
        console.print(f"  {does:8}{escape(f'{step.relation}: {step.text}')}", soft_wrap=True)
    if row:
        for part in _row_parts(row, found):
            console.print(part, soft_wrap=isinstance(part, str))


def _row_parts(row: Row, found: TableStatus) -> Iterator[Any]:
    key = ", ".join(f"{name} = {value}" for name, value in row.key.items())
    yield f"\nEvents of {escape(key)}, in the source's order"
    if not row.events:
        yield "  There are none. Bad events have no key: see the quarantine model."
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for name in ("position", "time", "event", "arrived", "version", "effect"):
            table.add_column(name, overflow="fold")
        for event in row.events:
            arrived = "-" if event.arrived is None else str(event.arrived)
            version = "-" if event.version is None else str(event.version)
            cells = [event.position, event.time or "-", event.operation, arrived, version]
            table.add_row(*map(escape, [*cells, event.effect]))
        yield table
    if row.versions:
        yield "\nVersions in the history"
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for name in ("version", "from", "to", "values"):
            table.add_column(name, overflow="fold")
        for place, values in enumerate(row.versions, start=1):
            is_open = values.get("_seq_end") is None
            until = "now" if is_open else _text(values.get("dbt_valid_to"))
            own = ", ".join(f"{name}={_text(v)}" for name, v in values.items() if _is_own(name))
            table.add_row(str(place), _text(values.get("dbt_valid_from")), until, escape(own))
        yield table
    yield f"\nThe row in {escape(found.table.name)}"
    if row.current is None:
        yield "  There is none: the last event ended it, or nothing was read of it yet."
    else:
        for name, value in row.current.items():
            if name == "_events":
                continue
            yield f"  {escape(name)}: {escape(_text(value))}"


def _is_own(name: str) -> bool:
    return not name.startswith(("_cdc_", "dbt_")) and name not in (
        "_seq",
        "_seq_end",
        "_events",
        "_event_id",
        "_entity_id",
    )
