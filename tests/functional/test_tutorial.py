"""The tutorial, word for word: its files are written, its commands run, and its tables compared."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from dbt.cli.main import dbtRunner

from tests.conftest import SMALL

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"(?:^.*\S.*\n\n)?(?:^ {4}.*\n|^\n(?= {4}))+", re.MULTILINE)
FILE = re.compile(r"^(Add to )?`([\w./]+)`:$")
TABLE = re.compile(r"\s*((?:\|.*\|\n)+)")
# What the reader does outside of dbt: the test has an environment and an adapter.
SETUP = ("python3 ", "pip ")


class Step(NamedTuple):
    """A file to write or to extend, or a command with the table that it has to print."""

    file: str = ""
    extends: bool = False
    text: str = ""
    command: str = ""
    table: list[list[str]] | None = None


def steps(page: str) -> Iterator[Step]:
    """Reads the page from the top."""
    for match in BLOCK.finditer(page):
        lines = match[0].split("\n")
        block = "\n".join(line[4:] for line in lines if line.startswith("    "))
        file = FILE.match(lines[0])
        if file:
            yield Step(file=file[2], extends=bool(file[1]), text=block + "\n")
            continue
        commands = block.split("\n")
        shown = TABLE.match(page, match.end())
        for command in commands:
            last = command is commands[-1]
            yield Step(command=command, table=rows(shown[1]) if last and shown else None)


def rows(table: str) -> list[list[str]]:
    """The rows of a table of the page, its header first."""
    lines = [line for line in table.strip().split("\n") if not set(line) <= set("|-")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def prepared(step: Step, warehouse: Path) -> str:
    """The text of a file; package, warehouse and settings of Spark are those of the test."""
    if step.file == "packages.yml":
        return f"packages:\n  - local: {ROOT}\n"
    settings = f"warehouse: {warehouse}, server_side_parameters: {json.dumps(SMALL)}"
    return step.text.replace("warehouse: warehouse", settings)


@pytest.mark.soak
@pytest.mark.usefixtures("spark")
def test_the_tutorial_says_what_happens(tmp_path: Path, warehouse: Path) -> None:
    page, compared = PAGE.read_text(encoding="utf-8"), 0
    for step in steps(page):
        if step.file:
            file = tmp_path / step.file
            file.parent.mkdir(parents=True, exist_ok=True)
            before = file.read_text() if step.extends else ""
            file.write_text(before + prepared(step, warehouse))
        elif not step.command.startswith(SETUP):
            printed = run(step.command, tmp_path)
            if step.table is not None:
                assert printed == step.table, step.command
                compared += 1
    assert compared == page.count("\n|---") > 5


def run(command: str, folder: Path) -> list[list[str]]:
    """Runs a dbt command in the folder; returns what it shows."""
    program, *arguments = shlex.split(command)
    assert program == "dbt", command
    places = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
    ran = dbtRunner().invoke([*arguments, *places])
    assert ran.success, (command, ran.exception or [r.message for r in ran.result])
    if arguments[0] != "show":
        return []
    shown = ran.result.results[0].agate_table
    return [list(shown.column_names), *([text(value) for value in row] for row in shown.rows)]


def text(value: object) -> str:
    """A value as the page writes it: dbt shows whole numbers as decimals."""
    return "" if value is None else re.sub(r"(\d)(?:\.0+|\+00:00)$", r"\1", str(value))


def test_the_page_is_read_as_it_is_meant() -> None:
    page = (
        "`a/b.sql`:\n\n    select 1\n\n    from t\n\nAdd to `a/b.sql`:\n\n    where x\n\n"
        "Run:\n\n    dbt deps\n    dbt show\n\n| n |\n|---|\n| 1 |\n"
    )
    assert list(steps(page)) == [
        Step(file="a/b.sql", text="select 1\nfrom t\n"),
        Step(file="a/b.sql", extends=True, text="where x\n"),
        Step(command="dbt deps"),
        Step(command="dbt show", table=[["n"], ["1"]]),
    ]
    files = [step.file for step in steps(PAGE.read_text(encoding="utf-8")) if step.file]
    assert len(files) == 10 and files.count("seeds/customer_events.csv") == 2


@pytest.mark.parametrize("value", [None, 1, "Rome"])
def test_values_are_compared_as_text(value: object) -> None:
    assert text(value) == ("" if value is None else str(value))
