"""Which change format a sample has, and the changes its records hold.

A reader per format takes one record. It gives None where the record is not of its format, and else
the changes in it: none for a heartbeat, a transaction border or a change of the schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from dbt_spark_cdc.samples.records import Sample
from dbt_spark_cdc.samples.source_types import of_database, of_debezium

ENOUGH = 0.5
FLAG_WORDS = {"i", "u", "d", "t", "insert", "update", "delete", "truncate"}
FLAG_NAMES = ("op", "flag", "operation", "change_type", "changetype", "type", "action", "cdc_op")
CHANGES = {"insert", "update_preimage", "update_postimage", "delete"}
# A rare value is no flag: some column of any table holds nothing but `d`.
FLAGS_SEEN = 2

Image = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One change of a row.

    Attributes:
        op: I, U, D or T.
        table: `schema.table` as the event names it; empty where it names none.
        after: The row after it.
        before: The row or the key before it.
        keys: Columns of the key, where the event names them.
        types: Types of columns, already Spark's, where the event names them.
    """

    op: str
    table: str = ""
    after: Image = field(default_factory=dict)
    before: Image = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)


Reader = Callable[[Any], "list[Change] | None"]


class Format(NamedTuple):
    """How a format is distinguished from others.

    Attributes:
        reader: Takes one record.
        marks: What the records of this format have, for people.
        order: Ways to a position, each a set of paths that are filled together; empty: none needed.
        time: Paths to the time of the commit, one of which is filled.
        times: Expressions that stand in for a position, each with the path that it reads.
    """

    reader: Reader
    marks: str
    order: tuple[tuple[str, ...], ...] = ()
    time: tuple[str, ...] = ()
    times: tuple[tuple[str, str], ...] = ()

    def changes(self, record: Any) -> list[Change]:
        """The changes in a record.

        Args:
            record: A record of the sample.
        """
        return _read(self.reader, record) or []

    def has_order(self, record: Any) -> bool:
        """Whether a record carries its position.

        Args:
            record: A record of the sample.
        """
        return any(all(_at(record, path) is not None for path in way) for way in self.order)

    def has_time(self, record: Any) -> bool:
        """Whether a record carries the time of its commit; where the format has none, it does.

        Args:
            record: A record of the sample.
        """
        return not self.time or any(_at(record, path) is not None for path in self.time)

    def stand_in(self, records: Sequence[Any], payload: str) -> list[str]:
        """Expressions that order records without a position as well as can be.

        Args:
            records: Records that hold a change.
            payload: Column that holds the event's text.
        """
        return [
            expression.format(payload=payload)
            for path, expression in self.times
            if all(_at(record, path) is not None for record in records)
        ]


@dataclass
class Recognised:
    """What a sample was found to be.

    Attributes:
        format: Name of the format.
        share: Share of the records that have it, from 0 to 1.
        sure: `sure`, `likely` or `a guess`.
        reasons: Why.
        changes: The changes in its records.
        operation: Column of the flag, of format flagged and of tables of DMS.
    """

    format: str
    share: float
    sure: str
    reasons: list[str]
    changes: list[Change]
    operation: str = ""


def recognise(sample: Sample, operation: str = "") -> Recognised | None:
    """Returns what format a sample has; None if none fits.

    Args:
        sample: Records of a file or table.
        operation: Column of the flag, if it is known; the format is flagged then.
    """
    if operation:
        return _flagged(sample, operation)
    found = []
    for name, known in FORMATS.items():
        records = _with_keys(sample) if name == "debezium" else sample.records
        read = [_read(known.reader, record) for record in records]
        fitting = [changes for changes in read if changes is not None]
        share = len(fitting) / len(read)
        if share >= ENOUGH:
            changes = [change for one in fitting for change in one]
            found.append((share, len(changes), name, changes))
    if not found:
        return _flagged(sample)
    found.sort(key=lambda entry: entry[:2], reverse=True)
    share, _, name, changes = found[0]
    reasons = [f"{share:.0%} of {len(sample.records)} records have {FORMATS[name].marks}"]
    others = [entry[2] for entry in found[1:] if entry[0] == share and entry[1]]
    if others:
        reasons.append(f"{', '.join(others)} would fit as well")
    if not changes:
        reasons.append("none of them changes a row")
    sure = "sure" if share > 0.95 and changes and not others else "likely"
    return Recognised(name, share, sure, reasons, changes)


