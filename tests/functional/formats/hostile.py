"""Raw rows of every format, sound and broken in all ways, drawn by hypothesis.

A row starts as a sound event of its format; most then suffer: values of the wrong kind, parts that
are missing, doubled, renamed or nested too deep, parts of another format, and text that is no JSON.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.functional.draws import draw
from tests.functional.formats.test_debezium import CODES, GONE, change
from tests.functional.formats.test_messages import canal, dms, maxwell, ogg, transaction

COLUMNS = {
    "id": "bigint",
    "part": "int",
    "name": "string",
    "price": "decimal(12,3)",
    "small": "tinyint",
    "ratio": "double",
    "ok": "boolean",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "blob": "binary",
    "tags": "array<string>",
    "prices": "array<decimal(6,2)>",
    "days": "array<date>",
    "point": "struct<x: int, y: string>",
    "text": "varchar(10)",
}

ROW = {
    "id": 1,
    "part": 2,
    "name": "a",
    "price": 1.125,
    "small": 7,
    "ratio": 0.5,
    "ok": True,
    "day": "2020-02-29",
    "at": "2020-01-01T00:00:00.123456Z",
    "local": "2020-01-01 00:00:00",
    "blob": "AAE=",
    "tags": ["a", None],
    "prices": [1.5, None],
    "days": ["2020-01-01"],
    "point": {"x": 1, "y": "b"},
    "text": "short",
}
KEY = {"id": 1, "part": 2}
OTHER = {"id": 3, "part": 2}


# Deeper than Python writes JSON: put into the text afterwards.
DEEP = {
    "@lists": "[" * 600 + "]" * 600,
    "@more lists": "[" * 1100 + "]" * 1100,
    "@objects": '{"a":' * 1100 + "1" + "}" * 1100,
    "@huge": "9" * 5000,
    "@point": "0." + "1" * 5000,
}

JUNK: list[Any] = [
    None, True, False, 0, -1, 1, 127, 128, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63,
    -(2**63) - 1, 2**64, 10**38, 10**39, 10**400, 0.1, -0.0, 1e300, 1e-320, 1.0000000000000002,
    1.5, 123456789.123456789, "", " ", "0", "00", "1", "-", "+1", "1e5", "1e400", "1E+2147483648",
    "9" * 30, "9" * 500, "NaN", "Infinity", "-inf", "null", "true", "TRUE", "t", "yes", "now",
    "today", "epoch", "2020", "2020-01-01", "2020-02-30", "0000-00-00", "0000-00-00 00:00:00",
    "+999999-01-01", "99999-01-01", "-0044-03-15", "2020-01-01T24:00:00Z", "2020-01-01T00:00:60",
    "12:00", "2020-01-01 00:00:00 Europe/Berlin", "2020-01-01 00:00:00+99:99",
    "2020-01-01 00:00:00.1234567", "2020-01-01T00:00:00[UTC]", "1582-10-10", "a", "A", "i", "I ",
    " d", "INSERT", "truncate", "DELETE", "x" * 5000, "AAE=", "AAE", "====", "!!!!", "\\x00ff",
    "\\xzz", "0x1F", "ÿÿ", "ł", "日本語", "😀", "e\u0301", "\u202e", "\u0000", "a\u0000b",
    "\u001b[31m", "\ufeff", "\ufffd", "\ud800", "it's", '"', "\\", "\\\\", "`", "$.a", "%", "[1]",
    "[", "]", "{", "{}", "[]", '{"a":1}', '{"scale":2,"value":"AAE="}', "0/0", "1/0", "0/16B3748",
    "FFFFFFFF/FFFFFFFF", "100000000/0", "x/y", "/", "bin.000002:123", ":", "bin.:", '["1","2"]',
    '["', "[null,1]", "00000027:00000ac0:0002", "0x00000b.00001f3b.0010", "..", GONE, [GONE],
    CODES, {GONE: GONE}, [], [None], [[]], [1, "a", None, {}], [[1, 2], [3]], ["a", "a"], {},
    {"a": None}, {"": 1}, {"id": 1}, {"id": {"id": 1}}, {"name": None, "value": None},
    {"value": "AAE=", "scale": 0}, {"scale": 2**31 - 1, "value": "AAE="},
    {"scale": None, "value": 5}, {"keynames": None, "keyvalues": [1]},
    [{"name": "id", "value": 1}] * 2, [{"name": None, "value": 1}], [{}], [None, {}],
    {"BI_id": 1, "id": 2}, {"id_isMissing": True}, [[[[[[[[1]]]]]]]],
    {"a": {"a": {"a": {"a": {"a": 1}}}}}, *DEEP,
]  # fmt: skip

# Where text goes wrong: put in at a random place.
SCRAPS = [
    "", "\u0000", "\n", "\t", "\ufeff", "\ufffd", '"', "'", "\\", "\\u", "\\ud800", "\\x", "{",
    "}", "[", "]", ",", ":", "//", "/*", "#", "NaN", "Infinity", "-", "00", "1e", "1e999999999",
    "tru", "null", "😀", '"id":1,', '"op":"c",', '"before":{},', '"after":[],', '"columns":null,',
    '"type":[],', '"data":{"id":1,"id":2},', '"schema":1,', "}{", "\u2028",
]  # fmt: skip


def wal2json_columns(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "type": "t", "value": value} for name, value in row.items()]


def v1_change(kind: str, row: Any = None, old: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": kind, "schema": "public", "table": "t"}
    if row:
        found |= {"columnnames": [*row], "columnvalues": [*row.values()]}
    if old:
        found["oldkeys"] = {"keynames": [*old], "keyvalues": [*old.values()]}
    return found


def v2_change(action: str, row: Any = None, old: Any = None, **values: Any) -> dict[str, Any]:
    found = {"action": action, "lsn": "0/16B3748", "timestamp": "2020-01-01 00:00:00+00"}
    lists = {
        name: wal2json_columns(image)
        for name, image in (("columns", row), ("identity", old))
        if image
    }
    return {**found, "schema": "public", "table": "t", **lists, **values}


def change_event(kind: str, row: Any = None, old: Any = None) -> dict[str, Any]:
    def text(image: dict[str, Any]) -> list[Any]:
        return [v if v is None or isinstance(v, str) else json.dumps(v) for v in image.values()]

    found: dict[str, Any] = {"changeType": kind, "timestamp": "5"}
    if row:
        found |= {"columnNames": [*row], "columnValues": text(row)}
    if old:
        found |= {"oldKeyNames": [*old], "oldKeyValues": text(old)}
    return found


def texts(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v if v is None or isinstance(v, str) else json.dumps(v) for k, v in row.items()}


MOVED = {**ROW, **OTHER}
CHANGED = {**ROW, "name": None}
SCHEMA = {
    "fields": [
        {
            "field": "after",
            "fields": [
                {"field": "day", "name": "io.debezium.time.Date"},
                {"field": "at", "name": "io.debezium.time.NanoTimestamp"},
                {"field": "local", "name": "io.debezium.time.MicroTimestamp"},
                {
                    "field": "price",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "3"},
                },
            ],
        }
    ]
}

# Sound events of each format; what the others are made of.
MESSAGES: dict[str, list[Any]] = {
    "change_event": [
        change_event("insert", ROW),
        change_event("update", CHANGED, KEY),
        change_event("update", MOVED, KEY),
        change_event("delete", None, KEY),
        change_event("truncate"),
    ],
    "debezium": [
        change("c", 10, after=ROW),
        change("u", 11, before=KEY, after={**ROW, "name": GONE, "tags": [GONE]}),
        {"schema": None, "payload": change("u", 12, before=ROW, after=CHANGED)},
        {
            "schema": SCHEMA,
            "payload": change(
                "c", 13, after={**ROW, "day": 1, "at": 10**18, "local": 10**15, "price": "AAE="}
            ),
        },
        change("d", 14, before=ROW),
        change("d", 15),
        change("t", 16),
        change("m", 17),
        change("r", None, after=ROW, file="bin.000001", pos=4, row=0, gtid=None),
        change("c", None, after=ROW, commit_lsn="00000027:00000ac0:0002", change_lsn=None),
        change("c", None, after=ROW, scn="99", commit_scn="100", rs_id=" 0x00000b.00001f3b.0010 "),
        {**ROW, "__op": "u", "__lsn": 5, "__source_ts_ms": 1000, "__deleted": "false"},
        {**ROW, "__deleted": "true", "__lsn": 6, "__ts_ms": 1000},
        {"schema": {}, "payload": None},
        {"ts_ms": 1565262586341},
        {"status": "BEGIN", "id": "571:53195829", "ts_ms": 1},
        {"source": {"table": "t"}, "databaseName": "shop", "ddl": "alter table t"},
    ],
    "wal2json_v1": [
        transaction("0/10", v1_change("insert", ROW), v1_change("update", MOVED, KEY)),
        transaction("0/11", v1_change("delete", None, KEY), v1_change("truncate")),
        transaction("0/12"),
        transaction("0/13", {"kind": "message", "content": "x"}, v1_change("insert", ROW)),
    ],
    "wal2json_v2": [
        v2_change("I", ROW),
        v2_change("U", MOVED, KEY),
        v2_change("U", KEY, ROW),
        v2_change("D", None, KEY),
        v2_change("T"),
        {"action": "B", "xid": 1, "nextlsn": "0/1"},
        {"action": "M", "prefix": "p", "content": "c"},
    ],
    "dms": [
        dms("load", ROW, 1),
        dms("insert", ROW, 2),
        {**dms("update", MOVED, 3), "before-image": KEY},
        dms("update", {**MOVED, "BI_id": 1}, 4),
        dms("delete", ROW, 5),
        dms("add-column", None, 6, kind="control"),
        dms("truncate-table", None, 7, kind="control"),
    ],
    "goldengate": [
        ogg("I", "00000000000000000010", after=ROW),
        ogg("U", "00000000000000000011", KEY, {**MOVED, "name_isMissing": True}),
        ogg("D", "00000000000000000012", ROW),
        ogg("T", "00000000000000000013"),
        {"table": "S.T", "op_type": "U", "op_ts": "2020-05-13 15:40:06", "pos": "14", **ROW},
    ],
    "maxwell": [
        maxwell("insert", 100, ROW, xid=7, xoffset=0, position="bin.000002:123"),
        maxwell("update", 101, MOVED, old={"id": 1, "name": "z"}, xid=7, commit=True),
        maxwell("delete", 102, ROW),
        maxwell("bootstrap-start", 103, {}),
        maxwell("bootstrap-insert", 103, ROW),
        {"type": "table-create", "database": "d", "table": "t", "ts": 1477053308000, "def": {}},
    ],
    "canal": [
        canal("INSERT", [texts(ROW), texts(MOVED)]),
        canal("UPDATE", [texts(MOVED), texts(CHANGED)], [{"id": "1"}, {"name": "a"}]),
        canal("DELETE", [texts(ROW)]),
        canal("TRUNCATE", None, isDdl=True),
        canal("CREATE", None, isDdl=True, sql="create table t"),
    ],
}

# What may stand in the columns of typed raw tables.
CHOICES: dict[str, list[Any]] = {
    "string": [value for value in JUNK if value is None or isinstance(value, str)],
    "bigint": [None, 0, -1, 1, 5, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)],
    "double": [
        *[None, 0.0, -0.0, 1.5, 0.1, 1e300, -1e19, 5e-324],
        *[float("nan"), float("inf"), float("-inf")],
    ],
    "timestamp": [None]
    + [
        dt.datetime.fromisoformat(text)
        for text in (
            *["2020-01-01T00:00:00", "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"],
            *["1582-10-10T00:00:00", "1969-12-31T23:59:59.999999"],
        )
    ],
    "decimal(38,10)": [
        None,
        *map(Decimal, ["0", "1.125", "-1.1250000001", "1e27", "0.0000000001"]),
    ],
    "binary": [None, b"", b"1", b"\xff\xfe", b"a" * 3000],
    "boolean": [None, True, False],
    "array<string>": [
        *[None, [], [None], [None, None], ["id"], ["id", "id"], ["id", None], ["1", "2"]],
        *[["id", "part"], ["part", "id"], ["id", "part", "name"], ["", "1"], ["x" * 3000]],
    ],
}
SOUND: dict[str, dict[str, list[Any]]] = {
    "change_event_rows": {
        "changeType": ["insert", "update", "delete", " UPDATE ", "truncate"],
        "timestamp": ["1", "2", "3"],
        "columnNames": [["id", "part"], ["part", "id", "name"], ["id", "part", "price"]],
        "columnValues": [["1", "2"], ["2", "1", None], ["1", "2", "1.125"]],
        "oldKeyNames": [None, ["id", "part"], ["part", "id"]],
        "oldKeyValues": [None, ["1", "2"], ["2", "3"]],
    },
    "rows": {
        "op": ["I", "U", "D", "T", "i ", None],
        "seq": [1, 2, 3, 10**12],
        "id": ["1", "2", "3"],
        "part": [1, 2],
        "BI_id": [None, "1"],
    },
    "feed": {
        "_change_type": ["insert", "update_preimage", "update_postimage", "delete"],
        "_commit_version": [1, 2, 3],
        "_commit_timestamp": [dt.datetime(2020, 1, 1)],
        "id": ["1", "2", "3"],
        "part": [1, 2],
    },
    "debezium_rows": {
        "op": ["c", "u", "d", "t", "r"],
        "id": ["1", "2", "3"],
        "part": [1, 2],
        "lsn": [1, 2, 3],
        "ts_ms": [1000],
    },
}
VALUES = {
    "id": "string",
    "part": "bigint",
    "name": "string",
    "price": "decimal(38,10)",
    "small": "bigint",
    "ratio": "double",
    "ok": "string",
    "day": "timestamp",
    "at": "string",
    "local": "timestamp",
    "blob": "binary",
    "tags": "array<string>",
    "text": "string",
}
IMAGE = f"struct<{', '.join(f'{name}: {kind}' for name, kind in VALUES.items())}>"
TYPED: dict[str, dict[str, str]] = {
    "change_event_rows": {
        "changeType": "string",
        "timestamp": "string",
        "columnNames": "array<string>",
        "columnValues": "array<string>",
        "oldKeyNames": "array<string>",
        "oldKeyValues": "array<string>",
    },
    "rows": {"op": "string", "seq": "bigint", **VALUES, "BI_id": "string"},
    "feed": {
        "_change_type": "string",
        "_commit_version": "bigint",
        "_commit_timestamp": "timestamp",
        **VALUES,
    },
    "debezium_rows": {
        "op": "string",
        "before": IMAGE,
        "after": IMAGE,
        "source": "struct<lsn: bigint, ts_ms: bigint, table: string>",
    },
}


def _any(random: Random) -> Any:
    return copy.deepcopy(random.choice(JUNK))


def _places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of a message and of all its parts."""
    found = [path]
    if isinstance(node, dict | list):
        for key, part in node.items() if isinstance(node, dict) else enumerate(node):
            found += _places(part, (*path, key))
    return found


