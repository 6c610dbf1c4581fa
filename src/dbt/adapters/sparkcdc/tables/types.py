"""Types as Spark writes them, and what brings a table's columns to the declared ones in place."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dbt_spark_cdc.words import quoted, quoted_if_needed

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

# Digits that an integer can have.
INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
# Where the values of remembered events are, for the columns whose values a row does not tell.
IMAGES = "_events.element._image"
# Beside integers and decimals. https://docs.delta.io/latest/delta-type-widening.html
WIDER = {
    "tinyint": "double",
    "smallint": "double",
    "int": "double",
    "float": "double",
    "date": "timestamp_ntz",
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


@dataclass(frozen=True)
class SparkType:
    """A type.

    Attributes:
        text: As it was written.
        fields: Types by name, of a struct; None of any other type.
        item: Type of an array's elements; None of any other type.
    """

    text: str
    fields: dict[str, SparkType] | None = None
    item: SparkType | None = None


@dataclass(frozen=True)
class Rename:
    """A column, or a field of the images, gets another name."""

    place: str
    name: str

    def __str__(self) -> str:
        return f"rename column {self.place} to {quoted(self.name)}"


@dataclass(frozen=True)
class Add:
    """A column or a field is added."""

    place: str
    type: str

    def __str__(self) -> str:
        return f"{self.place} {self.type}"


@dataclass(frozen=True)
class Widen:
    """A column or a field gets a wider type."""

    place: str
    type: str

    def __str__(self) -> str:
        return f"alter column {self.place} type {self.type}"


Change = Rename | Add | Widen


@dataclass
class Evolution:
    """What becomes of a table's columns.

    Attributes:
        changes: In the order in which they are to be made.
        problems: What the table's format cannot do in place, for people: column and reason.
    """

    changes: list[Change] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def text_of(data_type: DataType) -> str:
    """Returns a type as SQL takes it. `simpleString` writes names of fields without quotes.

    Args:
        data_type: The type.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(data_type, StructType):
        named = ((field.name, text_of(field.dataType)) for field in data_type.fields)
        fields = (f"{quoted_if_needed(n)}:{kind}" for n, kind in named)
        return f"struct<{','.join(fields)}>"
    if isinstance(data_type, ArrayType):
        return f"array<{text_of(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"map<{text_of(data_type.keyType)},{text_of(data_type.valueType)}>"
    return data_type.simpleString()


def parse(text: str) -> SparkType:
    """Reads a type, as `text_of` and declarations write it: `struct<a:int,b:array<string>>`.

    Args:
        text: The type. One that holds no others is not looked into.
    """
    text = text.strip()
    outer, opened, inner = text.partition("<")
    if not opened or not text.endswith(">"):
        return SparkType(text)
    inner = inner[:-1]
    if outer.lower() == "array":
        return SparkType(text, item=parse(inner))
    if outer.lower() == "struct":
        parts = [_divided(part, ":") for part in _divided(inner, ",") if part.strip()]
        fields = {_plain(name): parse(":".join(rest)) for name, *rest in parts}
        return SparkType(text, fields=fields)
    return SparkType(text)


def is_wider(known: str, wanted: str) -> bool:
    """Returns whether Delta changes a type to another in place, without touching its files.

    Args:
        known: A type without parts.
        wanted: Another one.
    """
    known, wanted = known.lower(), wanted.lower()
    if known in INTEGERS and wanted in INTEGERS:
        return INTEGERS[wanted] > INTEGERS[known]
    decimal = _DECIMAL.fullmatch(wanted)
    if decimal is None:
        return WIDER.get(known) == wanted
    digits, scale = int(decimal[1]), int(decimal[2])
    if known in INTEGERS:
        return digits - scale >= INTEGERS[known]
    former = _DECIMAL.fullmatch(known)
    if former is None:
        return False
    more = scale - int(former[2])
    return more >= 0 and digits - int(former[1]) >= more


def evolution(
    known: Mapping[str, str],
    wanted: Mapping[str, str],
    images: Collection[str] = (),
    renames: Mapping[str, Sequence[str]] | None = None,
    widens: Callable[[str, str], bool] = is_wider,
) -> Evolution:
    """Returns what brings a table's columns to the declared ones, by its metadata alone.

    A column that is not declared any more stays, and so does a field. What an earlier run did not
    get to is found again.

    Args:
        known: The table's columns: name to type.
        wanted: The declared ones.
        images: Those of them that remembered events keep, too.
        renames: Name to former names.
        widens: Whether the table's format changes a type to another in place.
    """
    found = Evolution()
    for name, kind in wanted.items():
        _of_column(found, known, "", name, kind, (renames or {}).get(name, ()), widens)
    if images:
        remembered = _fields_at(parse(known["_events"]), "_image")
        kept = {name: kind for name, kind in wanted.items() if name in images}
        if remembered is None:
            fields = ", ".join(f"{quoted(name)}: {kind}" for name, kind in kept.items())
            found.changes.append(Add(IMAGES, f"struct<{fields}>"))
        else:
            for name, kind in kept.items():
                former = (renames or {}).get(name, ())
                _of_column(found, remembered, f"{IMAGES}.", name, kind, former, widens)
    # A column has its new name when it is widened or gets a field.
    order = {Rename: 0, Add: 1, Widen: 2}
    found.changes.sort(key=lambda change: order[type(change)])
    found.problems[:] = dict.fromkeys(found.problems)
    return found


