"""The control table: how rows are read, and that all that is wrong is said at once."""

import csv
import io
import re
from pathlib import Path

import pytest
import yaml

from dbt_spark_cdc import words
from dbt_spark_cdc.generate.config_table import HEADER, BadConfig, read_config

ROOT = Path(__file__).resolve().parents[3]
SOUND = {
    "table_name": "orders",
    "system": "shop",
    "format": "wal2json_v2",
    "keys": "id",
    "columns": "id bigint, state string",
}
FLAGGED = SOUND | {"format": "flagged", "operation": "flag", "rank_expression": "ts"}


def write_csv(path: Path, *rows: dict[str, str]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue())
    return path


def read(tmp_path: Path, *rows: dict[str, str]):
    return read_config(write_csv(tmp_path / "cdc_tables.csv", *rows))


def problems(tmp_path: Path, *rows: dict[str, str]) -> list[str]:
    with pytest.raises(BadConfig) as caught:
        read(tmp_path, *rows)
    return caught.value.problems


def test_the_articles_columns_become_the_declarations_words(tmp_path):
    (config,) = read(
        tmp_path,
        {
            "TABLE_NAME": "t",
            "PARTITION_COLUMN_EXPRESSION": "year(to_date(create_date, 'MM/dd/yyyy'))",
            "PARTITION_COLUMN_ALIAS": "create_date_year",
            "RANK_EXPRESSION": "PARTITION BY id, part ORDER BY cdc_timestamp DESC, least(a, b) desc"
            " nulls last",
            "IS_INSERT_ONLY": "TRUE",
            "system": "oracle",
            "format": "flagged",
            "columns": "id int, part int, value string, create_date string",
            "operation": "flag",
        },
    )
    assert config.declaration == {
        "format": "flagged",
        "keys": ["id", "part"],
        "sequence_by": ["cdc_timestamp", "least(a, b)"],
        "insert_only": True,
        "operation": "flag",
        "partition_by": {"create_date_year": "year(to_date(create_date, 'MM/dd/yyyy'))"},
    }
    assert config.partition == "create_date_year"


def test_a_partition_that_is_a_column_needs_no_computing(tmp_path):
    (config,) = read(tmp_path, SOUND | {"partition_column_expression": "State"})
    assert config.partition == "state"
    assert "partition_by" not in config.declaration


def test_cells_are_read_in_the_ways_people_write_them(tmp_path):
    (config,) = read(
        tmp_path,
        FLAGGED
        | {
            "keys": "id; state",
            "columns": "id bigint, state string, more struct<a:int,b:decimal(4,1)>,d decimal(9, 2)",
            "group": "sales",
            "tags": "large, hourly sales",
            "history": "no",
            "ignore_null_updates": "d more",
            "loaded_at_field": "arrived_at",
            "warn_after": "30 minutes",
            "error_after": "1 day",
            "options": "{key_changes: resolve}",
        },
    )
    assert [column.data_type for column in config.columns] == [
        "bigint",
        "string",
        "struct<a:int,b:decimal(4,1)>",
        "decimal(9, 2)",
    ]
    assert config.unique_key == ["id", "state"]
    assert config.tags == ("sales", "large", "hourly")
    assert not config.history
    assert config.declaration["history"] is False
    assert config.declaration["ignore_null_updates"] == ["d", "more"]
    assert config.declaration["key_changes"] == "resolve"
    assert config.freshness == {
        "loaded_at_field": "arrived_at",
        "freshness": {
            "warn_after": {"count": 30, "period": "minute"},
            "error_after": {"count": 1, "period": "day"},
        },
    }


def test_no_key_is_said_by_none(tmp_path):
    (config,) = read(tmp_path, SOUND | {"keys": "none"})
    assert config.declaration["keys"] == []
    assert config.unique_key == ["_row_id"]