def _suffer(random: Random, message: Any) -> Any:
    """One thing goes wrong in a message."""
    *above, key = random.choice([("message",), *(("message", *p) for p in _places(message) if p)])
    whole = {"message": message}
    node: Any = whole
    for step in above:
        node = node[step]
    how = random.randrange(8)
    if how <= 2:
        node[key] = _any(random)
    elif how == 3 and above:
        del node[key]
    elif how == 4:
        node[key] = [node[key]]
    elif how == 5:
        node[key] = {"id": node[key], "a": 1}
    elif how == 6:
        node[key] = json.dumps(node[key])
    elif isinstance(node, list):
        node.append(_any(random))
    elif above:
        node[random.choice(["ID", "Id", "", "id ", "after", "BI_id", "payload"])] = node[key]
    return whole["message"]


def message(random: Random, kind: str) -> bytes | None:
    """A message as it stands in a topic, sound or not.

    Args:
        random: What decides.
        kind: The format that most messages have.
    """
    of = random.choice(sorted(MESSAGES)) if random.random() < 0.05 else kind
    found = copy.deepcopy(random.choice(MESSAGES[of]))
    for _ in range(random.choice([0, 1, 1, 1, 2, 3])):
        found = _suffer(random, found)
    damage = random.random()
    if damage < 0.02:
        return None
    text = json.dumps(found, ensure_ascii=random.random() < 0.5)
    for name, deep in DEEP.items():
        text = text.replace(f'"{name}"', deep)
    if damage < 0.2:
        at = random.randint(0, len(text))
        to = at + random.choice([0, 0, 1, 5, len(text)])
        text = text[:at] + random.choice(SCRAPS) + text[to:]
    found = text.encode("utf-8", "surrogatepass")
    if 0.2 < damage < 0.25:
        at = random.randint(0, len(found))
        found = found[:at] + random.choice([b"\xff", b"\xc3", b"\x80\x80"]) + found[at:]
    return found


def typed(random: Random, kind: str) -> tuple[Any, ...]:
    """A row of a typed raw table, sound or not.

    Args:
        random: What decides.
        kind: One of TYPED.
    """

    def value(name: str, of: str) -> Any:
        if of.startswith("struct<"):
            fields = (field.split(": ") for field in of[7:-1].split(", "))
            image = tuple(value(field, kind) for field, kind in fields)
            return image if random.random() < 0.8 else None
        sound = SOUND[kind].get(name, [None])
        return random.choice(sound if random.random() < 0.9 else CHOICES[of])

    return tuple(value(name, of) for name, of in TYPED[kind].items())


def draw_rows(row: Callable[[Random], Any], count: int, start: int) -> list[Any]:
    """Draws rows; the same for the same start.

    Args:
        row: Makes a row of what a random generator gives. Hypothesis gives one generator a row: it
            draws slowly, and repeats itself where a row takes many draws.
        count: How many.
        start: Seed of the draw.
    """
    return draw(st.randoms(use_true_random=True).map(row), count, start)
