"""A project made by `cdc generate` from a table of three tables, built by dbt on real Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt

from dbt_spark_cdc.cli import main

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]

# One table of each kind: JSON text, columns with the article's rank and a partition, ChangeEvents.
TABLES = """\
table_name,partition_column_expression,partition_column_alias,rank_expression,is_insert_only,\
system,schema,raw_table,format,keys,columns,operation,payload,arrival,group,tags,depends_on,\
loaded_at_field,error_after,key_changes
customers,,,,false,shop,{{ target.schema }},raw_customers,wal2json_v2,id,\
"id int, name string, balance decimal(12,2)",,line,,people,hourly,raw_customers,,,
orders,region,region,PARTITION BY id ORDER BY changed_at DESC,false,shop,{{ target.schema }},\
raw_orders,flagged,,"id bigint, region string, state string",flag,,batch,sales,hourly large,\
raw_orders,loaded_at,2 hours,
names,"upper(left(id, 1))",initial,,false,crm,{{ target.schema }},raw_names,change_event,id,\
"id string, name string",,event,,people,,raw_names,,,true
"""


def wal(action: str, second: int, **row: Any) -> str:
    """A change as wal2json writes it."""
    columns = [{"name": name, "type": "text", "value": value} for name, value in row.items()]
    return json.dumps(
        {
            "action": action,
            "timestamp": f"2026-01-01 00:00:{second:02}+00",
            "lsn": f"0/{second:X}",
            "schema": "shop",
            "table": "customers",
            ("identity" if action == "D" else "columns"): columns,
        }
    )


def csv_of(header: str, *lines: str) -> str:
    """A CSV of one column that holds JSON."""
    quoted = ('"' + line.replace('"', '""') + '"' for line in lines)
    return "\n".join([header, *quoted]) + "\n"


CUSTOMERS = csv_of(
    "line",
    wal("I", 1, id=1, name="Ann", balance="10.00"),
    wal("I", 2, id=2, name="Bob", balance="1.50"),
    wal("U", 3, id=1, name="Ann", balance="12.25"),
    wal("D", 4, id=2),
)
ORDERS = """\
id,region,state,flag,changed_at,batch,loaded_at
7,north,new,I,1,1,2026-01-01 00:00:00
8,south,new,I,2,1,2026-01-01 00:00:00
7,north,paid,U,3,1,2026-01-01 00:00:00
8,south,new,D,4,1,2026-01-01 00:00:00
9,south,new,I,5,1,2026-01-01 00:00:00
"""
NAMES = csv_of(
    "event",
    '{"changeType": "insert", "timestamp": "1", "columnNames": ["id", "name"],'
    ' "columnValues": ["a", "Anna"]}',
    '{"changeType": "update", "timestamp": "2", "columnNames": ["name", "id"],'
    ' "columnValues": ["Angela", "a"]}',
)


def generate(project: Any, *arguments: str) -> str:
    """Runs `cdc generate` in the project."""
    ran = CliRunner().invoke(main, ["generate", "--project-dir", project.project_root, *arguments])
    assert ran.exit_code == 0, ran.output
    return ran.output


class TestGeneratedProject:
    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        return {"packages": [{"local": str(ROOT)}]}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "models": {"+file_format": "delta"},
            "seeds": {"+file_format": "delta", "+quote_columns": False},
            "dispatch": [{"macro_namespace": "dbt", "search_order": ["test", "cdc", "dbt"]}],
            "on-run-start": ["{{ cdc.validate() }}"],
        }

    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return {
            "cdc_tables.csv": TABLES,
            "raw_customers.csv": CUSTOMERS,
            "raw_orders.csv": ORDERS,
            "raw_names.csv": NAMES,
        }

    def test_three_rows_are_three_tables(self, project: Any) -> None:
        assert generate(project).endswith("3 tables: 13 new\n")
        run_dbt(["deps"])
        run_dbt(["parse"])

        def listed(selection: str) -> set[str]:
            select = ["--select", selection, "--exclude-resource-type", "test"]
            names = run_dbt(["list", *select, "--output", "name"])
            return {name for name in names if "raw_" not in name}

        assert listed("tag:people,resource_type:model") == {
            "stg_shop__customers",
            "customers",
            "stg_crm__names",
            "names_keys",
            "names",
        }
        assert listed("tag:large,resource_type:snapshot") == {"orders_history"}
        assert listed("+orders,resource_type:source") == {"shop.orders"}

        run_dbt(["build"])
        schema = project.test_schema

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in project.run_sql(sql.format(s=schema), fetch="all")]

        assert [
            (key, name, str(balance))
            for key, name, balance in rows("select id, name, balance from {s}.customers")
        ] == [(1, "Ann", "12.25")]
        assert rows("select id, region, state from {s}.orders order by id") == [
            (7, "north", "paid"),
            (9, "south", "new"),
        ]
        assert rows("select name from {s}.names_history order by _seq") == [("Anna",), ("Angela",)]
        assert rows("select id, name, initial from {s}.names") == [("a", "Angela", "A")]
        assert ["initial"] in rows("describe detail {s}.names")[0]
        assert ["region"] in rows("describe detail {s}.orders")[0]
        # The control table is a table too, as in the article.
        assert rows("select count(*) from {s}.cdc_tables where not is_insert_only") == [(3,)]

        assert generate(project, "--check").endswith("3 tables: 13 unchanged\n")

        # Loaded long ago: told by name, and by the exit code.
        freshness = run_dbt(["source", "freshness"], expect_pass=False)
        statuses = {result.node.name: str(result.status) for result in freshness}
        assert statuses["orders"] == "error"

        described = CliRunner().invoke(
            main,
            [
                *("describe", f"{schema}.raw_customers", "--row"),
                *("--project-dir", project.project_root, "--profiles-dir", project.profiles_dir),
            ],
        )
        assert described.exit_code == 0, described.output
        assert f"shop,{schema},raw_customers,wal2json_v2,id," in described.output
