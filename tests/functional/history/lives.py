"""Tables whose whole lives are drawn: declarations, events, and what people do between two builds.

A `Table` knows what its history and its final table have to hold: a plain fold over the events that
the builds have read so far, each with the columns that were declared when it was read last.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

STEP = 100  # positions of each round
UNSET = "(no value)"

# The types that a column can be widened to, each with values that the one before it does not hold,
# and Python's type of the last one, which the raw table has from the beginning.
CHAINS: dict[str, list[tuple[str, list[Any]]]] = {
    "text": [
        ("string", ["x", "y", "", "it's", "${env:HOME}", "-- cdc: nothing new", "日本語", "NULL"])
    ],
    "whole": [("int", [1, 2]), ("bigint", [2**40]), ("decimal(22,1)", [2.5])],
    "small": [("smallint", [1, 2]), ("int", [70000]), ("double", [0.5])],
    "exact": [("decimal(5,1)", [1.5, 2]), ("decimal(12,2)", [1.25, 123456.25])],
    "day": [
        ("date", [datetime(2024, 1, 1), datetime(1969, 12, 31)]),
        ("timestamp_ntz", [datetime(2024, 1, 1, 12, 30)]),
    ],
}
# How often a column of Iceberg can be widened: other steps are refused there.
LAKE_WIDTHS = {"text": 0, "whole": 1, "small": 1, "exact": 0, "day": 0}
CATALOG = "ice"
# The format of a history or a final table, and how it is written.
WRITTEN: list[dict[str, Any]] = [
    {"file_format": "delta"},
    {"file_format": "delta", "write_mode": "merge-on-read"},
    {"file_format": "delta", "write_mode": "merge-on-read"},
    {"file_format": "iceberg"},
    {"file_format": "iceberg", "write_mode": "copy-on-write"},
    {"file_format": "iceberg", "format_version": 3},
]
KEY_VALUES: dict[str, list[Any]] = {
    "text": ["k", "K", "it's", "${env:HOME}", "-- cdc: nothing new"],
    "whole": [-1, 0, 7],
    "day": [datetime(2024, 1, 1), datetime(1582, 10, 4)],
}

COLUMN_NAMES = [
    "id",
    "Id2",
    "KEY",
    "select",
    "order",
    "from",
    "Größe",
    "a.b",
    "dash-ed",
    "it's",
    'quo"te',
    "日本",
    "🙂",
    "_x",
    "_key",
    "known",
    "given",
    "row",
    "changes",
    "source",
    "versions",
    "events",
    "value",
    "element",
    "part_1",
    "key_1",
    "_file",
    "_batch",
    "_row",
    "version",
    "timestamp",
    "count",
    "1st",
    "a/b",
    "a:b",
    "50%",
    "back\\slash",
    "$",
    "$1",
    "_given",
    "_known",
    "_at",
    "_number",
    "_rows",
    "_bucket",
    "_sole_event",
    "_message",
    "_current",
    "_table",
    "op",
    "seq",
    "batch",
    "_values_",
    "raw_events",
    "history",
    "latest",
    "late",
    "DBT_INTERNAL_DEST",
    "dbt_id",
    "__x",
    "_",
    "null",
    "true",
    "1e5",
    "i̇",
    "ß",
    "current_date",
    "user",
    "_id",
    "_update",
    "_tracked",
    "_new",
    "_order",
    "_operation",
    "name",
    "type",
    "struct",
    "array",
    "x'y\"",
    "#a",
    "@b",
    "!c",
]
# What is refused as a column's name, and what must be said of it.
REFUSED_NAMES = {
    "two words": "has a character that Delta does not allow",
    "back`tick": "has a character that Delta does not allow",
    "a,b": "has a character that Delta does not allow",
    "${x}": "has a character that Delta does not allow",
    "_seq": "has a name that the package uses itself",
    "_OP": "has a name that the package uses itself",
    "_metadata": "has a name that the package uses itself",
    "__cdc_x": "has a name that the package uses itself",
    "_is_known": "has a name that the package uses itself",
}
TABLE_NAMES = [
    "orders",
    "Order_Lines",
    "select",
    "T1",
    "_private",
    "x1st",
    "UPPER",
    "history",
    "x_history",
    "table_changes",
    "known",
    "__a",
    "from_",
    "group",
]


def quoted(name: str) -> str:
    """A name in SQL."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(eq=False)
