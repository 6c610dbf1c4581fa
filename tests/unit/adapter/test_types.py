"""Types as Spark writes them, and what brings a table to the declared ones."""

from __future__ import annotations

import pytest
from dbt.adapters.sparkcdc.tables import types
from dbt.adapters.sparkcdc.tables.types import (
    Add,
    Rename,
    Widen,
    evolution,
    is_wider,
    parse,
    statements,
)
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)


def test_a_type_without_parts() -> None:
    assert parse(" decimal(12,2) ") == types.SparkType("decimal(12,2)")
    assert parse("map<string,int>") == types.SparkType("map<string,int>")


def test_parts_are_found_at_any_depth() -> None:
    found = parse("STRUCT<a: int, b:array<struct<c:decimal(4,2),`d, e`:map<string,int>>>>")
    assert found.fields is not None
    assert list(found.fields) == ["a", "b"]
    assert found.fields["a"].text == "int"
    item = found.fields["b"].item
    assert item is not None and item.fields is not None
    assert {name: kind.text for name, kind in item.fields.items()} == {
        "c": "decimal(4,2)",
        "d, e": "map<string,int>",
    }
    assert parse("struct<>").fields == {}


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ("tinyint", "smallint"),
        ("INT", "BIGINT"),
        ("int", "decimal(10,0)"),
        ("bigint", "decimal(22, 2)"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("int", "double"),
        ("float", "double"),
        ("date", "timestamp_ntz"),
    ],
)
def test_types_that_delta_widens(known: str, wanted: str) -> None:
    assert is_wider(known, wanted)
    assert not is_wider(wanted, known)


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ("int", "int"),
        ("int", "string"),
        ("int", "float"),
        ("bigint", "double"),
        ("bigint", "decimal(20,1)"),
        ("decimal(10,2)", "decimal(11,4)"),
        ("decimal(10,2)", "double"),
        ("string", "decimal(10,2)"),
        ("date", "timestamp"),
        ("timestamp", "timestamp_ntz"),
    ],
)
def test_types_that_delta_does_not_widen(known: str, wanted: str) -> None:
    assert not is_wider(known, wanted)


def test_a_table_that_is_as_declared_stays() -> None:
    known = {"id": "int", "dropped": "string", "size": "struct<x:int,gone:string>"}
    found = evolution(known, {"id": "INT", "size": "struct<x:int>"})
    assert (found.changes, found.problems) == ([], [])


def test_columns_and_fields_are_added_and_widened() -> None:
    known = {"id": "int", "size": "struct<x:int,z:array<struct<u:int>>>"}
    wanted = {
        "id": "bigint",
        "size": "struct<y:string,X:bigint,z:array<struct<u:int,`v w`:date>>>",
        "new": "string",
    }
    found = evolution(known, wanted)
    assert found.problems == []
    assert found.changes == [
        Add("`size`.`y`", "string"),
        Add("`size`.`z`.element.`v w`", "date"),
        Add("`new`", "string"),
        Widen("`id`", "bigint"),
        Widen("`size`.`X`", "bigint"),
    ]


def test_a_renamed_column_is_widened_under_its_new_name() -> None:
    found = evolution({"Old": "int"}, {"new": "bigint"}, renames={"new": ["older", "old"]})
    assert found.changes == [Rename("`Old`", "new"), Widen("`new`", "bigint")]
    # The rest of a run that ended in between.
    found = evolution({"new": "int"}, {"new": "bigint"}, renames={"new": ["older", "old"]})
    assert found.changes == [Widen("`new`", "bigint")]


def test_images_follow_their_columns() -> None:
    known = {"id": "int", "a": "int", "_events": "array<struct<_op:string,_image:struct<a:int>>>"}
    wanted = {"id": "int", "aa": "bigint", "b": "string"}
    found = evolution(known, wanted, images=["aa", "b"], renames={"aa": ["a"]})
    image = "_events.element._image"
    assert found.changes == [
        Rename("`a`", "aa"),
        Rename(f"{image}.`a`", "aa"),
        Add("`b`", "string"),
        Add(f"{image}.`b`", "string"),
        Widen("`aa`", "bigint"),
        Widen(f"{image}.`aa`", "bigint"),
    ]


