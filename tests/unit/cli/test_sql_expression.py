"""Expressions of a declaration: what can be computed from one row, and what cannot."""

import pytest

from dbt_spark_cdc.generate.sql_expression import columns_of, fault, partition_fault


@pytest.mark.parametrize(
    "sql",
    [
        "year(to_date(create_date, 'MM/dd/yyyy'))",
        "cast(changed_at as timestamp)",
        "a::decimal(10, 2)",
        "named_struct('file', file, 'pos', pos)",
        "transform(split(file, '[.]'), part -> cast(part as int))",
        "case when flag = 'D -- really' then 1 end",
        "flag in ('D', 'X') and deleted is not null",
        "pmod(hash(id), 16)",
        "`with space`",
        "address.city",
        "_metadata.file_path",
    ],
)
def test_what_is_computed_from_one_row_will_do(sql):
    assert fault(sql) is None


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("year(", "not valid Spark SQL"),
        ("a = ", "not valid Spark SQL"),
        ("'open", "not valid Spark SQL"),
        ("created at", "`at` is one word too many"),
        ("a, b", "more than one expression"),
        ("1; drop table x", "more than one expression"),
        ("1 from x", "more than an expression"),
        ("distinct a", "more than an expression"),
        ("a limit 1", "more than an expression"),
        ("a -- and so on", "comment"),
        ("{{ var('x') }}", "Jinja"),
        ("sum(a)", "aggregate (sum)"),
        ("bool_and(a)", "aggregate"),
        ("count(*)", "aggregate"),
        ("max(ts) over (partition by id)", "window"),
        ("(select max(a) from b)", "subquery"),
        ("a in (select b from c)", "subquery"),
        ("explode(items)", "several rows"),
        ("rand()", "another value each time"),
        ("date_diff(current_date, a)", "another value each time"),
        ("now()", "another value each time"),
        ("unix_timestamp()", "another value each time"),
        ("a > uuid()", "another value each time"),
        ("monotonically_increasing_id()", "another value each time"),
        ("input_file_name()", "another value each time"),
        ("*", "all columns"),
    ],
)
def test_what_is_not_is_told_why(sql, said):
    assert said in fault(sql)


def test_a_condition_may_ask_another_table_where_that_is_allowed():
    assert fault("id in (select id from other)", subquery=True) is None


def test_columns_are_those_of_the_table_and_not_fields_or_arguments():
    assert columns_of("transform(Items, x -> x + address.city)") == {"items", "address"}


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("year(created)", None),
        ("year(CREATED)", None),
        ("1", "reads no column"),
        ("year(made)", "reads made, which the table does not have"),
        ("rand() * id", "another value"),
    ],
)
def test_a_partition_is_a_function_of_the_columns(sql, said):
    found = partition_fault(sql, ["id", "created"])
    assert found is None if said is None else said in found
