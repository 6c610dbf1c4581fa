"""The command `cdc init`: options, questions on a terminal, and what it prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, NoReturn

import click

from dbt_spark_cdc import words
from dbt_spark_cdc.init import new_project as making
from dbt_spark_cdc.init.answers import (
    Answers,
    BadAnswers,
    Problem,
    installed_package,
    of_table,
)
from dbt_spark_cdc.init.new_project import NewProject
from dbt_spark_cdc.samples.records import RECORDS

_PATH = click.Path(path_type=Path)
_CHOICES = ("events", "ddl", "postgres", "table")
_BUILD = ("dbt deps", "dbt build")
# Of `cdc describe` as well.
limit_option = click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=RECORDS,
    show_default=True,
    help="Maximum number of records read.",
)


@click.command()
@click.argument("folder", type=_PATH, default=".")
@click.option("--events", type=_PATH, help="File or folder of change events: JSON, CSV, Parquet.")
@click.option("--ddl", type=_PATH, help="Schema dump of PostgreSQL or MySQL.")
@click.option(
    "--postgres", is_flag=True, help="Tables of the PostgreSQL database in PGHOST, PGDATABASE, ..."
)
@click.option("--table", default="", help="Table of change events in a warehouse: SCHEMA.TABLE.")
@click.option(
    "--raw-table", default="", help="Table that something else fills with events: SCHEMA.TABLE."
)
@click.option(
    "--payload", default="", help="Column of --raw-table with the event as text. [default: value]"
)
@click.option(
    "--format", "format_name", default="", help="Change format; required with --ddl and --postgres."
)
@click.option("--only", multiple=True, help="Include this table only. Repeatable.")
@click.option(
    "--key", "keys", multiple=True, help="Key: [TABLE=]COLUMN[,COLUMN], or none. Repeatable."
)
@click.option(
    "--sequence-by", multiple=True, help="Order of the events: [TABLE=]EXPRESSION. Repeatable."
)
@click.option("--operation", default="", help="Column with the operation, for the format flagged.")
@click.option("--name", default="", help="Name of the project. [default: name of the folder]")
@click.option("--system", default="", help="Name of the dbt source. [default: from the events]")
@click.option(
    "--schema", default="", help="Schema that dbt builds in. [default: name of the project]"
)
@click.option("--warehouse", default="", help="Folder of the tables. [default: warehouse]")
@click.option("--package", default="", help="The dbt package: a folder, git ADDRESS@TAG or URL.")
@limit_option
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be written.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and ask no questions.")
def init(format_name: str, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Write a dbt project from events, a schema or a database.

    Name one input: change events (--events), a schema dump (--ddl), a PostgreSQL database
    (--postgres) or a table of events (--table). On a terminal the command asks for what is missing.
    It never overwrites a file. Exit codes: 0 written, 1 files are in the way, 2 a wrong or missing
    answer; after 1 and 2 nothing was written.
    """
    answers = Answers(format=format_name, **options)
    asks = not as_json and is_terminal()
    try:
        project = _asked(answers) if asks else making.plan(answers)
    except BadAnswers as exc:
        _refuse(exc.problems, as_json)
    if conflicts := project.conflicts():
        _refuse(
            [Problem("FOLDER", f"{project.folder / path} already exists") for path in conflicts],
            as_json,
            code=1,
            closing="Move them away, or name another folder.",
        )
    if not dry_run:
        try:
            project.write()
        except OSError as exc:
            text = f"{exc}. Fix this, remove what was written, and run it again."
            _refuse([Problem("FOLDER", text)], as_json, closing="")
    if as_json:
        click.echo(json.dumps(_as_json(project, dry_run), indent=2))
    else:
        for line in _report(project, dry_run):
            click.echo(line)


def is_terminal() -> bool:
    """Whether somebody can answer questions."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _asked(answers: Answers) -> NewProject:
    """Plans with answers to what is missing. What is wrong is not asked again but refused."""
    answers = _first_questions(answers)
    while True:
        try:
            return making.plan(answers)
        except BadAnswers as exc:
            asked = [problem for problem in exc.problems if problem.table]
            if len(asked) < len(exc.problems) or any(_is_given(answers, p) for p in asked):
                raise
            for problem in asked:
                click.echo(problem.text)
                value = click.prompt(f"{problem.option.strip('-')} of {problem.table}")
                given = f"{problem.table}={value}"
                if problem.option == "--key":
                    answers = replace(answers, keys=(*answers.keys, given))
                else:
                    answers = replace(answers, sequence_by=(*answers.sequence_by, given))


def _is_given(answers: Answers, problem: Problem) -> bool:
    """Whether the option was given for the table, or for all tables."""
    texts = answers.keys if problem.option == "--key" else answers.sequence_by
    return any(of_table(text)[0] in ("", problem.table) for text in texts)


def _first_questions(answers: Answers) -> Answers:
    """What to look at, and what the answer to that leaves open."""
    if not answers.looks_at:
        choice = click.prompt("What describes your tables?", type=click.Choice(_CHOICES))
        if choice == "postgres":
            answers = replace(answers, postgres=True)
        elif choice == "table":
            answers = replace(answers, table=click.prompt("Table of events (SCHEMA.TABLE)"))
        else:
            what = "File or folder of change events" if choice == "events" else "Schema dump"
            answers = replace(answers, **{choice: click.prompt(what, type=_PATH)})
        answers = replace(answers, name=click.prompt("Name", default=answers.project_name))
    if (answers.ddl or answers.postgres) and not answers.format:
        kind = click.Choice(words.FORMATS)
        answers = replace(answers, format=click.prompt("Format of the changes", type=kind))
    if not answers.package and not installed_package():
        given = click.prompt("dbt package: its folder, or its git ADDRESS@TAG")
        answers = replace(answers, package=given)
    return answers


def _refuse(
    problems: Sequence[Problem],
    as_json: bool,
    code: int = 2,
    closing: str = "Nothing was written.",
) -> NoReturn:
    if as_json:
        listed = [{"option": problem.option, "problem": problem.text} for problem in problems]
        click.echo(json.dumps({"problems": listed}, indent=2))
    else:
        for problem in problems:
            click.echo(f"cdc: {problem.option}: {problem.text}", err=True)
        if closing:
            click.echo(f"cdc: {closing}", err=True)
    sys.exit(code)


def _next(project: NewProject) -> list[str]:
    enter = [] if project.folder.resolve() == Path.cwd() else [f"cd {quote(str(project.folder))}"]
    return [*enter, *_BUILD]


def _as_json(project: NewProject, dry_run: bool) -> dict[str, Any]:
    return {
        "project": project.name,
        "folder": str(project.folder.resolve()),
        "dry_run": dry_run,
        "tables": [
            {
                "table": table.config.table,
                "source": table.config.system,
                "declaration": dict(table.config.declaration),
                "columns": {column.name: column.data_type for column in table.config.columns},
                "notes": list(table.notes),
            }
            for table in project.tables
        ],
        "files": [path.as_posix() for path in project.paths],
        "next": _next(project),
    }


def _report(project: NewProject, dry_run: bool) -> list[str]:
    word = "would be written" if dry_run else "written"
    lines = [f"{path.as_posix()}: {word}" for path in project.paths]
    for table in project.tables:
        lines += ["", f"{table.title}", *(f"  {note}" for note in table.notes)]
    count = len(project.tables)
    tables = f"{count} table{'s' * (count != 1)}, {len(project.paths)} files {word}"
    return [*lines, "", f"{project.name}: {tables}. Next:", *(f"  {c}" for c in _next(project))]