def test_columns_may_stand_in_a_file_of_their_own(tmp_path):
    tables = write_csv(
        tmp_path / "cdc_tables.csv",
        {k: v for k, v in SOUND.items() if k != "columns"},
        SOUND | {"table_name": "carts"},
    )
    columns = write_csv(
        tmp_path / "cdc_columns.csv",
        {"table_name": "orders", "column_name": "id", "data_type": "bigint", "description": "Nr."},
    )
    orders, _ = read_config(tables, columns)
    assert [(c.name, c.data_type, c.description) for c in orders.columns] == [
        ("id", "bigint", "Nr.")
    ]

    write_csv(columns, {"table_name": "lost", "column_name": "id", "data_type": "int"})
    with pytest.raises(BadConfig) as caught:
        read_config(tables, columns)
    assert "table `lost` has no row" in caught.value.problems[1]
    assert "line 2 (orders): no columns" in caught.value.problems[0]


def test_everything_wrong_with_all_rows_is_said_at_once(tmp_path):
    found = problems(
        tmp_path,
        SOUND | {"system": "", "format": "", "keys": ""},
        SOUND | {"table_name": "carts", "format": "debezum", "where": "a = "},
        SOUND,
        SOUND,
        SOUND | {"table_name": "9lives; drop"},
    )
    said = "\n".join(found)
    for text in (
        "line 2 (orders): no `system`",
        "line 2 (orders): no `format`. Name one of change_event, flagged",
        "line 2 (orders): no `keys`",
        "line 3 (carts): unknown format `debezum`",
        "line 3 (carts): `where` is `a =`: it is not valid Spark SQL",
        "line 5 (orders): its final table would be `orders`, which is the final table of line 2",
        "line 6 (9lives; drop): `table_name` is `9lives; drop`, which is not a valid name",
    ):
        assert text in said


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"partition_column_expression": "sum(id)", "partition_column_alias": "p"}, "aggregate"),
        ({"partition_column_expression": "rand()", "partition_column_alias": "p"}, "another value"),
        (
            {"partition_column_expression": "current_timestamp", "partition_column_alias": "p"},
            "another value",
        ),
        (
            {"partition_column_expression": "row_number() over (order by id)"}
            | {"partition_column_alias": "p"},
            "window",
        ),
        (
            {"partition_column_expression": "(select 1)", "partition_column_alias": "p"},
            "subquery",
        ),
        ({"partition_column_expression": "year(id)"}, "without `partition_column_alias`"),
        ({"partition_column_alias": "p"}, "without `partition_column_expression`"),
        (
            {"partition_column_expression": "year(id)", "partition_column_alias": "state"},
            "is another column",
        ),
        (
            {"partition_column_expression": "year(gone)", "partition_column_alias": "p"},
            "reads gone",
        ),
        ({"rank_expression": "partition by id order by ts"}, "the oldest event would come first"),
        ({"rank_expression": "partition by state order by ts desc"}, "Both have to name the key"),
        ({"rank_expression": "partition by id + 1 order by ts desc"}, "ranks by an expression"),
        ({"rank_expression": "ts +"}, "not valid Spark SQL"),
        ({"rank_expression": ""}, "no `rank_expression`"),
        ({"operation": ""}, "neither `operation` nor `apply_as_deletes`"),
        ({"format": "maxwell"}, "`operation` belongs to the format flagged; maxwell"),
        ({"keys": "id, nr"}, "key column `nr` is not among the columns (id, state)"),
        ({"except_columns": "nr"}, "except_columns column `nr`"),
        ({"columns": ""}, "no columns"),
        ({"columns": "id bigit, state string"}, "has the type `bigit`"),
        ({"columns": "id bigint, state"}, "column `state` has no type"),
        ({"columns": "id bigint, ID int"}, "column `ID` is listed twice"),
        ({"columns": "id bigint, _seq int"}, "that the package uses itself"),
        ({"columns": "id bigint, m map<string,int>"}, "cannot compare"),
        ({"is_insert_only": "maybe"}, "`is_insert_only` is `maybe`. Write true or false"),
        ({"on_bad_event": "drop"}, "Write quarantine or fail"),
        ({"system": "my shop"}, "`system` is `my shop`, which is not a valid name"),
        ({"depends_on": "x-y"}, "is not a valid name of a dbt model"),
        ({"tags": "a'b"}, "is not a valid tag"),
        ({"warn_after": "soon", "loaded_at_field": "at"}, "Write for instance 30 minutes"),
        ({"warn_after": "2 hours"}, "without `loaded_at_field`"),
        ({"options": "[1]"}, "not a YAML mapping like"),
        ({"options": "{keys: [a]}"}, "`options` names `keys`"),
        ({"colour": "red"}, "unknown column `colour`"),
    ],
)
def test_each_fault_is_told_with_the_way_out(tmp_path, cells, said):
    found = problems(tmp_path, FLAGGED | cells)
    assert len(found) == 1, found
    assert said in found[0]


