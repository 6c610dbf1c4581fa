"""Positions in PostgreSQL's log, and its times."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00")


def parse_lsn(text: str) -> int:
    """Reads a position as PostgreSQL prints it.

    Args:
        text: Such as `0/15323E0`.

    Returns:
        The number of bytes of log before it.

    Raises:
        ValueError: It is no position.
    """
    found = _LSN.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a position in PostgreSQL's log")
    return int(found[1], 16) << 32 | int(found[2], 16)


def format_lsn(position: int) -> str:
    """Prints a position as PostgreSQL does.

    Args:
        position: The number of bytes of log before it.
    """
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def microseconds(text: str) -> int:
    """Returns the microseconds from 2000 to a time that PostgreSQL prints in UTC.

    Args:
        text: Such as `2026-01-31 12:00:00.5+00`.

    Raises:
        ValueError: It is no such time.
    """
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a time in UTC")
    whole = datetime.fromisoformat(f"{found[1]}+00:00")
    return (whole - POSTGRES_EPOCH) // _MICROSECOND + int((found[2] or "0").ljust(6, "0"))


def time_text(count: int) -> str:
    """Prints a time as wal2json does in a session in UTC.

    Args:
        count: Microseconds since 2000.
    """
    return f"{(POSTGRES_EPOCH + count * _MICROSECOND).replace(tzinfo=None).isoformat(' ')}+00"