class Column:
    """A column of the source.

    Attributes:
        names: Its names, the present one last.
        family: What it holds, a name of `CHAINS`.
        width: How often it was widened.
        is_declared: Whether the declaration has it now.
        was_declared: Whether the declaration had it once.
    """

    names: list[str]
    family: str
    width: int = 0
    is_declared: bool = True
    was_declared: bool = True

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def kind(self) -> str:
        return CHAINS[self.family][self.width][0]

    @property
    def raw_kind(self) -> str:
        return CHAINS[self.family][-1][0]

    def can_widen(self, in_lake: bool) -> bool:
        """Whether there is a wider type.

        Args:
            in_lake: Whether an Iceberg table has the column.
        """
        widest = LAKE_WIDTHS[self.family] if in_lake else len(CHAINS[self.family]) - 1
        return self.width < widest

    def raw_value(self, value: Any) -> Any:
        """A value as the raw table takes it."""
        if value is None:
            return None
        if self.raw_kind.startswith("decimal"):
            return Decimal(str(value))
        return float(value) if self.raw_kind == "double" else value


@dataclass(frozen=True, eq=False)
class Event:
    """One event; the same object when it arrives again.

    Attributes:
        position: Its place in the order.
        op: I, U, D or T.
        values: What the row of the source held then, keys too.
        names: The names that the columns had then.
        changed: The columns that an update says that it changed; None for all.
    """

    position: int
    op: str
    values: dict[Column, Any]
    names: dict[Column, str]
    changed: frozenset[Column] | None


class Version(NamedTuple):
    """A row of the history, as its key and values were written down by `normal`."""

    key: tuple[Any, ...]
    values: tuple[Any, ...]
    seq: int
    seq_end: int | None
    created: int
    changed: int


Known = dict[Event, dict[Column, Any]]


def normal(value: Any) -> Any:
    """A value without what its type adds."""
    if isinstance(value, (int, float, Decimal)):
        return float(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day).isoformat()
    return value


def fold(
    known: Known, keys: list[Column], columns: list[Column], tracked: list[Column]
) -> set[Version]:
    """Folds events to versions.

    Args:
        known: The events, each with what it says of the columns; of others it says NULL.
        keys: The columns of the key.
        columns: The other columns.
        tracked: Those whose change begins a version.
    """
    truncates = {event.position for event in known if event.op == "T"}
    by_key: dict[tuple[Any, ...], list[tuple[int, bool, dict[Column, Any]]]] = {}
    for event, said in known.items():
        if event.op != "T":
            key = tuple(normal(event.values[column]) for column in keys)
            by_key.setdefault(key, []).append((event.position, event.op == "D", said))
    found = set()
    for key, own in by_key.items():
        versions: list[dict[str, Any]] = []
        row: dict[Column, Any] | None = None
        born = 0
        ends = [(position, True, {}) for position in truncates]
        for position, is_end, said in sorted(own + ends, key=lambda one: one[:2]):
            if is_end:
                if row is not None:
                    versions[-1]["seq_end"] = position
                row = None
                continue
            values = {
                column: (row or {}).get(column)
                if said.get(column) is UNSET
                else normal(said.get(column))
                for column in columns
            }
            born = position if row is None else born
            if row is None or any(values[column] != row[column] for column in tracked):
                if row is not None:
                    versions[-1]["seq_end"] = position
                versions.append({"seq": position, "seq_end": None, "created": born})
            if row is None or values != row:
                versions[-1]["changed"] = position
            versions[-1]["values"] = tuple(values[column] for column in columns)
            row = values
        found |= {Version(key=key, **version) for version in versions}
    return found


@dataclass
class Saved:
    """A table as it was at a version of its own."""

    version: int
    known: Known
    columns: list[Column]


@dataclass
class Refusal:
    """A change that a build must refuse.

    Attributes:
        what: The change.
        says: Regular expressions that the message must match, by node.
        take_back: What makes the declaration what it was.
    """

    what: str
    says: dict[str, str]
    take_back: Callable[[], None]