def _with_keys(sample: Sample) -> list[Any]:
    """Events of messages, which name the key of their row beside them."""
    if sample.payload != "value" or "key" not in sample.beside or not sample.rows:
        return sample.records
    pairs = zip(sample.records, sample.rows, strict=True)
    return [{"key": row.get("key"), "value": record} for record, row in pairs]


def _read(reader: Reader, record: Any) -> list[Change] | None:
    """What a reader finds; None also where the record is of its format in the name only."""
    try:
        changes = reader(record)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError):
        return None
    return changes if changes is None or all(map(_is_sound, changes)) else None


def _is_sound(change: Change) -> bool:
    if not (isinstance(change.after, dict) and isinstance(change.before, dict)):
        return False
    names = (*change.after, *change.before, *change.keys)
    return change.op in ("I", "U", "D", "T") and all(isinstance(name, str) for name in names)


def _flagged(sample: Sample, operation: str = "") -> Recognised | None:
    """Row images with a column of flags; of DMS where the column has its name, if none is known."""
    rows = [record for record in sample.records if isinstance(record, dict)]
    names = dict.fromkeys(name for row in rows for name in row)
    candidates = []
    for position, name in enumerate(names):
        flags = [str(row[name]) for row in rows if _is_flag(row.get(name))]
        hinted = name.lower().strip("_") in FLAG_NAMES
        distinct = {flag.strip().lower()[:1] for flag in flags}
        if operation:
            if flags and name.lower() == operation.lower():
                candidates.append((len(flags) / len(rows), True, -position, name))
        elif flags and len(flags) >= len(rows) * 0.9 and (hinted or len(distinct) >= FLAGS_SEEN):
            candidates.append((len(flags) / len(rows), hinted, -position, name))
    if not candidates:
        return None
    share, hinted, _, flag = max(candidates)
    changes = [
        Change(str(row[flag]).strip().upper()[0], after={k: v for k, v in row.items() if k != flag})
        for row in rows
        if _is_flag(row.get(flag))
    ]
    reasons = [f"column `{flag}` holds I, U, D or T in {share:.0%} of {len(rows)} rows"]
    if not operation and sample.kind != "json" and not sample.payload and flag == "Op":
        reasons.append("AWS DMS gives its first column that name")
        return Recognised("dms", share, "likely", reasons, changes, flag)
    return Recognised("flagged", share, "likely" if hinted else "a guess", reasons, changes, flag)


