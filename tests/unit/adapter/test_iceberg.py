"""What the adapter knows of Iceberg without a Spark: settings, types, the profile."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.iceberg import tables as iceberg
from dbt.adapters.sparkcdc.iceberg.tables import catalog_settings, is_wider, type_in_table
from dbt.adapters.sparkcdc.tables.types import Add, Rename, Widen, evolution, plain_statements
from dbt_common.exceptions import DbtRuntimeError


def test_without_settings_the_catalog_is_a_folder_of_the_warehouse() -> None:
    found = catalog_settings("lake", "/data/ware house", {"spark.sql.ansi.enabled": "false"})
    assert found["spark.sql.catalog.lake"] == iceberg.CATALOG
    assert found["spark.sql.catalog.lake.type"] == "hadoop"
    assert found["spark.sql.catalog.lake.warehouse"] == "file:/data/ware house/lake"
    assert found["spark.sql.catalog.lake.cache-enabled"] == "false"
    assert found["spark.sql.catalog.cdc_images"] == iceberg.IMAGES_CATALOG
    assert found["spark.sql.ansi.enabled"] == "false"
    assert found["spark.jars.packages"].startswith("org.apache.iceberg:iceberg-spark-runtime-")


@pytest.mark.parametrize("kind", ["type", "catalog-impl", "warehouse"])
def test_a_catalog_of_the_profile_is_left_as_it_is(kind: str) -> None:
    own = {f"spark.sql.catalog.lake.{kind}": "x", "spark.sql.catalog.lake.uri": "http://y"}
    found = catalog_settings("lake", "/w", own)
    assert {name: found[name] for name in own} == own
    ours = {"spark.sql.catalog.lake.warehouse", "spark.sql.catalog.lake.type"} - own.keys()
    assert not ours & found.keys()


@pytest.mark.parametrize(
    ("given", "packages"),
    [
        ({"spark.jars.packages": "a:b:1"}, f"a:b:1,{iceberg.VERSION}"),
        ({"spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1"}, ":1"),
        ({"spark.jars": "/opt/iceberg-spark-runtime.jar"}, None),
    ],
)
def test_the_jar_is_added_unless_it_is_there(given: dict[str, str], packages: str | None) -> None:
    found = catalog_settings("lake", "/w", given).get("spark.jars.packages")
    if packages is None:
        assert found is None
        return
    first, _, last = packages.rpartition(",")
    assert found is not None and found.startswith(first) and found.endswith(last)
    assert found.count("iceberg-spark-runtime") == 1


def test_settings_are_the_same_when_they_are_made_twice() -> None:
    once = catalog_settings("lake", "/w", {})
    assert catalog_settings("lake", "/w", once) == once


def test_types() -> None:
    assert type_in_table("tinyint") == "int"
    assert (
        type_in_table("struct<a:SMALLINT,b:array<varchar(3)>>") == "struct<a:int,b:array<string>>"
    )
    assert type_in_table("bigint") == "bigint"
    assert is_wider("int", "BIGINT") and is_wider("float", "double")
    assert is_wider("decimal(5,2)", "decimal(7, 2)")
    for known, wanted in [
        ("int", "double"),
        ("bigint", "int"),
        ("decimal(5,2)", "decimal(7,3)"),
        ("int", "decimal(22,0)"),
        ("date", "timestamp_ntz"),
    ]:
        assert not is_wider(known, wanted), (known, wanted)


def test_columns_change_without_preparation() -> None:
    changes = [Rename("`a`", "b"), Add("`c`", "int"), Widen("`d`", "bigint")]
    assert list(plain_statements("lake.s.t", changes)) == [
        "alter table lake.s.t rename column `a` to `b`",
        "alter table lake.s.t add columns (`c` int)",
        "alter table lake.s.t alter column `d` type bigint",
    ]
    found = evolution({"n": "int"}, {"n": "double"}, widens=is_wider)
    assert found.problems and not found.changes


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"iceberg_catalog": "my lake"}, "consists of letters"),
        ({"iceberg_catalog": "spark_catalog"}, "the catalog of Delta's tables"),
        ({"iceberg_catalog": "lake", "remote": "sc://x:1"}, "Leave one of them out"),
    ],
)
def test_a_profile_that_cannot_be(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(DbtRuntimeError, match=says):
        SparkCdcCredentials(schema="s", **wrong)


def test_the_profile_brings_the_catalog(tmp_path: Any) -> None:
    credentials = SparkCdcCredentials(schema="s", iceberg_catalog="lake")
    credentials.anchor(tmp_path)
    warehouse = credentials.server_side_parameters["spark.sql.catalog.lake.warehouse"]
    assert warehouse == f"file:{tmp_path}/warehouse/lake"