def plain_statements(table: str, changes: Sequence[Change]) -> Iterator[str]:
    """Yields the statements that make changes to a table of a format which needs no preparation.

    Args:
        table: Its name in SQL.
        changes: See `Evolution`.
    """
    for change in changes:
        added = isinstance(change, Add)
        yield f"alter table {table} {f'add columns ({change})' if added else change}"


def statements(table: str, changes: Sequence[Change], is_mapped: bool) -> Iterator[str]:
    """Yields the statements that make changes.

    Args:
        table: Its name in SQL.
        changes: See `Evolution`.
        is_mapped: Whether Delta maps the table's names already, so that columns can be renamed.
    """
    renamed = [change for change in changes if isinstance(change, Rename)]
    added = [change for change in changes if isinstance(change, Add)]
    widened = [change for change in changes if isinstance(change, Widen)]
    if renamed and not is_mapped:
        yield f"alter table {table} set tblproperties ('delta.columnMapping.mode' = 'name')"
    yield from (f"alter table {table} {change}" for change in renamed)
    if any("timestamp_ntz" in change.type.lower() for change in added + widened):
        # Delta turns this on by itself in a new table only.
        yield f"alter table {table} set tblproperties ('delta.feature.timestampNtz' = 'supported')"
    if added:
        yield f"alter table {table} add columns ({', '.join(map(str, added))})"
    if widened:
        yield f"alter table {table} set tblproperties ('delta.enableTypeWidening' = 'true')"
    yield from (f"alter table {table} {change}" for change in widened)


def _of_column(
    found: Evolution,
    known: Mapping[str, str],
    prefix: str,
    name: str,
    kind: str,
    former_names: Sequence[str],
    widens: Callable[[str, str], bool],
) -> None:
    """Adds what becomes of one declared column at one place."""
    spelled = {other.lower(): other for other in known}
    present = spelled.get(name.lower())
    if present is None:
        present = next((spelled[n.lower()] for n in former_names if n.lower() in spelled), None)
        if present is None:
            found.changes.append(Add(prefix + quoted(name), kind))
            return
        found.changes.append(Rename(prefix + quoted(present), name))
    elif present != name:
        found.problems.append(
            f"column `{present}` is now declared as `{name}`. For Spark that is the same name, but"
            f" events are distinguished by it. Declare it as `{present}`."
        )
        return
    before = parse(known[present])
    if not _of_type(found.changes, prefix + quoted(name), before, parse(kind), widens):
        found.problems.append(
            f"column `{name}` is {before.text} and is now declared as {kind}, which the"
            " table's format cannot widen it to. Undo the change: values that do not fit are"
            " quarantined, and `dbt run-operation cdc_replay` reads them again."
        )


def _of_type(
    changes: list[Change],
    place: str,
    known: SparkType,
    wanted: SparkType,
    widens: Callable[[str, str], bool],
) -> bool:
    """Adds what brings a type to another in place. Returns whether that is all there is to it."""
    if known.text.lower() == wanted.text.lower():
        return True
    if known.fields is not None and wanted.fields is not None:
        there = {name.lower(): kind for name, kind in known.fields.items()}
        is_all = True
        for name, kind in wanted.fields.items():
            inner = f"{place}.{quoted(name)}"
            if name.lower() not in there:
                changes.append(Add(inner, kind.text))
            elif not _of_type(changes, inner, there[name.lower()], kind, widens):
                is_all = False
        return is_all
    if known.item is not None and wanted.item is not None:
        return _of_type(changes, f"{place}.element", known.item, wanted.item, widens)
    if widens(known.text, wanted.text):
        changes.append(Widen(place, wanted.text))
        return True
    return False


def _fields_at(events: SparkType, name: str) -> dict[str, str] | None:
    """The fields of a struct within the elements of an array: name to type; None without it."""
    outer = events.item and events.item.fields
    inner = outer.get(name) if outer else None
    if inner is None or inner.fields is None:
        return None
    return {name: kind.text for name, kind in inner.fields.items()}


def _divided(text: str, mark: str) -> list[str]:
    """Parts of a text between marks that stand in no brackets and no quotes."""
    parts, depth, is_quoted = [""], 0, False
    for letter in text:
        if letter == "`":
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (letter in "<(") - (letter in ">)")
        if letter == mark and not depth and not is_quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _plain(name: str) -> str:
    """The name of a field, without the quotes that it may be written with."""
    name = name.strip()
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