def _is_flag(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() in FLAG_WORDS


def _wal2json_v2(record: Any) -> list[Change] | None:
    action = _get(record, "action")
    if action in ("B", "C", "M"):
        return []
    if action == "T" and "table" in record:
        return [Change("T", _dotted(record.get("schema"), record["table"]))]
    columns, identity = _get(record, "columns"), _get(record, "identity")
    if action not in ("I", "U", "D") or not (_is_columns(columns) or _is_columns(identity)):
        return None
    after, before = _named_values(columns), _named_values(identity)
    named = [item for item in (columns or []) + (identity or []) if item.get("type")]
    return [
        Change(
            action,
            _dotted(record.get("schema"), record.get("table")),
            after,
            before,
            _keys_of(tuple(item["name"] for item in record.get("pk") or []), before, after),
            {item["name"]: of_database(str(item["type"])) for item in named},
        )
    ]


def _wal2json_v1(record: Any) -> list[Change] | None:
    entries = _get(record, "change")
    if not isinstance(entries, list) or not all(
        isinstance(e, dict) and "kind" in e for e in entries
    ):
        return None
    changes = []
    for entry in entries:
        if entry["kind"] not in ("insert", "update", "delete", "truncate"):
            continue
        old = entry.get("oldkeys") or {}
        after = _paired(entry.get("columnnames"), entry.get("columnvalues"))
        before = _paired(old.get("keynames"), old.get("keyvalues"))
        pk = tuple((entry.get("pk") or {}).get("pknames") or ())
        types = _paired(old.get("keynames"), old.get("keytypes"))
        types |= _paired(entry.get("columnnames"), entry.get("columntypes"))
        changes.append(
            Change(
                entry["kind"][0].upper(),
                _dotted(entry.get("schema"), entry.get("table")),
                after,
                before,
                _keys_of(pk, before, after),
                {name: of_database(str(kind)) for name, kind in types.items()},
            )
        )
    return changes


def _debezium(record: Any) -> list[Change] | None:
    value, key = record, None
    if isinstance(record, dict) and "value" in record and "key" in record:  # with its message key
        value, key = _parsed(record["value"]), _parsed(record["key"])
        key = key.get("payload", key) if isinstance(key, dict) else None
        if value is None:
            return [] if key is not None else None
    fields = {}
    if isinstance(value, dict) and "payload" in value and "schema" in value:
        fields = _debezium_types(value["schema"])
        value = value["payload"]
        if value is None:
            return []
    if not isinstance(value, dict):
        return None
    if "__op" in value or "__deleted" in value:
        return [_unwrapped(value)]
    if value.get("status") in ("BEGIN", "END") and "data_collections" in value:
        return []
    source = value.get("source")
    if isinstance(source, dict) and "collection" in source:
        return _document(value, source)
    images = isinstance(value.get("before"), dict) or isinstance(value.get("after"), dict)
    if value.get("op") not in ("c", "r", "u", "d", "t", "m") or not (
        images or isinstance(source, dict)
    ):
        return None
    if value["op"] == "m":
        return []
    source = source if isinstance(source, dict) else {}
    return [
        Change(
            {"c": "I", "r": "I"}.get(value["op"], value["op"].upper()),
            _dotted(source.get("schema") or source.get("db"), source.get("table")),
            value.get("after") or {},
            value.get("before") or {},
            tuple(key or ()),
            fields,
        )
    ]


def _document(value: Mapping[str, Any], source: Mapping[str, Any]) -> list[Change] | None:
    """A change of MongoDB, as JSON text: the document, or the fields that changed."""
    if value.get("op") not in ("c", "r", "u", "d"):
        return [] if value.get("op") in ("m", "t") else None
    changed = (value.get("updateDescription") or {}).get("updatedFields")
    return [
        Change(
            {"c": "I", "r": "I"}.get(value["op"], value["op"].upper()),
            _dotted(source.get("db"), source["collection"]),
            _fields(value.get("after") or changed),
            _fields(value.get("before")),
            ("_id",),
        )
    ]


def _fields(text: str | None) -> dict[str, Any]:
    """A document's fields, as the package reads them; those of a part of a field are none."""
    fields = json.loads(text) if text else {}
    return {name: _plain(value) for name, value in fields.items() if "." not in name}


def _plain(value: Any) -> Any:
    """A value of MongoDB's extended JSON; what has such values in it is read as its text."""
    if not isinstance(value, dict | list) or '"$' not in json.dumps(value):
        return value
    fields = value if isinstance(value, dict) else {}
    for names, kind in (
        (("$numberLong", "$numberInt"), int),
        (("$numberDecimal", "$numberDouble"), float),
        (("$oid", "$uuid", "$symbol"), str),
    ):
        for name in fields.keys() & set(names):
            return kind(fields[name])
    if "$date" not in fields:
        return json.dumps(value)
    at = fields["$date"]
    millis = at["$numberLong"] if isinstance(at, dict) else at
    if isinstance(millis, str) and not millis.lstrip("-").isdigit():
        return millis
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=int(millis))
    return f"{moment:%Y-%m-%d %H:%M:%S.%fZ}"


def _debezium_types(schema: Any) -> dict[str, str]:
    types: dict[str, str] = {}
    for part in (schema or {}).get("fields") or []:
        if part.get("field") in ("before", "after"):
            types.update({f["field"]: of_debezium(f) for f in part.get("fields") or []})
    return types


def _unwrapped(value: Mapping[str, Any]) -> Change:
    """An event that the unwrap transform has made flat."""
    deleted = str(value.get("__deleted")).lower() == "true"
    op = str(value.get("__op") or ("d" if deleted else "u"))
    row = {name: item for name, item in value.items() if not name.startswith("__")}
    table = _dotted(value.get("__schema") or value.get("__db"), value.get("__table"))
    return Change({"c": "I", "r": "I"}.get(op, op.upper()), table, row)


