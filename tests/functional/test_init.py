"""docs/start.md, word for word: from an empty folder to a table with its history."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.cli.main import dbtRunner

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.project import FAILED

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
    for schema in ("shop", "shop_raw", "lake"):
        spark.sql(f"drop schema if exists {schema} cascade")


def dbt(arguments: list[str], folder: Path, failing: str = "") -> Any:
    """Runs dbt in the folder: in this process, which has the one JVM of the warehouse.

    The one node that fails, if one shall, is named; dbt skips what comes after it.
    """
    before = Path.cwd()
    os.chdir(folder)
    try:
        ran = dbtRunner().invoke(arguments)
    finally:
        os.chdir(before)
    assert ran.exception is None
    if arguments[0] != "deps":
        bad = [r.node.name for r in ran.result if str(r.status) in FAILED]
        assert len(bad) == bool(failing) and all(failing in name for name in bad), bad
    return ran.result


def cdc(arguments: list[str], folder: Path) -> None:
    """Runs the command in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    subprocess.run([*CDC, *arguments], cwd=folder, env=environment, check=True)


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
    for line in lines:
        program, *arguments = shlex.split(line)
        if program == "cdc":
            cdc(arguments, folder)
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

    # The next change, and one without a time: one of seven is more than the test lets pass.
    (folder / "landing/customers/monday.csv").write_text(monday + "U,1,Ann,Nice,no time at all\n")
    dbt(["build"], folder, failing="quarantined_share")
    query = "select city, dbt_valid_to is null from {{ ref('customers_history') }} where id = 3"
    found = rows(dbt(["show", "--inline", query + " order by dbt_valid_from"], folder))
    assert found == [["Lima", "False"], ["Quito", "True"]]
    bad = "select _reason, _origin from {{ ref('customers_quarantine') }}"
    assert [row[1] for row in rows(dbt(["show", "--inline", bad], folder))] == ["monday.csv"]


def test_a_schema_without_events_builds_and_lands_them_later(empty: Path) -> None:
    (empty / "schema.sql").write_text(
        "create table shop.orders (id int primary key, state text);\n"
        "create table shop.lines (id int primary key, amount numeric(12,2));\n"
    )
    cdc(["init", "shop", "--ddl", "schema.sql", "--format", "maxwell"], empty)
    folder = empty / "shop"
    changes = [
        {"type": "insert", "ts": 1767600000, "data": {"id": 1, "state": "new"}},
        {"type": "update", "ts": 1767600060, "data": {"id": 1, "state": "paid"}},
    ]
    (folder / "landing/orders/1.jsonl").write_text(
        "".join(json.dumps({"database": "shop", "table": "orders"} | c) + "\n" for c in changes)
    )
    dbt(["deps"], folder)
    dbt(["build"], folder)
    query = "select state from {{ ref('orders_history') }} order by dbt_valid_from"
    assert rows(dbt(["show", "--inline", query], folder)) == [["new"], ["paid"]]
    assert rows(dbt(["show", "--inline", "select * from {{ ref('lines') }}"], folder)) == []


def test_a_table_of_events_in_the_warehouse_becomes_a_project(
    empty: Path, warehouse: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, for another one could not open its warehouse. The profile names it alone."""
    monkeypatch.delenv("CDC_WAREHOUSE")
    monkeypatch.chdir(empty)
    spark.sql("create schema lake")
    for table in ("people", "nothing"):
        columns = "op string, id int, `full name` string, name string, seq bigint"
        spark.sql(
            f"create table lake.{table} ({columns}) using delta"
            " tblproperties ('delta.columnMapping.mode' = 'name')"
        )
    spark.sql("insert into lake.people values ('I', 1, 'x', 'Ann', 9), ('U', 1, 'x', 'Bea', 10)")

    def init(table: str, code: int = 0) -> str:
        arguments = ["init", "shop", "--table", f"lake.{table}", "--warehouse", str(warehouse)]
        ran = CliRunner().invoke(main, arguments)
        assert ran.exit_code == code, ran.output
        return ran.output

    # Wrong answers first: they leave nothing behind.
    assert "--table: lake.gone cannot be read" in init("gone", code=2)
    assert "--table: lake.nothing is empty. Name a table that holds" in init("nothing", code=2)
    assert not (empty / "shop").exists()

    assert "full name is left out" in init("people")
    folder = empty / "shop"
    dbt(["deps"], folder)
    dbt(["build"], folder)
    spark.sql("insert into lake.people values ('D', 1, 'x', null, 11), ('I', 2, 'y', 'Cleo', 12)")
    dbt(["build"], folder)
    query = "select id, name from {{ ref('people_history') }} order by _seq"
    assert rows(dbt(["show", "--inline", query], folder)) == [
        ["1", "Ann"],
        ["1", "Bea"],
        ["2", "Cleo"],
    ]
    query = "select id, name from {{ ref('people') }}"
    assert rows(dbt(["show", "--inline", query], folder)) == [["2", "Cleo"]]
