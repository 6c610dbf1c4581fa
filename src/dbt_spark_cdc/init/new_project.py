"""`cdc init`: from what describes the tables to a dbt project that builds."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dbt_spark_cdc import words
from dbt_spark_cdc.init.answers import (
    Answers,
    BadAnswers,
    Problem,
    of_table,
    package_of,
    wrong_answers,
)
from dbt_spark_cdc.init.files import LANDING, NewFile, NewTable, Shape, project_files
from dbt_spark_cdc.init.tables import is_wanted, look_at
from dbt_spark_cdc.samples.describe import TODO
from dbt_spark_cdc.samples.records import Unreadable

NO_KEY = "none"


@dataclass
class NewProject:
    """A project that is not written yet.

    Attributes:
        folder: Where to write it.
        name: Its name.
        tables: Its tables.
        files: Its files.
        copies: Change files, each with its path below the folder.
    """

    folder: Path
    name: str
    tables: list[NewTable]
    files: list[NewFile]
    copies: list[tuple[Path, Path]] = field(default_factory=list)

    @property
    def paths(self) -> list[Path]:
        """All that would be written, below the folder."""
        return [Path(file.path) for file in self.files] + [path for _, path in self.copies]

    def conflicts(self) -> list[Path]:
        """Returns the paths that are taken already."""
        return [path for path in self.paths if os.path.lexists(self.folder / path)]

    def write(self) -> None:
        """Writes all files. None that is there is opened for writing.

        Raises:
            OSError: A file cannot be written; what was written before is whole.
        """
        for file in self.files:
            target = self.folder / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8", newline="\n") as opened:
                opened.write(file.text)
        for source, path in self.copies:
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with source.open("rb") as read, target.open("xb") as opened:
                shutil.copyfileobj(read, opened)


def plan(answers: Answers) -> NewProject:
    """Looks at what the answers name and returns the project; writes nothing.

    Args:
        answers: Options and answers.

    Raises:
        BadAnswers: Something is wrong or missing; all of it is reported at once.
    """
    problems = list(wrong_answers(answers))
    package = package_of(answers, problems)
    tables: list[NewTable] = []
    copies: list[tuple[Path, Path]] = []
    # Spark and a database are asked only if the other answers will do.
    if len(answers.looks_at) == 1 and (answers.events or answers.ddl or not problems):
        option = answers.looks_at[0]
        try:
            found = list(look_at(answers, option, copies))
        except Unreadable as exc:
            problems.append(Problem(option, _without(option, str(exc))))
        except BadAnswers as exc:
            problems += exc.problems
        else:
            tables = _settled(answers, found, problems)
    if problems or package is None:
        raise BadAnswers(problems)
    shape = Shape(
        answers.project_name,
        answers.schema or answers.project_name,
        answers.warehouse or "warehouse",
        package,
        _own_version(),
    )
    taken = {table.folder for table in tables}
    copies = [(source, path) for source, path in copies if path.parts[1] in taken]
    return NewProject(
        answers.folder, shape.name, tables, list(project_files(shape, tables)), copies
    )


def _own_version() -> str:
    try:
        return version("dbt-spark-cdc")
    except PackageNotFoundError:
        return ""


def _without(option: str, text: str) -> str:
    return text.removeprefix(f"{option}: ")


def _settled(
    answers: Answers, found: Sequence[tuple[str, NewTable]], problems: list[Problem]
) -> list[NewTable]:
    """The tables that were asked for, as the options complete them."""
    known = [table.config.table for _, table in found]
    for only in answers.only:
        if not any(is_wanted([only], name) for name, _ in found):
            names = [name for name, _ in found]
            problems.append(Problem("--only", f"there is no table {only}. {_there_are(names)}"))
    wanted = [table for name, table in found if is_wanted(answers.only, name)]
    keys = _by_table("--key", answers.keys, known, problems)
    orders = _by_table("--sequence-by", answers.sequence_by, known, problems)
    tables = [_complete(table, keys, orders, problems) for table in wanted]
    problems += _duplicate_names(tables)
    return tables


def _there_are(names: Sequence[str]) -> str:
    return f"The tables are {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}."


def _by_table(
    option: str, texts: Sequence[str], known: Sequence[str], problems: list[Problem]
) -> dict[str, str]:
    values = {}
    for text in texts:
        table, value = of_table(text)
        if table and table not in known:
            problems.append(Problem(option, f"there is no table {table}. {_there_are(known)}"))
        values[table] = value
    return values


def _complete(
    table: NewTable, keys: Mapping[str, str], orders: Mapping[str, str], problems: list[Problem]
) -> NewTable:
    """The table with the key and the order that the options name, without unfit columns."""
    config, notes = table.config, list(table.notes)
    columns = tuple(column for column in config.columns if words.can_be_column(column.name))
    notes += [
        f"{column.name} is left out: {words.NO_COLUMN}"
        for column in config.columns
        if not words.can_be_column(column.name)
    ]
    names = tuple(column.name for column in columns)
    declaration = dict(config.declaration)
    order = orders.get(config.table, orders.get("", ""))
    if fault := _order_fault(table, order, names):
        problems.append(fault)
    elif order:
        declaration["sequence_by"] = _typed_order(table, order)
        if declaration["sequence_by"] != config.declaration.get("sequence_by"):
            # The guess, which the tables do not have, is not what orders the events.
            notes = [note.replace(" orders the events and is left", " is left") for note in notes]
        notes = [note for note in notes if not note.startswith("order:")] + ["order: as asked for"]
    named = keys.get(config.table, keys.get("", ""))
    if named:
        known = {name.lower(): name for name in _all_columns(table)}
        known |= {name.lower(): new for new, name in declaration.get("renames", {}).items()}
        known |= {name.lower(): name for name in names}
        declaration["keys"] = [] if named.lower() == NO_KEY else _key_columns(named, known)
        notes = [note for note in notes if not note.startswith("keys:")] + ["keys: as asked for"]
    is_keyless = bool(named) and not declaration["keys"]
    if not is_keyless and (fault := _key_fault(table, declaration, names)):
        problems.append(fault)
    config = replace(config, columns=columns, declaration=declaration)
    return replace(table, config=config, notes=tuple(notes))


def _order_fault(table: NewTable, order: str, names: tuple[str, ...]) -> Problem | None:
    """What is wrong with the order that was named; without one, with the one that was guessed."""
    name = table.config.table
    if order and (raw := _unknown_order(table, order)):
        return Problem(
            "--sequence-by",
            f"{order} is not a column of the raw table of {name}. Name one of its "
            f"columns or an expression of them: --sequence-by {name}=EXPRESSION. "
            f"The columns are {', '.join(raw)}.",
            name,
            raw,
        )
    if not order and table.config.declaration.get("sequence_by") == TODO:
        return Problem(
            "--sequence-by",
            f"nothing shows what orders the events of {name}. Name a position or time "
            f"of the source: --sequence-by {name}=EXPRESSION. "
            f"The columns are {', '.join(names)}.",
            name,
            names,
        )
    return None


def _key_fault(
    table: NewTable, declaration: Mapping[str, Any], names: tuple[str, ...]
) -> Problem | None:
    """What is wrong with a key that the tables need: it is missing, or they cannot have it."""
    name, keys = table.config.table, declaration["keys"]
    wrong = [key for key in keys if key not in names]
    if keys and not wrong:
        return None
    renamed = declaration.get("renames", {}).values()
    unfit = [key for key in wrong if not words.can_be_column(key)] or [
        column
        for column in ([] if wrong else _all_columns(table))
        if words.NOT_IN_COLUMN.search(column) and column not in renamed
    ]
    unknown = [key for key in wrong if key not in unfit]
    said = f"no key of {name} can be found." if not wrong else ""
    if unknown:
        are = "are not columns" if len(unknown) > 1 else "is not a column"
        said = f"{', '.join(unknown)} {are} of {name}."
    if unfit:
        many = len(unfit) > 1
        one, several = "cannot be a column of the tables", "cannot be columns of the tables"
        said = (
            f"{said} {', '.join(unfit)} {several if many else one}: {words.NO_COLUMN}"
            f"{'s' * many}. Rename {'them' if many else 'it'} in the events, or name another "
            "key."
        ).strip()
    text = (
        f"{said} Name its columns: --key {name}=COLUMN[,COLUMN], or "
        f"{name}={NO_KEY} for rows that are only inserted. "
        f"The columns are {', '.join(names)}."
    )
    return Problem("--key", text, name, names)


def _unknown_order(table: NewTable, order: str) -> tuple[str, ...]:
    """The columns of the raw table, if the order names another one; else nothing."""
    name = _column_of(order)
    known = (*(column.lower() for column in table.raw_columns), "_metadata", "")
    return tuple(table.raw_columns) if name not in known else ()


def _typed_order(table: NewTable, order: str) -> str:
    """The order that was named, which compares texts as what they mean: 10 comes after 9."""
    guessed = table.config.declaration.get("sequence_by")
    if isinstance(guessed, str) and guessed.lower().startswith(f"try_cast({order} as ".lower()):
        return guessed
    name = _column_of(order)
    of = next((of for column, of in table.raw_columns.items() if column.lower() == name), "")
    return f"try_cast({order} as {of})" if of else order


def _column_of(expression: str) -> str:
    """The column that an expression consists of, in lower case; empty if it is more than that."""
    quoted = re.fullmatch(r"`((?:[^`]|``)+)`", expression)
    name = quoted[1].replace("``", "`") if quoted else expression
    return name.lower() if quoted or words.is_identifier(name) else ""


def _all_columns(table: NewTable) -> list[str]:
    """Columns of the events, with those that the tables cannot have."""
    declared = [column.name for column in table.config.columns]
    raw = list(table.raw_columns) if table.files else []
    return list(dict.fromkeys([*declared, *table.config.declaration["keys"], *raw]))


def _key_columns(text: str, known: Mapping[str, str]) -> list[str]:
    """The columns that `--key` names: commas part them, and blanks those that have none."""
    if text.lower() in known:
        return [known[text.lower()]]
    columns = []
    for part in re.split("[,;]", text):
        name = part.strip().strip("`").lower()
        given = [name] if name in known else words.split_list(part)
        columns += [known.get(one.lower(), one) for one in given]
    return columns


def _duplicate_names(tables: Sequence[NewTable]) -> Iterator[Problem]:
    """Names that two tables would give to different models: dbt has one name space for all."""
    seen = {LANDING: -1} if any(table.is_landed for table in tables) else {}
    for number, table in enumerate(tables):
        for name in table.models:
            other = seen.setdefault(name.lower(), number)
            if other != number:
                taken = "the model that lands the files" if other < 0 else tables[other].title
                yield Problem(
                    "--only",
                    f"{table.title} would have the model {name}, which {taken} has too. Name the "
                    "tables to take, as SCHEMA.TABLE, one --only for each.",
                )
                break
