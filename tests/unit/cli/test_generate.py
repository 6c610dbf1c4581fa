"""`cdc generate`: what is written, what is kept, what CI is told."""

import csv
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.generate.yaml_text import inline

HEADER = "table_name,system,schema,format,keys,columns,group,rank_expression,operation"
ORDERS = ["orders", "shop", "raw", "flagged", "id nr", "id int, nr int", "sales", "a, b", "op"]
CARTS = ["carts", "shop", "{{ target.schema }}", "maxwell", "none", "id int", "", "", ""]


class Project:
    """A dbt project in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("dbt_project.yml", "name: test\n")

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

    def tables(self, *rows: list[str]) -> None:
        (self.folder / "seeds").mkdir(exist_ok=True)
        with (self.folder / "seeds/cdc_tables.csv").open("w", newline="") as file:
            csv.writer(file).writerows([HEADER.split(","), *rows])

    def run(self, *arguments: str, code: int = 0) -> str:
        ran = CliRunner().invoke(main, ["generate", "--project-dir", str(self.folder), *arguments])
        assert ran.exit_code == code, ran.output
        return ran.output

    def files(self) -> dict[str, str]:
        return {
            file.relative_to(self.folder).as_posix(): file.read_text()
            for file in sorted(self.folder.rglob("*"))
            if file.is_file() and "seeds" not in file.parts and file.name != "dbt_project.yml"
        }


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    project.tables(ORDERS, CARTS)
    return project


def lines(text: str) -> list[str]:
    """A file without its checksum."""
    assert re.match(r"(--|#) cdc generate [0-9a-f]{12}: ", text)
    return text.splitlines()[1:]


def test_a_row_becomes_four_files_that_dbt_reads(project):
    assert project.run().endswith("2 tables: 8 new\n")
    files = project.files()
    assert list(files) == [
        "models/final/carts.sql",
        "models/final/orders.sql",
        "models/sources/shop__carts.yml",
        "models/sources/shop__orders.yml",
        "models/staging/stg_shop__carts.sql",
        "models/staging/stg_shop__orders.sql",
        "snapshots/carts_history.yml",
        "snapshots/orders_history.yml",
    ]
    assert lines(files["models/staging/stg_shop__orders.sql"]) == [
        "{{ config(tags=['sales']) }}",
        "{{ cdc.events(source('shop', 'orders')) }}",
    ]
    assert lines(files["models/final/carts.sql"]) == [
        "{{ config(materialized='incremental', incremental_strategy='merge', "
        "unique_key=['_row_id'], file_format='delta') }}",
        "{{ cdc.current(ref('carts_history')) }}",
    ]
    assert yaml.safe_load(files["snapshots/orders_history.yml"])["snapshots"] == [
        {
            "name": "orders_history",
            "description": "Every version of orders.",
            "relation": "ref('stg_shop__orders')",
            "config": {
                "strategy": "cdc.scd2",
                "unique_key": ["id", "nr"],
                "file_format": "delta",
                "tags": ["sales"],
            },
            "data_tests": [{"cdc.quarantined_share": {"arguments": {"max_share": 0.1}}}],
        }
    ]
    assert yaml.safe_load(files["models/sources/shop__orders.yml"])["sources"] == [
        {
            "name": "shop",
            "schema": "raw",
            "tables": [
                {
                    "name": "orders",
                    "config": {
                        "tags": ["sales"],
                        "meta": {
                            "cdc": {
                                "format": "flagged",
                                "keys": ["id", "nr"],
                                "sequence_by": ["a", "b"],
                                "operation": "op",
                            }
                        },
                    },
                    "columns": [
                        {"name": "id", "data_type": "int"},
                        {"name": "nr", "data_type": "int"},
                    ],
                }
            ],
        }
    ]
    carts = yaml.safe_load(files["models/sources/shop__carts.yml"])["sources"][0]
    assert carts["schema"] == "{{ target.schema }}"


def test_the_second_run_writes_nothing(project):
    project.run()
    times = {file: file.stat().st_mtime_ns for file in project.folder.rglob("*.*")}
    assert project.run() == "2 tables: 8 unchanged\n"
    assert times == {file: file.stat().st_mtime_ns for file in project.folder.rglob("*.*")}
    assert "orders.sql: unchanged" in project.run("--verbose")


def test_a_changed_row_rewrites_what_it_concerns(project):
    project.run()
    project.tables([*ORDERS[:6], "finance", *ORDERS[7:]], CARTS)
    assert project.run().endswith("2 tables: 4 changed, 4 unchanged\n")
    assert "tags=['finance']" in project.read("models/final/orders.sql")


def test_what_was_edited_by_hand_is_kept_and_told(project):
    project.run()
    path = "models/final/orders.sql"
    edited = project.read(path) + "where true\n"
    project.write(path, edited)
    project.tables([*ORDERS[:6], "finance", *ORDERS[7:]], CARTS)
    said = project.run("--diff")
    assert f"{path}: edited by hand, kept" in said
    assert "+where true" in said
    assert "-{{ config(" in said
    assert project.read(path) == edited
    # Deleted, it is recreated.
    (project.folder / path).unlink()
    assert f"{path}: written" in project.run()


def test_other_ends_of_lines_are_no_edit(project):
    project.run()
    path = project.folder / "models/final/orders.sql"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert project.run() == "2 tables: 8 unchanged\n"


def test_a_file_that_somebody_else_wrote_is_never_touched(project):
    project.write("models/final/orders.sql", "select 1 as mine\n")
    assert project.run().endswith("7 new, 1 by hand\n")
    assert project.read("models/final/orders.sql") == "select 1 as mine\n"


def test_what_the_project_has_elsewhere_is_not_written_again(project):
    project.write(
        "models/all.yml", "sources: [{name: shop, tables: [{name: orders}, {name: carts}]}]"
    )
    project.write("models/old/orders.sql", "select 1")
    project.write("snapshots/all.yml", "snapshots: [{name: carts_history, relation: x}]")
    said = project.run("--verbose")
    assert said.endswith("2 tables: 4 new, 4 by hand\n")
    assert "models/all.yml: written by hand, kept" in said
    assert "models/old/orders.sql: written by hand, kept" in said
    assert "models/final/orders.sql" not in project.files()
    assert project.run("--check").endswith("4 unchanged, 4 by hand\n")


def test_removed_tables_are_told_and_deleted_only_when_asked(project):
    project.run()
    project.write("models/final/carts.sql", project.read("models/final/carts.sql") + "-- mine\n")
    project.tables(ORDERS)
    before = project.files()
    said = project.run()
    assert "snapshots/carts_history.yml: no longer in the table: --prune deletes it" in said
    assert project.files() == before
    assert "would be deleted" in project.run("--check", "--prune", code=1)
    said = project.run("--prune")
    assert "snapshots/carts_history.yml: deleted" in said
    assert "models/final/carts.sql: no longer in the table, but edited by hand: kept" in said
    assert [path for path in project.files() if "carts" in path] == ["models/final/carts.sql"]


def test_check_tells_ci_and_writes_nothing(project):
    said = project.run("--check", code=1)
    assert "models/final/orders.sql: would be written" in said
    assert project.files() == {}
    project.run()
    assert project.run("--check") == "2 tables: 8 unchanged\n"


def test_bad_rows_stop_all_before_anything_is_written(project):
    project.tables(ORDERS, ["carts", "", "", "", "", "", "", "", ""])
    said = project.run(code=2)
    assert "4 problems in the control table. Nothing was written." in said
    assert project.files() == {}
    project.tables(ORDERS, ORDERS)
    assert "1 problem in the control table." in project.run(code=2)


def test_the_projects_own_folders_are_used(project):
    project.write("dbt_project.yml", "model-paths: [dbt/models]\nsnapshot-paths: [dbt/history]\n")
    project.run()
    assert {path.rpartition("/")[0] for path in project.files()} == {
        "dbt/models/sources",
        "dbt/models/staging",
        "dbt/models/final",
        "dbt/history",
    }


def test_without_a_project_the_way_is_told(tmp_path):
    ran = CliRunner().invoke(main, ["generate", "--project-dir", str(tmp_path)])
    assert ran.exit_code == 2
    assert "There is no dbt_project.yml" in ran.output


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "null",
        "Yes",
        "1",
        "1.5",
        "a: b",
        "a, b",
        "# no",
        "- x",
        " blank ",
        'quo"te',
        "it's",
        "{{ x }}",
        "",
        "ä\u2028",
        "back\\slash",
        "2020-01-01",
        ["a", {"b": True, "c, d": None}],
    ],
)
def test_yaml_gives_back_what_was_written(value):
    assert yaml.safe_load(f"x: {inline(value)}") == {"x": value}
    assert yaml.safe_load(f"[{inline(value)}]") == [value]