def _goldengate(record: Any) -> list[Change] | None:
    if _get(record, "op_type") not in ("I", "U", "D", "T") or "table" not in record:
        return None
    return [
        Change(
            record["op_type"],
            str(record["table"]),
            record.get("after") or {},
            record.get("before") or {},
            tuple(record.get("primary_keys") or ()),
        )
    ]


def _maxwell(record: Any) -> list[Change] | None:
    kind = _get(record, "type")
    if not isinstance(kind, str) or kind != kind.lower() or "database" not in record:
        return None
    if kind.startswith(("table-", "database-", "bootstrap-")) and kind != "bootstrap-insert":
        return []
    op = {"insert": "I", "bootstrap-insert": "I", "update": "U", "delete": "D"}.get(kind)
    if op is None or not isinstance(record.get("data"), dict):
        return None
    old = record.get("old") or {}
    return [
        Change(
            op,
            _dotted(record["database"], record.get("table")),
            record["data"],
            old,
            tuple(record.get("primary_key_columns") or ()),
        )
    ]


def _canal(record: Any) -> list[Change] | None:
    kind = _get(record, "type")
    if not isinstance(kind, str) or kind != kind.upper() or "database" not in record:
        return None
    if record.get("isDdl") or kind not in ("INSERT", "UPDATE", "DELETE", "TRUNCATE"):
        return [] if "data" in record or record.get("isDdl") else None
    table = _dotted(record["database"], record.get("table"))
    if kind == "TRUNCATE":
        return [Change("T", table)]
    rows = record.get("data")
    if not isinstance(rows, list):
        return None
    types = {n: of_database(t, mysql=True) for n, t in (record.get("mysqlType") or {}).items()}
    old = record.get("old") or [{}] * len(rows)
    keys = tuple(record.get("pkNames") or ())
    return [
        Change(kind[0], table, row, before or {}, keys, types)
        for row, before in zip(rows, old, strict=False)
    ]


def _dms(record: Any) -> list[Change] | None:
    metadata = _get(record, "metadata")
    if not isinstance(metadata, dict) or "record-type" not in metadata:
        return None
    operation = metadata.get("operation")
    op = {"load": "I", "insert": "I", "update": "U", "delete": "D"}.get(str(operation))
    if metadata["record-type"] != "data" or op is None:
        return []
    data = record.get("data") or {}
    keys: tuple[str, ...] = ()
    if metadata.get("partition-key-type") == "primary-key":
        # Only its value is there, behind schema and table: the column that holds it is the key.
        value = str(metadata.get("partition-key-value")).rpartition(".")[2]
        keys = tuple(name for name, item in data.items() if str(item) == value)[:1]
    table = _dotted(metadata.get("schema-name"), metadata.get("table-name"))
    return [Change(op, table, data, record.get("before-image") or {}, keys)]


def _change_event(record: Any) -> list[Change] | None:
    fields = {name.lower(): item for name, item in record.items()} if _is_row(record) else {}
    if "changetype" not in fields or not ({"columnnames", "oldkeynames"} & fields.keys()):
        return None
    kind = str(fields["changetype"]).strip().lower()
    if kind not in ("insert", "update", "delete", "truncate"):
        return None
    old = fields.get("oldkeynames") or []
    return [
        Change(
            kind[0].upper(),
            "",
            _paired(fields.get("columnnames"), fields.get("columnvalues")),
            _paired(old, fields.get("oldkeyvalues")),
            tuple(old),
        )
    ]


def _delta_cdf(record: Any) -> list[Change] | None:
    kind = _get(record, "_change_type")
    if kind not in CHANGES:
        return None
    row = {n: v for n, v in record.items() if n not in ("_change_type", *DELTA_CDF_COLUMNS)}
    if kind == "update_preimage":
        return []
    return [Change(kind[0].upper(), "", row)]


DELTA_CDF_COLUMNS = ("_commit_version", "_commit_timestamp")

