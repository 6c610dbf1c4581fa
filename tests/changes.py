"""Events of wal2json, format version 2, folded to the rows that they leave."""

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Row = dict[str, str | None]


def read(path: Path) -> list[Event]:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    # Numbers stay text: no digit may get lost. Only \n ends a line; str.splitlines knows more ends.
    return [json.loads(x, parse_int=str, parse_float=str) for x in text.split("\n")[:-1]]


def image(event: Event, part: str = "columns") -> Row:
    text = {True: "true", False: "false"}
    values = {column["name"]: column["value"] for column in event.get(part, [])}
    return {n: text[v] if isinstance(v, bool) else v for n, v in values.items()}


def key(event: Event, part: str = "columns") -> tuple[str | None, ...]:
    row = image(event, part)
    return tuple(row[column["name"]] for column in event["pk"])


def position(event: Event) -> tuple[str, int, int]:
    high, low = event["lsn"].split("/")
    # In UTC, and without the zone, a time's text sorts as the time does.
    return event["timestamp"].removesuffix("+00"), int(high, 16), int(low, 16)


def changes_key(event: Event) -> bool:
    return event["action"] == "U" and key(event) != key(event, "identity")


def fold(stream: Iterable[Event]) -> list[Row]:
    """Apply changes one by one; a missing row or a taken key is an error."""
    rows: dict[tuple[Any, ...], Row] = {}
    for number, event in enumerate(stream):
        match event["action"]:
            case "T":
                rows.clear()
            case "D":
                del rows[key(event, "identity")]
            case "U":
                old = rows.pop(key(event, "identity"))
                assert key(event) not in rows
                rows[key(event)] = old | image(event)
            case "I":
                place = key(event) or (number,)
                assert place not in rows
                rows[place] = image(event)
    return list(rows.values())


def multiset(rows: Iterable[Row]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)
