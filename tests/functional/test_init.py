"""docs/start.md, word for word: from an empty folder to a table with its history."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
CDC = [sys.executable, "-m", "dbt_spark_cdc.cli"]
MOST_LINES = 10


def blocks(language: str) -> list[str]:
    """The page's blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def shown_tables() -> list[list[list[str]]]:
    """Rows of the page's tables of results, without their headers."""
    found = re.findall(r"^\| id \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.M)
    return [
        [[cell.strip() for cell in line.strip("|\n").split("|")] for line in rows.splitlines()]
        for rows in found
    ]


@pytest.fixture
def empty(
    tmp_path: Path, warehouse: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty folder, whose dbt builds in the warehouse of this process."""
    monkeypatch.setenv("CDC_WAREHOUSE", str(warehouse))
    monkeypatch.delenv("CDC_LANDING", raising=False)
    yield tmp_path
    for schema in ("shop", "shop_raw"):
        spark.sql(f"drop schema if exists {schema} cascade")


def dbt(arguments: list[str], folder: Path) -> Any:
    """Runs dbt in the folder: in this process, which has the one JVM of the warehouse."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        ran = dbtRunner().invoke(arguments)
    finally:
        os.chdir(before)
    assert ran.success, ran.exception or [r.message for r in ran.result]
    return ran.result


def rows(result: Any) -> list[list[str]]:
    """What `dbt show` shows, as the page writes it."""
    table = result.results[0].agate_table
    return [["" if cell is None else str(cell)[:19] for cell in row] for row in table.rows]


def test_the_page_leads_from_an_empty_folder_to_a_table_with_its_history(empty: Path) -> None:
    sample, monday = blocks("csv")
    lines = blocks("bash")[0].strip().splitlines()
    assert len(lines) <= MOST_LINES
    (empty / "customers.csv").write_text(sample)

    folder, shown = empty, []
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    for line in lines:
        program, *arguments = shlex.split(line)
        if program == "cdc":
            subprocess.run([*CDC, *arguments], cwd=folder, env=environment, check=True)
        elif program == "cd":
            folder = folder / arguments[0]
        elif program == "dbt":
            result = dbt(arguments, folder)
            if arguments[0] == "show":
                shown.append(rows(result))
        else:  # the environment is that of the tests
            assert line.startswith(("python3 -m venv", "pip install"))
    assert shown == shown_tables()

    # What the page says is there.
    named = re.search(r"\| file \| what it is \|\n.*?\n\n", PAGE, re.S)
    assert named
    paths = re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\| (.+?) \|", named[0], re.M)))
    assert len(paths) > 8
    for path in paths:
        assert (folder / path).exists() or (folder / "models/final" / path).exists(), path

    # The next change, and one whose city nobody can read the time of.
    (folder / "landing/customers/monday.csv").write_text(monday + "U,1,Ann,Nice,no time at all\n")
    dbt(["build"], folder)
    query = "select city, dbt_valid_to is null from {{ ref('customers_history') }} where id = 3"
    found = rows(dbt(["show", "--inline", query + " order by dbt_valid_from"], folder))
    assert found == [["Lima", "False"], ["Quito", "True"]]
    bad = "select _reason, _origin from {{ ref('customers_quarantine') }}"
    assert [row[1] for row in rows(dbt(["show", "--inline", bad], folder))] == ["monday.csv"]
