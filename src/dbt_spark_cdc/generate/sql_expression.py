"""What is wrong with an SQL expression of a declaration, found without Spark."""

from __future__ import annotations

import logging
from collections.abc import Collection

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

# Not the same for the same row: by their names, since not all have a node of their own.
_CHANGING = {
    "current_database",
    "current_date",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "input_file_block_length",
    "input_file_block_start",
    "input_file_name",
    "localtimestamp",
    "monotonically_increasing_id",
    "now",
    "rand",
    "randn",
    "random",
    "randstr",
    "reflect",
    "session_user",
    "shuffle",
    "spark_partition_id",
    "try_reflect",
    "uniform",
    "user",
    "uuid",
}
_AGGREGATES = {
    "any",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "collect_set",
    "count_if",
    "every",
    "first_value",
    "kurtosis",
    "last_value",
    "listagg",
    "max_by",
    "mean",
    "min_by",
    "mode",
    "regr_count",
    "some",
    "string_agg",
    "try_avg",
    "try_sum",
}
_GENERATORS = {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "stack"}

# Its warnings are about what it cannot translate, and nothing is translated here.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


def fault(sql: str, *, subquery: bool = False) -> str | None:
    """Returns why a text is not one SQL expression over the columns of one row; None if it is.

    Args:
        sql: The expression as it stands in the declaration.
        subquery: Whether it may ask other tables, as a condition of WHERE may.
    """
    if "{{" in sql or "{%" in sql or "{#" in sql:
        return "it holds Jinja, and has to be plain SQL"
    try:
        # In a SELECT, so that what ends the expression early does not pass as one.
        select = parse_one(f"select {sql}\n", read="spark")
    except (SqlglotError, RecursionError) as exc:
        return f"it is not valid Spark SQL ({_first_line(exc)})"
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return "it is more than one expression"
    if any(value for part, value in select.args.items() if part != "expressions"):
        return "it is more than an expression"
    expression = select.expressions[0]
    if isinstance(expression, exp.Alias):
        return f"it is not valid Spark SQL (`{expression.alias}` is one word too many)"
    if any(node.comments for node in select.walk()):
        return "it holds a comment, which would hide what comes after it"
    return _not_of_the_row(expression, subquery)


def columns_of(sql: str) -> set[str]:
    """Returns the columns that a sound expression reads, in lower case.

    Args:
        sql: An expression that has no fault.
    """
    expression = parse_one(f"select {sql}\n", read="spark")
    # Of a field in a struct, `address.city`, the first name is the column.
    return {column.parts[0].name.lower() for column in expression.find_all(exp.Column)}


def partition_fault(sql: str, columns: Collection[str]) -> str | None:
    """Returns why an expression cannot give a row its partition; None if it can.

    Args:
        sql: The expression.
        columns: Columns of the table.
    """
    found = fault(sql)
    if found:
        return found
    used = columns_of(sql)
    if not used:
        return "it reads no column, so that all rows share one partition"
    unknown = used - {column.lower() for column in columns}
    if unknown:
        return f"it reads {', '.join(sorted(unknown))}, which the table does not have"
    return None


def _not_of_the_row(expression: exp.Expression, subquery: bool) -> str | None:
    for node in expression.walk():
        name = _function_name(node)
        if isinstance(node, exp.Window):
            return "it is a window function: it looks at other rows"
        if isinstance(node, exp.AggFunc) or name in _AGGREGATES:
            return f"it is an aggregate ({name}): it looks at other rows"
        if isinstance(node, exp.Star):
            return "it names all columns (*) and not one value"
        if isinstance(node, (exp.Explode, exp.UDTF)) or name in _GENERATORS:
            return f"it makes several rows of one ({name})"
        if isinstance(node, exp.Query) and not subquery:
            return "it holds a subquery: it looks at other rows"
        if name in _CHANGING:
            return f"{name} gives another value each time it is asked"
    return None


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _first_line(exc: Exception) -> str:
    errors = getattr(exc, "errors", None)
    if errors:
        at = errors[0].get("highlight") or errors[0].get("start_context", "").strip()
        said = str(errors[0].get("description") or "syntax error").rstrip(".")
        said = "something is missing" if "<class" in said else said
        return f"{said} at `{at}`" if at else said
    return (str(exc).splitlines() or [type(exc).__name__])[0]