def test_names_that_meet_in_dbt_are_told(tmp_path):
    found = problems(tmp_path, SOUND, SOUND | {"table_name": "orders_history"})
    assert found == [
        f"{tmp_path}/cdc_tables.csv, line 3 (orders_history): its final table would be "
        "`orders_history`, which is the history of line 2. Remove or rename one of the two."
    ]
    found = problems(tmp_path, SOUND, SOUND | {"system": "crm"})
    assert len(found) == 1
    assert "its final table would be `orders`" in found[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "does not exist"),
        ("", "is empty. Its first line names the columns"),
        ("table_name,system\n", "has no rows"),
        ("system,table_name,system\na,b,c\n", "column `system` is there twice"),
        ("system\nshop\n", "no column `table_name`"),
        ("table_name,keys\nt,a,b\n", "3 cells, but the header has 2 columns"),
        ('table_name,keys\nt,"a\n', "not valid CSV"),
        (b"table_name\n\xff\n", "cannot be read"),
    ],
)
def test_a_file_that_is_no_table_is_told(tmp_path, text, said):
    path = tmp_path / "cdc_tables.csv"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(BadConfig) as caught:
        read_config(path)
    assert said in "\n".join(caught.value.problems)


def test_a_file_from_a_spreadsheet_is_read(tmp_path):
    path = tmp_path / "cdc_tables.csv"
    text = "Table_Name,System,Format,Keys,Columns\r\norders,shop,canal,id,id int\r\n,,,,\r\n"
    path.write_text("\ufeff" + text, newline="")
    assert [config.table for config in read_config(path)] == ["orders"]


def test_the_reference_projects_table_says_what_its_source_declares():
    configs = read_config(ROOT / "seeds" / "cdc_tables.csv")
    declared = yaml.safe_load((ROOT / "models/sources/shop.yml").read_text())["sources"][0]
    assert {
        config.table: (
            config.raw_table,
            config.declaration["keys"],
            [(column.name, column.data_type) for column in config.columns],
        )
        for config in configs
    } == {
        table["name"]: (
            table["identifier"],
            table["config"]["meta"]["cdc"]["keys"],
            [(column["name"], column["data_type"]) for column in table["columns"]],
        )
        for table in declared["tables"]
    }


def test_every_column_is_documented():
    page = (ROOT / "docs" / "generate.md").read_text()
    assert [name for name in HEADER if f"`{name}`" not in page] == []


def test_reserved_names_are_those_of_the_macros():
    macro = (ROOT / "macros/declare/_declaration_problems.sql").read_text(encoding="utf-8")
    listed = re.search(r"lowered in \[(.*?)\]", macro, re.DOTALL)
    assert listed
    names = re.findall(r'"(\w+)"', listed[1])
    assert len(names) > 40
    assert all(words.is_reserved(name) for name in names)
    assert set(names) == words._RESERVED


def test_names_that_macros_give_beside_declared_columns_are_reserved():
    """A declared column of such a name would stand twice in an intermediate table."""
    alone = {"_at", "_sole_event", "_number", "_bucket", "_rows", "_sum", "_xor", "_message"}
    alone |= {"_position"}
    given = {
        name
        for file in (ROOT / "macros").rglob("*.sql")
        for name in re.findall(r"\bas (_[a-z]\w*)", file.read_text(encoding="utf-8"))
    }
    assert len(given) > 60
    assert {name for name in given - alone if not words.is_reserved(name)} == set()
