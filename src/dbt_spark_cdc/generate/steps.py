"""`cdc generate`: the files that the CONFIG table asks for, and what is to be done about each.

A written file carries a checksum of itself in its first line. Where it no longer fits, somebody has
edited the file, and from then on it is theirs.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml

from dbt_spark_cdc.generate.config_table import TableConfig
from dbt_spark_cdc.generate.project_files import Layout, ProjectFile, files_of
from dbt_spark_cdc.whole_file import write_whole

_COMMENT = {".sql": "--", ".py": "#", ".yml": "#", ".yaml": "#"}
_STAMP = re.compile(r"^(?:--|#) cdc generate ([0-9a-f]{12})\b")
_NOTE = "made from cdc_tables.csv; if edited, it stays as it is"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Status(Enum):
    """What becomes of a file."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "unchanged"
    EDITED = "edited by hand, kept"
    BY_HAND = "written by hand, kept"
    REMOVED = "no longer in the table"
    REMOVED_EDITED = "no longer in the table, but edited by hand: kept"


class Step(NamedTuple):
    """A file and what becomes of it.

    Attributes:
        path: Below the project's folder.
        status: What becomes of it.
        text: What it shall hold; empty for a removed one.
        table: The table it belongs to; empty for a removed one.
    """

    path: PurePosixPath
    status: Status
    text: str
    table: str


def plan(project: Path, configs: Iterable[TableConfig], layout: Layout) -> list[Step]:
    """Compares the project with what the CONFIG table asks for; writes nothing.

    Args:
        project: Folder of the dbt project.
        configs: Rows of the CONFIG table.
        layout: Folders to write to.
    """
    wanted = [file for config in configs for file in files_of(config, layout)]
    paths = {file.path for file in wanted}
    defined = dict(_defined(project, layout))
    steps = []
    for file in wanted:
        elsewhere = defined.get(file.defines.lower())
        if elsewhere is not None and elsewhere != file.path and not (project / file.path).exists():
            steps.append(Step(elsewhere, Status.BY_HAND, stamped(file), file.table))
        else:
            steps.append(_step(project, file))
    for path in _written(project, layout):
        if path not in paths:
            pristine = is_pristine((project / path).read_text(encoding="utf-8"))
            status = Status.REMOVED if pristine else Status.REMOVED_EDITED
            steps.append(Step(path, status, "", ""))
    return steps


def carry_out(project: Path, steps: Iterable[Step], prune: bool) -> None:
    """Writes what is new or changed, each file whole or not at all.

    Args:
        project: Folder of the dbt project.
        steps: What `plan` found.
        prune: Whether files of removed tables are deleted.
    """
    for step in steps:
        target = project / step.path
        if step.status in (Status.NEW, Status.CHANGED):
            write_whole(target, step.text)
        elif step.status is Status.REMOVED and prune:
            target.unlink()


def would_change(steps: Iterable[Step], prune: bool) -> list[Step]:
    """Returns the steps that change a file.

    Args:
        steps: What `plan` found.
        prune: Whether files of removed tables are deleted.
    """
    changing = {Status.NEW, Status.CHANGED} | ({Status.REMOVED} if prune else set())
    return [step for step in steps if step.status in changing]


def differences(project: Path, step: Step) -> str:
    """Returns how a file that was edited differs from what would have been written.

    Args:
        project: Folder of the dbt project.
        step: Its step.
    """
    there = _body((project / step.path).read_text(encoding="utf-8")).splitlines(keepends=True)
    wanted = _body(step.text).splitlines(keepends=True)
    return "".join(difflib.unified_diff(wanted, there, "from the table", step.path.as_posix()))


def stamped(file: ProjectFile) -> str:
    """Returns the text of a file with its checksum in the first line.

    Args:
        file: A file of the project.
    """
    sign = _COMMENT[file.path.suffix]
    return f"{sign} cdc generate {_checksum(file.body)}: {_NOTE}\n{file.body}"


def is_pristine(text: str) -> bool:
    """Whether a file is as it was written.

    Args:
        text: Its text.
    """
    stamp = _STAMP.match(text)
    return stamp is not None and stamp[1] == _checksum(_body(text))


def _step(project: Path, file: ProjectFile) -> Step:
    target, text = project / file.path, stamped(file)
    if not target.exists():
        return Step(file.path, Status.NEW, text, file.table)
    there = target.read_text(encoding="utf-8")
    if not _STAMP.match(there):
        status = Status.BY_HAND
    elif _lines(there) == _lines(text):
        status = Status.SAME
    elif is_pristine(there) or _lines(_body(there)) == _lines(file.body):
        status = Status.CHANGED
    else:
        status = Status.EDITED
    return Step(file.path, status, text, file.table)


def _checksum(body: str) -> str:
    return hashlib.sha256("\n".join(_lines(body)).encode()).hexdigest()[:12]


def _lines(text: str) -> list[str]:
    """Lines without what editors and checkouts change by themselves: ends of lines and of file."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _body(text: str) -> str:
    return text.partition("\n")[2] if _STAMP.match(text) else text


def _written(project: Path, layout: Layout) -> Iterator[PurePosixPath]:
    """Files that an earlier run wrote, edited or not."""
    for path in _files(project, layout):
        with (project / path).open(encoding="utf-8", errors="replace") as file:
            if _STAMP.match(file.readline()):
                yield path


def _files(project: Path, layout: Layout) -> Iterator[PurePosixPath]:
    for folder in dict.fromkeys(layout):
        for suffix in ("*.sql", "*.py", "*.yml", "*.yaml"):
            for path in sorted((project / folder).rglob(suffix)):
                yield PurePosixPath(path.relative_to(project).as_posix())


def _defined(project: Path, layout: Layout) -> Iterator[tuple[str, PurePosixPath]]:
    """What the project's files define: sources, models and snapshots, with the file of each."""
    for path in _files(project, layout):
        if path.suffix in (".sql", ".py"):
            yield f"model.{path.stem}".lower(), path
            continue
        for name in _named_in(project / path):
            yield name.lower(), path


def _named_in(path: Path) -> Iterator[str]:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except (yaml.YAMLError, UnicodeDecodeError):
        return  # dbt will say so
    if not isinstance(content, dict):
        return
    for source in _dicts(content.get("sources")):
        for table in _dicts(source.get("tables")):
            yield f"source.{source.get('name')}.{table.get('name')}"
    for snapshot in _dicts(content.get("snapshots")):
        if "relation" in snapshot:  # without it the entry only describes one
            yield f"snapshot.{snapshot.get('name')}"


def _dicts(value: Any) -> Sequence[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