_CONNECTORS = (
    *(("lsn",), ("sequence",), ("file", "pos"), ("commit_lsn",), ("scn",)),
    ("ts_ms", "ord"),
)
_OUTER = ("", "payload.", "value.", "value.payload.")

FORMATS: dict[str, Format] = {
    "wal2json_v2": Format(
        _wal2json_v2,
        "`action` with `columns`, `identity` or a transaction's border",
        (("lsn", "timestamp"),),
        ("timestamp",),
        (("timestamp", "try_cast(_message.timestamp as timestamp)"),),
    ),
    "wal2json_v1": Format(
        _wal2json_v1,
        "`change`, a list with a `kind` in each entry",
        (("nextlsn",),),
        ("timestamp",),
        (("timestamp", "try_cast(_message.timestamp as timestamp)"),),
    ),
    "debezium": Format(
        _debezium,
        "`op` with `before`, `after` and `source`, or the unwrap transform's fields",
        tuple(
            tuple(f"{outer}{prefix}{name}" for name in way)
            for outer in _OUTER
            for prefix in ("source.", "__", "__source_")
            for way in _CONNECTORS
        ),
        tuple(
            f"{outer}{prefix}{name}"
            for outer in _OUTER
            for prefix in ("source.", "__", "__source_")
            for name in ("ts_ms", "ts_us")
        ),
        (
            ("source.ts_ms", "try_cast(_message.source.ts_ms as bigint)"),
            ("payload.source.ts_ms", "try_cast(_message.payload.source.ts_ms as bigint)"),
            (
                "__source_ts_ms",
                "try_cast(get_json_object({payload}, '$.__source_ts_ms') as bigint)",
            ),
            ("__ts_ms", "try_cast(get_json_object({payload}, '$.__ts_ms') as bigint)"),
        ),
    ),
    "goldengate": Format(_goldengate, "`op_type` and `table`", (("pos",),), ("op_ts",)),
    "maxwell": Format(
        _maxwell,
        "`type` in lower case, `database`, `table` and `data`",
        (("ts",),),
        ("ts",),
    ),
    "canal": Format(
        _canal,
        "`type` in capitals, `database` and rows in `data`",
        (),
        ("es",),
        (
            ("es", "try_cast(_message.es as bigint)"),
            ("id", "try_cast(get_json_object({payload}, '$.id') as bigint)"),
        ),
    ),
    "dms": Format(
        _dms,
        "`metadata` with `record-type`",
        (("metadata.commit-timestamp",),),
        ("metadata.commit-timestamp",),
        (("metadata.timestamp", "try_cast(_message.metadata['timestamp'] as timestamp)"),),
    ),
    "change_event": Format(
        _change_event,
        "`changeType` with `columnNames` and `columnValues`",
        (("timestamp",),),
    ),
    "delta_cdf": Format(
        _delta_cdf,
        "`_change_type` with the words of Delta's change feed",
        (("_commit_version",),),
        ("_commit_timestamp",),
    ),
}


def _at(record: Any, path: str) -> Any:
    """What stands at a path of a record; None if nothing does."""
    for name in path.split("."):
        record = _get(_parsed(record), name)
    return record


def _get(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, dict) else None


def _is_row(record: Any) -> bool:
    return isinstance(record, dict)


def _is_columns(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(i, dict) and "name" in i for i in value)


def _named_values(items: Any) -> dict[str, Any]:
    return {item["name"]: item.get("value") for item in items or []}


def _paired(names: Any, values: Any) -> dict[str, Any]:
    return dict(zip(names or [], values or [], strict=False))


def _keys_of(pk: tuple[str, ...], before: Image, after: Image) -> tuple[str, ...]:
    """The key of a change of PostgreSQL: an identity of all columns tells nothing."""
    if pk:
        return pk
    return tuple(before) if before and after and len(before) < len(after) else ()


def _dotted(*names: Any) -> str:
    return ".".join(str(name) for name in names if name)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return None


def tables_of(changes: Sequence[Change]) -> list[str]:
    """Returns the tables that changes name, in the order of their first appearance.

    Args:
        changes: Changes of a sample.
    """
    return list(dict.fromkeys(change.table for change in changes))