class Table:
    """One source table with its declaration, and what its tables have to hold.

    Attributes:
        story: All that happened, for the report of a failure.
        versions: What the history holds; None where nobody knows.
        current: What the final table holds; None where nobody knows.
    """

    def __init__(self, number: int, seed: int, sql: Callable[[str], Any]) -> None:
        """Draws the declaration.

        Args:
            number: The table's number in its life.
            seed: Of the life.
            sql: Runs a statement; `{s}` in it is the schema.
        """
        self.draw = draw = random.Random(f"{seed}-{number}")
        self.sql = sql
        self.name = f"{TABLE_NAMES[draw.randrange(len(TABLE_NAMES))]}_{number}"
        self.story: list[str] = []
        formats = random.Random(f"{seed}-{number}-formats")
        self.history_written = formats.choice(WRITTEN)
        self.final_written = formats.choice(WRITTEN)
        # A name of Iceberg's own.
        names = [name for name in COLUMN_NAMES if name != "_file"]
        self.free_names = draw.sample(names, len(names))
        self.taken: set[str] = set()
        self.keys = [self.new_column(list(KEY_VALUES)) for _ in range(draw.choice([1, 1, 2, 3]))]
        self.others = [self.new_column(list(CHAINS)) for _ in range(draw.randint(2, 4))]
        if draw.random() < 0.5:
            self.others[-1].is_declared = self.others[-1].was_declared = False
        self.has_history = draw.random() < 0.7
        self.is_view = self.has_history and draw.random() < 0.15
        self.arrival: str | None = draw.choice([None, "batch_", "batch_"])
        self.sequence: str | list[str] = draw.choice(["seq_", "seq_", ["hi_", "lo_"]])
        self.operation = "op_"
        self.where: str | None = None
        self.has_time = draw.random() < 0.4
        self.leaves_out = draw.random() < 0.5
        self.tracked: list[Column] | None = None
        if self.has_history and draw.random() < 0.3:
            self.tracked = [self.others[0]]
        self.partial = draw.choice([None, None, None, "changed", "nulls", "some nulls"])
        # Changes for one build, and expressions over them.
        self.spelled: dict[Column, str] = {}
        self.key_names_changed = False

        self.round = 0
        self.batch = 0
        self.positions: set[int] = set()
        self.waiting: dict[int, list[Event]] = {}
        self.raw: list[tuple[int, Event]] = []
        self.mark = 0
        self.reads_all = False
        self.lost_events = False
        self.exists = False
        self.final_exists = False
        self.known: Known = {}
        self.columns: list[Column] = []
        self.built_names: dict[Column, str] = {}
        self.saved: list[Saved] = []
        self.versions: set[Version] | None = None
        self.current: set[Version] | None = None
        self.refusal: Refusal | None = None
        self.refused_columns: list[Column] = []  # which no raw table has

    def new_column(self, families: list[str]) -> Column:
        return Column([self.new_name()], self.draw.choice(families))

    def new_name(self) -> str:
        """A name that no column of the table has or had."""
        while True:
            name = self.free_names.pop()
            if name.casefold() not in self.taken:
                self.taken.add(name.casefold())
                return name

    # The names of its parts.

    @property
    def staging(self) -> str:
        return f"stg_{self.name}"

    @property
    def history(self) -> str:
        return f"{self.name}_history"

    @property
    def final(self) -> str:
        return f"{self.name}_final"

    @property
    def raw_table(self) -> str:
        return f"raw_{self.name}"

    @property
    def memory(self) -> str:
        """The table that remembers the events."""
        return self.history if self.has_history else self.final

    def is_lake(self, name: str) -> bool:
        """Whether its history or its final table is one of Iceberg.

        Args:
            name: Which of them.
        """
        if name == self.final and self.is_view:
            return False
        written = self.history_written if name == self.history else self.final_written
        return bool(written["file_format"] == "iceberg")

    @property
    def in_lake(self) -> bool:
        """Whether any of its tables is one of Iceberg."""
        names = [self.final, *([self.history] if self.has_history else [])]
        return any(self.is_lake(name) for name in names)

    def at(self, name: str) -> str:
        """The full name of its history or its final table; `{s}` in it is the schema."""
        return f"{CATALOG}.{{s}}.{name}" if self.is_lake(name) else f"{{s}}.{name}"

    @property
    def nodes(self) -> list[str]:
        return [self.staging, *([self.history] if self.has_history else []), self.final]

    @property
    def declared(self) -> list[Column]:
        return [column for column in self.others + self.refused_columns if column.is_declared]

    # What the project's files say.

    def spelled_name(self, column: Column) -> str:
        return self.spelled.get(column, column.name)

    def source(self) -> dict[str, Any]:
        """The declaration, as dbt's YAML has it."""
        cdc: dict[str, Any] = {
            "format": "flagged",
            "keys": [column.name for column in self.keys],
            "sequence_by": self.sequence,
            "operation": self.operation,
        }
        present = self.keys + self.declared
        renames = {c.name: c.names[-2::-1] for c in present if len(c.names) > 1}
        cdc |= {"renames": renames} if renames else {}
        cdc |= {"arrival": self.arrival} if self.arrival else {}
        cdc |= {"where": self.where} if self.where else {}
        cdc |= {"event_time": "timestamp_seconds(at_)"} if self.has_time else {}
        cdc |= {} if self.has_history else {"history": False}
        if self.tracked is not None:
            cdc["track_history_columns"] = [column.name for column in self.tracked]
        if self.partial == "changed":
            cdc["changed_columns"] = "changed_"
        elif self.partial:
            ignoring = [column.name for column in self.ignoring]
            cdc["ignore_null_updates"] = True if self.partial == "nulls" else ignoring
        listed = list(present)
        dropped = [c for c in self.others if c.was_declared and not c.is_declared]
        if dropped and self.leaves_out:
            listed += dropped
            cdc["except_columns"] = [column.name for column in dropped]
        return {
            "name": self.name,
            "identifier": self.raw_table,
            "config": {"meta": {"cdc": cdc}},
            "columns": [{"name": self.spelled_name(c), "data_type": c.kind} for c in listed],
        }

    @property
    def ignoring(self) -> list[Column]:
        """Columns in which NULL is no value."""
        if self.partial == "nulls":
            return self.declared
        return [c for c in self.declared[:1]] if self.partial == "some nulls" else []

    @property
    def key_names(self) -> list[str]:
        return [column.name for column in self.keys]

    def snapshot(self) -> dict[str, Any]:
        config = {"strategy": "cdc.scd2", "unique_key": self.key_names} | self.history_written
        return {"name": self.history, "relation": f"ref('{self.staging}')", "config": config}

    def models(self) -> dict[str, str]:
        """The files of its models, by name."""
        written = ", ".join(f"{name}={value!r}" for name, value in self.final_written.items())
        config = (
            "materialized='view'"
            if self.is_view
            else "materialized='incremental', incremental_strategy='merge',"
            f" unique_key={self.key_names!r}, {written}"
        )
        read = self.history if self.has_history else self.staging
        return {
            f"{self.staging}.sql": f"{{{{ cdc.events(source('app', '{self.name}')) }}}}",
            f"{self.final}.sql": (
                f"{{{{ config({config}) }}}}\n{{{{ cdc.current(ref('{read}')) }}}}\n"
            ),
        }

    # Events.

    def control_columns(self) -> dict[str, str]:
        return {
            "op_": "string",
            "seq_": "bigint",
            "hi_": "bigint",
            "lo_": "int",
            "at_": "bigint",
            "changed_": "array<string>",
            "batch_": "int",
        }

    def raw_columns(self) -> dict[str, str]:
        """Columns of the raw table: one for each name that a column had."""
        named = {name: c.raw_kind for c in self.keys + self.others for name in c.names}
        return named | self.control_columns()

    def create_raw(self) -> None:
        """Creates the raw table, to which columns of any type can be added."""
        columns = ", ".join(f"{quoted(n)} {kind}" for n, kind in self.raw_columns().items())
        self.sql(
            f"create table {{s}}.{self.raw_table} ({columns}) using delta"
            " tblproperties ('delta.feature.timestampNtz' = 'supported')"
        )

    def raw_row(self, event: Event) -> tuple[Any, ...]:
        """An event as the raw table holds it."""
        held = {event.names[c]: c.raw_value(value) for c, value in event.values.items()}
        changed = None if event.changed is None else sorted(event.names[c] for c in event.changed)
        control = {
            "op_": event.op,
            "seq_": event.position,
            "hi_": event.position // STEP,
            "lo_": event.position % STEP,
            "at_": event.position,
            "changed_": changed,
            "batch_": self.batch,
        }
        row = held | control
        return tuple(row.get(name) for name in self.raw_columns())

    def draw_event(self) -> Event:
        draw = self.draw
        op = draw.choices("IUDT", [3, 6, 2, 0.3])[0]
        names = {column: column.name for column in self.keys + self.others}
        position = draw.choice(
            [
                p
                for p in range(self.round * STEP, self.round * STEP + STEP)
                if p not in self.positions
            ]
        )
        values: dict[Column, Any] = {}
        if op == "T":
            self.positions.add(position)
            return Event(position, op, values, names, None)
        for column in self.keys:
            values[column] = draw.choice(KEY_VALUES[column.family][:3])
        if op == "D" and draw.random() < 0.2 and self.positions:
            position = max(self.positions)  # after an upsert at the same position
        self.positions.add(position)
        changed = None
        if op == "D":
            return Event(position, op, values, names, None)
        for column in self.others:
            values[column] = self.draw_value(column)
        if self.partial == "changed" and op == "U" and draw.random() < 0.7:
            changed = frozenset(c for c in self.others if draw.random() < 0.5)
            for column in self.others:
                if column not in changed:
                    values[column] = None
        return Event(position, op, values, names, changed)

    def draw_value(self, column: Column) -> Any:
        steps = CHAINS[column.family][: column.width + 1]
        return self.draw.choice([value for _, values in steps for value in values[:3]] + [None])

    def arriving(self) -> list[Event]:
        """The events of a round: new ones, late ones, and some once more."""
        draw = self.draw
        for _ in range(draw.choice([0, 1, 3, 6, 10])):
            event = self.draw_event()
            late = draw.randint(1, 3) if draw.random() < 0.2 else 0
            again = [draw.randint(late, late + 3)] if draw.random() < 0.15 else []
            for delay in [late, *again]:
                self.waiting.setdefault(self.round + delay, []).append(event)
        return self.waiting.pop(self.round, [])

    def said(self, event: Event, column: Column) -> Any:
        """What an event says of a column, as it is declared now."""
        value = event.values.get(column)
        if event.changed is not None and column not in event.changed:
            return UNSET
        return UNSET if value is None and column in self.ignoring else value

    # What a build makes of them.

    def read(self, events: Iterable[Event]) -> None:
        for event in events:
            said = self.known.setdefault(event, {})
            for column in self.columns:
                if column.is_declared:
                    said[column] = self.said(event, column)
                else:
                    said.setdefault(column, None)

    def build_memory(
        self, full: bool = False, empty: bool = False, is_sample: bool = False
    ) -> None:
        """What a build makes of the history, or of the final table that has none."""
        # A view may show the columns of before.
        self.current = None
        if empty:
            if not self.exists:
                self.exists, self.known, self.columns = True, {}, list(self.declared)
                self.reads_all, self.saved = True, []
                # dbt samples only what has an event time of dbt's own: here a sample is the whole.
                self.versions = None if is_sample else set()
                self.built_names = {c: c.name for c in self.keys + self.columns}
            return
        anew = not self.exists or (full and not self.has_history)
        if anew:
            self.columns = []
        if anew or full:
            self.known = {}
        if not self.exists:
            self.saved = []
        self.exists = True
        self.columns += [column for column in self.declared if column not in self.columns]
        whole = anew or full or self.reads_all or not self.arrival
        self.read(event for batch, event in self.raw if whole or batch > self.mark)
        self.mark, self.reads_all = self.batch, False
        tracked = self.columns if self.tracked is None else self.tracked
        self.versions = fold(self.known, self.keys, self.columns, tracked)
        self.rename_columns()

    def rename_columns(self) -> None:
        """The columns of the history are named as they are declared now."""
        self.current = None
        self.built_names = {column: column.name for column in self.keys + self.columns}

    def is_refused_for(self, names: list[str]) -> bool:
        """Whether a final table with columns of these names has some that its history lacks."""
        known = {name.lower() for column in self.keys + self.columns for name in column.names}
        others = {name.lower() for name in names} - known
        return self.has_history and any(not name.startswith("_cdc_") for name in others)

    def build_final(self) -> None:
        """What a build makes of the final table."""
        self.final_exists = True
        if self.versions is not None:
            self.current = {v for v in self.versions if v.seq_end is None}

    def would_lose(self) -> bool:
        """Whether a rebuild would remove versions."""
        there = {
            (tuple(normal(event.values[c]) for c in self.keys), event.position)
            for _, event in self.raw
            if event.op in "IU"
        }
        tracked = self.columns if self.tracked is None else self.tracked
        versions = fold(self.known, self.keys, self.columns, tracked)
        return any((v.key, v.seq) not in there for v in versions)

    # How the rows are read.

    def query(self, table: str) -> str:
        """Rows of a table in the order of `Version`, without keys and values apart."""

        def position(name: str) -> str:
            parts = f"{name}.part_1 * {STEP} + {name}.part_2"
            return name if isinstance(self.sequence, str) else parts

        created = "unix_seconds(_cdc_created_at)" if self.has_time else position("_cdc_created_at")
        names = [quoted(self.built_names[column]) for column in self.keys + self.columns]
        if table == self.history:
            positions = [position("_seq"), position("_seq_end"), created, position("_cdc_seq")]
        else:
            positions = [created, position("_cdc_seq")]
        living = " where _cdc_deleted_at is null" if table == self.final == self.memory else ""
        return f"select {', '.join(names + positions)} from {self.at(table)}{living}"

    def expected(self, table: str) -> list[tuple[Any, ...]] | None:
        """The rows that a table has to hold; None where nobody knows."""
        if table == self.history:
            found = self.versions
            rows = [
                (*v.key, *v.values, v.seq, v.seq_end, v.created, v.changed) for v in found or ()
            ]
        else:
            found = self.current
            rows = [(*v.key, *v.values, v.created, v.changed) for v in found or ()]
        return None if found is None else rows
