"""Spark's exceptions as messages for people: what is wrong, without plans or Java stacks."""

from __future__ import annotations

import re

# Analysis errors end with the query plan, which starts on a line of its own after a semicolon.
_PLAN = re.compile(r";\n(?='?\w+.*(?:\n|$)).*\Z", re.DOTALL)
_STACK = re.compile(r"\n+(?:JVM stacktrace:\n.*|\s+at [\w.$/]+\(.*)", re.DOTALL)


def message_of(exc: BaseException) -> str:
    """Returns what an exception has to say to the person who wrote the model.

    Args:
        exc: Any exception; those of Spark and py4j lose plans and stacks.
    """
    java = getattr(exc, "java_exception", None)
    text = _innermost(java) if java is not None else str(exc)
    text = _PLAN.sub("", _STACK.sub("", text)).strip()
    return text or type(exc).__name__


def _innermost(java: object) -> str:
    """Message of the last cause that has one: the outer ones only say that a job failed."""
    text, seen = str(java.toString()), 0  # type: ignore[attr-defined]
    while java is not None and seen < 20:
        text = str(java.toString()) if java.getMessage() else text  # type: ignore[attr-defined]
        java, seen = java.getCause(), seen + 1  # type: ignore[attr-defined]
    return text
