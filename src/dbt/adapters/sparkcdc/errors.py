"""Spark's exceptions as messages for people: what is wrong, without plans or Java stacks."""

from __future__ import annotations

import re
from typing import Any

from dbt.adapters.sparkcdc.delta.log import first_change
from dbt.adapters.sparkcdc.tables.places import local_folder

LINES_BEFORE_CARET = 4
CAUSES_FOLLOWED = 20
# Error conditions of Delta where another commit came first.
CONFLICTS = (
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "DELTA_MAX_COMMIT_RETRIES_EXCEEDED",
)

# Analysis errors end with the query plan, which starts on a line of its own after a semicolon.
_PLAN = re.compile(r";\n(?='?\w+.*(?:\n|$)).*\Z", re.DOTALL)
_STACK = re.compile(r"\n+(?:JVM stacktrace:\n.*|\s+at [\w.$/]+\(.*)", re.DOTALL)
_JAVA_CLASS = re.compile(r"^(?:[\w$]+\.)+\w+(?:Exception|Error): (?=\[)")
# pyspark stumbles over errors that Spark itself does not know, for instance Delta's, and raises
# this instead of them.
_STUMBLED = "Cannot find main error class"

# The copy of a snapshot that a table of the package `cdc` starts from.
_NO_COPY = re.compile(r"\A\[TABLE_OR_VIEW_NOT_FOUND\].*?`(cdc_bootstrap__\w+)`", re.DOTALL)
_CHANGES = re.compile(r"\btable_changes\('([^']+)', (\d+)")


def changes_that_are_gone(spark: Any, sql: str) -> str | None:
    """Returns what a failed statement has to say that reads changes which are not there any more.

    Delta only names the file or the commit that it misses.

    Args:
        spark: The session.
        sql: The statement.

    Returns:
        None where nothing is missing, or nobody can tell.
    """
    for table, version in _CHANGES.findall(sql):
        try:
            location = spark.sql(f"describe detail {table}").collect()[0]["location"]
        except Exception:  # the statement's own error says more
            continue
        folder = local_folder(location)
        first = None if folder is None else first_change(folder, int(version))
        if first is not None and first > int(version):
            return (
                f"The changes of {table} before version {first} are gone: VACUUM removed their"
                f" files, or Delta's retention their commits. The first version that is left is"
                f" {first}, and version {version} was asked for. Read from there,"
                f" `from_version={first}`; an incremental model is built again with --full-refresh"
                " then, and its changes do not add up to the whole table any more."
            )
    return None


def is_conflict(exc: BaseException) -> bool:
    """Returns whether a statement failed since somebody else committed to its table first.

    Args:
        exc: What the statement raised.
    """
    return any(condition in str(exc) for condition in CONFLICTS)


def message_of(exc: BaseException) -> str:
    """Returns what an exception has to say to the person who wrote the model.

    Args:
        exc: Any exception; those of Spark and py4j lose plans and stacks.
    """
    text = _text(exc)
    while _STUMBLED in text and exc.__context__ is not None:
        exc = exc.__context__
        text = _text(exc)
    text = _JAVA_CLASS.sub("", _PLAN.sub("", _STACK.sub("", text))).strip()
    if missing := _NO_COPY.match(text):
        return (
            "A source table starts from a snapshot (`bootstrap`), which has not been taken: there"
            f" is no {missing[1]}. Take it first: dbt run-operation cdc_bootstrap"
        )
    return _around_caret(text) or type(exc).__name__


def _text(exc: BaseException) -> str:
    java = getattr(exc, "java_exception", None)
    return str(exc) if java is None else _innermost(java)


def _innermost(java: Any) -> str:
    """Message of the last cause that has one: the outer ones only say that a job failed."""
    text = str(java.toString())
    for _ in range(CAUSES_FOLLOWED):
        if java is None:
            break
        if java.getMessage():
            text = str(java.toString())
        java = java.getCause()
    return text


def _around_caret(text: str) -> str:
    """Syntax errors quote the whole statement: the lines up to the caret are enough."""
    head, _, sql = text.partition("\n== SQL ==\n")
    lines = sql.splitlines()
    carets = [i for i, line in enumerate(lines) if re.fullmatch(r"-*\^{3}", line)]
    if not carets:
        return text
    shown = lines[max(0, carets[0] - LINES_BEFORE_CARET) : carets[0] + 1]
    return "\n".join([head.rstrip(), *shown])