def test_the_first_images_of_a_table() -> None:
    known = {"id": "int", "a": "int", "_events": "array<struct<_op:string>>"}
    found = evolution(known, {"id": "int", "a": "int", "b": "int"}, images=["b"])
    assert found.changes == [
        Add("`b`", "int"),
        Add("_events.element._image", "struct<`b`: int>"),
    ]


def test_what_cannot_be_done_is_a_problem_of_each_column() -> None:
    known = {
        "id": "int",
        "size": "struct<x:bigint,y:int>",
        "same": "string",
        "_events": "array<struct<_image:struct<id:int>>>",
    }
    wanted = {"id": "string", "size": "struct<x:int,y:bigint>", "Same": "string"}
    found = evolution(known, wanted, images=["id"])
    assert [problem.split(". ")[0] for problem in found.problems] == [
        "column `id` is int and is now declared as string, which the table's format cannot widen it"
        " to",
        "column `size` is struct<x:bigint,y:int> and is now declared as struct<x:int,y:bigint>,"
        " which the table's format cannot widen it to",
        "column `same` is now declared as `Same`",
    ]


def test_an_array_does_not_become_a_struct() -> None:
    assert evolution({"a": "array<int>"}, {"a": "struct<x:int>"}).problems
    assert evolution({"a": "array<int>"}, {"a": "array<bigint>"}).changes == [
        Widen("`a`.element", "bigint")
    ]


def test_statements() -> None:
    changes = [Rename("`a`", "it`s"), Add("`b`", "int"), Add("`c`", "date"), Widen("`n`", "bigint")]
    rename = "alter table s.t rename column `a` to `it``s`"
    rest = [
        "alter table s.t add columns (`b` int, `c` date)",
        "alter table s.t set tblproperties ('delta.enableTypeWidening' = 'true')",
        "alter table s.t alter column `n` type bigint",
    ]
    assert list(statements("s.t", changes, is_mapped=True)) == [rename, *rest]
    assert list(statements("s.t", changes, is_mapped=False)) == [
        "alter table s.t set tblproperties ('delta.columnMapping.mode' = 'name')",
        rename,
        *rest,
    ]
    assert list(statements("s.t", changes[1:3], is_mapped=False)) == rest[:1]


@pytest.mark.parametrize(
    "change",
    [
        Add("`t`", "timestamp_ntz"),
        Widen("`t`", "timestamp_ntz"),
        Add("`s`", "array<timestamp_ntz>"),
    ],
)
def test_a_time_without_zone_is_a_feature_of_the_table(change: Add | Widen) -> None:
    found = list(statements("s.t", [change], is_mapped=False))
    feature = "alter table s.t set tblproperties ('delta.feature.timestampNtz' = 'supported')"
    assert found[0] == feature
    assert len(found) > 1


def test_names_of_fields_are_quoted_where_sql_wants_it() -> None:
    inner = StructType([StructField("a:b", IntegerType()), StructField("tick`", StringType())])
    outer = StructType([StructField("_image", inner), StructField("Größe", DecimalType(5, 1))])
    text = types.text_of(ArrayType(outer))
    assert text == "array<struct<_image:struct<`a:b`:int,`tick```:string>,`Größe`:decimal(5,1)>>"
    item = parse(text).item
    assert item is not None and item.fields is not None
    assert list(item.fields) == ["_image", "Größe"]
    assert list(item.fields["_image"].fields or {}) == ["a:b", "tick`"]
    assert types.text_of(MapType(StringType(), inner)).startswith("map<string,struct<`a:b`:int,")
    assert types.text_of(LongType()) == "bigint"


def test_a_field_that_events_keep_is_there_whatever_its_name() -> None:
    known = {"id": "int", "a:b": "int", "_events": "array<struct<_image:struct<`a:b`:int>>>"}
    assert evolution(known, {"id": "int", "a:b": "int"}, ["a:b"], {}).changes == []
