"""`cdc describe`: what a sample of changes is, and the declaration that fits it."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import combinations
from pathlib import PurePath
from typing import Any, NamedTuple

from dbt_spark_cdc import words
from dbt_spark_cdc.generate.config_table import ARTICLE, HEADER, Column, TableConfig
from dbt_spark_cdc.generate.project_files import (
    Layout,
    files_of,
    final_sql,
    snapshot_yaml,
    staging_sql,
    table_lines,
)
from dbt_spark_cdc.generate.yaml_text import inline
from dbt_spark_cdc.samples.recognise import (
    DELTA_CDF_COLUMNS,
    FORMATS,
    Change,
    Recognised,
    tables_of,
)
from dbt_spark_cdc.samples.records import Sample
from dbt_spark_cdc.samples.source_types import of_values

# Formats that may come as JSON text in a column; the others are read as columns.
AS_TEXT = set(words.FORMATS) - {"flagged", "delta_cdf"}
TEXTS_ONLY = {"canal", "change_event"}
KEY_COLUMNS = 3
# Stands where the sample does not show what is needed; such a declaration is a comment.
TODO = "TODO"
# What the landing model writes beside the events.
LANDED = {"_table", "_file", "_row", "_batch", "_problem"}
# What a landing model of messages writes as well, and what Debezium has in it.
MESSAGES = {"key", "headers", "topic"}
KEYS_OF_MESSAGES = {
    "message_key": "key",
    "old_key": "get(filter(headers, h -> h.key = '__debezium.oldkey'), 0).value",
}
_KEY_NAME = re.compile(r"(id|uuid|key|pk|no|nr|code|sku)", re.I)
_ORDER_NAME = re.compile(
    r"(.*_)?(seq|sequence|sequencenum|scn|csn|lsn|position|pos|offset|version)(_?(no|nr|num|number))?",
    re.I,
)
_TIME_NAME = re.compile(
    r"(cdc|change|changed|commit|committed|event|op|source|transact|update|updated|modified)"
    r"[_ ]?(ts|time|timestamp|at|on|date)?"
    r"|ts|timestamp|.*_ts|.*timestamp|.*updated_at|.*changed_at",
    re.I,
)
_TIMES = ("timestamp", "timestamp_ntz")


class Proposal(NamedTuple):
    """The declaration of one table, and why it is so.

    Attributes:
        config: What a row of the CONFIG table would give.
        notes: What it rests on, and what to look at.
        is_open: Whether it lacks something that the sample does not show.
    """

    config: TableConfig
    notes: list[str]
    is_open: bool = False


def propose(sample: Sample, found: Recognised, system: str = "") -> list[Proposal]:
    """Returns a declaration for each table of a sample.

    Args:
        sample: Records of a file or table.
        found: What they were recognised as.
        system: Name of the dbt source; empty: the schema or database that the events name.
    """
    tables = tables_of(found.changes)
    return [
        _propose(sample, found, table, system, routed=len(tables) > 1)
        for table in tables
        if any(change.after or change.before for change in found.changes if change.table == table)
    ]


def _propose(sample: Sample, found: Recognised, table: str, system: str, routed: bool) -> Proposal:
    changes = [change for change in found.changes if change.table == table]
    ops = Counter(change.op for change in changes)
    counted = ", ".join(f"{op} {ops[op]}" for op in "IUDT" if ops[op])
    notes = [f"{len(changes)} change{'s' * (len(changes) != 1)}: {counted}"]
    bare = sum(change.op != "T" and not (change.after or change.before) for change in changes)
    if bare:
        notes.append(f"{bare} of them name no row: only a message key could tell which")
    types, guessed = _types(sample, found.format, changes)
    order = _order(changes, types) if found.operation else []
    ordered = _in_order(changes, order, types)
    others = usable_names(types)
    # Rows are columns of the raw table already; whoever declares them may choose the name.
    usable = others if not found.operation and found.format in AS_TEXT else {}
    fit = [name for name in types if words.can_be_column(name) or name in usable]
    keys, how = _keys(ordered, fit, identifier_of(table or sample.name))
    notes.append(how)
    declaration: dict[str, Any] = {
        "format": found.format,
        "keys": [usable.get(key, key) for key in keys],
    }
    if usable:
        declaration["renames"] = {new: name for name, new in usable.items()}
    if sample.payload == "value" and set(sample.beside) >= LANDED:
        declaration["landed"] = True
        if found.format == "debezium" and set(sample.beside) >= MESSAGES:
            declaration |= KEYS_OF_MESSAGES
        declaration |= _landed_as(sample, found, table)
    elif not found.operation and _is_text(sample) and found.format in AS_TEXT:
        declaration["payload"] = sample.payload or "value"
    if found.operation:
        declaration |= _row_images(sample, found, changes, order, types, notes)
    else:
        declaration |= _positions(sample, found, declaration, notes)
    if routed and "payload" in declaration and found.format != "change_event":
        declaration["source_table"] = table
    left_out = (set(order) if declaration.get("sequence_by") != TODO else set()) - set(keys)
    if left_out:
        notes.append(
            f"{', '.join(sorted(left_out))} orders the events and is left out of the tables; add "
            "it to the columns if it means something there"
        )
    unfit = set(types) - set(fit)
    notes += _unfit_notes([name for name in types if name in unfit], others)
    notes += as_renamed(usable)
    if unfit & set(keys):
        listed = ", ".join(key for key in keys if key in unfit)
        notes.append(f"keys: TODO: {listed} has no place in the tables. Rename it in the events")
    if guessed:
        notes.append(f"types guessed from values: {', '.join(guessed)}")
    columns = tuple(
        Column(usable.get(name, name), types[name])
        for name in types
        if name not in left_out | unfit
    )
    is_open = declaration.get("sequence_by") == TODO or bool(unfit & set(keys))
    return Proposal(_config(sample, table, system, declaration, columns), notes, is_open)


def _unfit_notes(unfit: Sequence[str], others: Mapping[str, str]) -> Iterator[str]:
    """Says of each column that cannot be declared how to declare it under another name."""
    for name in unfit:
        renames = inline({"renames": {others[name]: name}})[1:-1] if name in others else ""
        remedy = f"; declare it as {others[name]}, with {renames}" if renames else ""
        yield f"{name} is left out: {words.NO_COLUMN}{remedy}"


def usable_names(names: Collection[str]) -> dict[str, str]:
    """Returns a name for each column whose own has a character that no column can have.

    A reserved name gets none: `renames` would find it among the package's own columns.

    Args:
        names: All columns that the events have.
    """
    taken = {name.lower() for name in names}
    usable = {}
    for name in names:
        new = re.sub(r"\W+", "_", name).strip("_").lower()
        if not words.NOT_IN_COLUMN.search(name) or words.is_reserved(name):
            continue
        if new and new not in taken and words.can_be_column(new):
            usable[name] = new
            taken.add(new)
    return usable


def as_renamed(usable: Mapping[str, str]) -> list[str]:
    """Returns the notes on columns that the tables have by another name than the events.

    Args:
        usable: What `usable_names` returned.
    """
    return [f"{name} is read as {new}: {words.NO_COLUMN}" for name, new in usable.items()]


def _landed_as(sample: Sample, found: Recognised, table: str) -> dict[str, str]:
    """What selects the events of a table whose name alone does not: of another name or topic."""
    if not table or not sample.rows:
        return {}
    names: dict[str, set[str]] = {}
    for record, row in zip(sample.records, sample.rows, strict=True):
        for change in FORMATS[found.format].changes(record):
            names.setdefault(str(row["_table"]), set()).add(change.table)
    own = [name for name, tables in names.items() if table in tables]
    if own == [identifier_of(table.rpartition(".")[2])] and names[own[0]] == {table}:
        return {}
    listed = ", ".join("'" + name.replace("\\", r"\\").replace("'", r"\'") + "'" for name in own)
    where = f"_table = {listed}" if len(own) == 1 else f"_table in ({listed})"
    return {"where": where, "source_table": table}


def _is_text(sample: Sample) -> bool:
    """Whether the events are JSON text: in a file of lines, or in a column."""
    return bool(sample.payload) or sample.kind == "json"


def _config(
    sample: Sample,
    table: str,
    system: str,
    declaration: Mapping[str, Any],
    columns: tuple[Column, ...],
) -> TableConfig:
    owner, _, name = (table or sample.name).rpartition(".")
    if not table and sample.kind != "table":
        owner, name = "", sample.name
    in_spark = sample.kind == "table"
    raw = sample.name.rpartition(".")
    return TableConfig(
        table=identifier_of(name),
        system=identifier_of(system or owner.rpartition(".")[2] or "raw"),
        schema=raw[0] if in_spark else "",
        raw_table=raw[2] if in_spark else identifier_of(name),
        declaration=declaration,
        columns=columns,
        partition="",
        history=True,
        description="",
        tags=(),
        depends_on=(),
        freshness={},
    )


def identifier_of(text: str) -> str:
    """Returns a file's or table's name as an identifier: `orders.jsonl.gz` is `orders`.

    Args:
        text: The name.
    """
    plain = PurePath(text).name.partition(".")[0] if "/" in text or "." in text else text
    plain = re.sub(r"\W", "_", plain, flags=re.ASCII).strip("_").lower() or "events"
    return f"t_{plain}" if plain[0].isdigit() else plain


def _types(
    sample: Sample, format_name: str, changes: Sequence[Change]
) -> tuple[dict[str, str], list[str]]:
    """Type by column in the order of appearance, and the columns whose type is a guess."""
    stated: dict[str, str] = {}
    values: dict[str, list[Any]] = {}
    for change in changes:
        stated.update(change.types)
        for name, value in [*change.after.items(), *change.before.items()]:
            values.setdefault(name, []).append(value)
    if not _is_text(sample) and format_name in ("flagged", "dms", "delta_cdf"):
        stated = dict(sample.types)
    texts = (sample.kind == "csv" and not sample.payload) or format_name in TEXTS_ONLY
    types = {}
    guessed = []
    for name, given in values.items():
        if name.startswith("__") or name in DELTA_CDF_COLUMNS:
            continue
        if format_name == "dms" and name.startswith("BI_"):  # the before image of a column
            continue
        types[name] = stated.get(name) or of_values(given, texts) or "string"
        if not stated.get(name):
            empty = not any(value is not None for value in given)
            guessed.append(f"{name} (never filled)" if empty else name)
    return types, guessed if len(guessed) < len(types) or not guessed else ["all"]


def _keys(changes: Sequence[Change], columns: Sequence[str], table: str) -> tuple[list[str], str]:
    """The key, and how it was found."""
    named = Counter(change.keys for change in changes if change.keys)
    if named:
        stated, count = named.most_common(1)[0]
        how = f"keys: {', '.join(stated)}, named by {count} events"
        if len(named) > 1:
            others = " and ".join(f"({', '.join(o)})" for o in named if o != stated)
            how += f"; others name {others}: check"
        return list(stated), how
    keys = _keys_of_deletes(changes) or _keys_by_value(changes, columns, table)
    if keys:
        return keys, f"keys: {', '.join(keys)}, a guess: no event names its key"
    return [], "keys: none found, no column tells the rows apart; name them if there are some"


def _keys_of_deletes(changes: Sequence[Change]) -> list[str]:
    """Where a delete carries the key only, the columns that all deletes fill."""
    images = [change.before or change.after for change in changes if change.op == "D"]
    images = [image for image in images if image]
    if not images:
        return []
    filled = [name for name in images[0] if all(i.get(name) is not None for i in images)]
    others = {name for change in changes for name in change.after} - set(filled)
    # A column that no delete fills and other events do: the deletes hold the key, not the row.
    bare = any(all(image.get(name) is None for image in images) for name in others)
    keys = [n for n in filled if not (_ORDER_NAME.fullmatch(n) or _TIME_NAME.fullmatch(n))]
    return keys if bare and len(keys) <= KEY_COLUMNS else []


def _keys_by_value(changes: Sequence[Change], columns: Sequence[str], table: str) -> list[str]:
    """The likeliest columns that are always there and that living rows do not share."""
    rows = [change for change in changes if change.after or change.before]
    images = [change.after or change.before for change in rows]
    singular = table.rstrip("s")

    def rank(name: str) -> tuple[int, int]:
        lowered = name.lower()
        own = lowered in ("id", f"{table}_id", f"{singular}_id", f"{singular}id")
        like = any(_KEY_NAME.fullmatch(part) for part in re.split(r"_|(?<=[a-z])(?=[A-Z])", name))
        return (0 if own else 1 if like else 2, columns.index(name))

    filled = sorted(
        (
            name
            for name in columns
            if images
            and all(_is_key_value(image.get(name)) for image in images)
            and not _ORDER_NAME.fullmatch(name)
            and not _TIME_NAME.fullmatch(name)
        ),
        key=rank,
    )
    for size in range(1, KEY_COLUMNS + 1):
        for names in combinations(filled[:6], size):
            if rank(names[0])[0] < 2 and _tells_apart(rows, names):
                return list(names)
    return []


def _is_key_value(value: Any) -> bool:
    return value is not None and not isinstance(value, (float, dict, list, bool))


def _tells_apart(rows: Sequence[Change], names: Sequence[str]) -> bool:
    """Whether no insert takes the key of another row that lives."""
    living: dict[tuple[Any, ...], Any] = {}
    for change in rows:
        image = change.after or change.before
        key = tuple(image.get(name) for name in names)
        # The same row inserted again was delivered twice, or read by a snapshot.
        if change.op == "I" and key in living and living[key] != image:
            return False
        # A value that no key can have, such as a list, is of no row that lives.
        if change.op == "U" and all(_is_key_value(change.before.get(name)) for name in names):
            living.pop(tuple(change.before[name] for name in names), None)
        if change.op == "D":
            living.pop(key, None)
        else:
            living[key] = image
    return True


def _order(changes: Sequence[Change], types: Mapping[str, str]) -> list[str]:
    """The column that orders row images: always filled, best a number, and named like one."""
    ranked = []
    for position, name in enumerate(types):
        number = _ORDER_NAME.fullmatch(name) is not None
        time = _TIME_NAME.fullmatch(name) is not None and types[name] != "string"
        filled = all(change.after.get(name) is not None for change in changes)
        if filled and (number or time):
            ranked.append((not number, position, name))
    return [min(ranked)[2]] if ranked else []


def _in_order(
    changes: Sequence[Change], order: Sequence[str], types: Mapping[str, str]
) -> Sequence[Change]:
    """Changes by the column that orders them: a table gives its rows in any order."""
    if not order:
        return changes
    name = order[0]
    textual = types[name].startswith(("date", "timestamp"))

    def position(change: Change) -> Any:
        value = change.after[name]
        return Decimal(value) if isinstance(value, str) and not textual else value

    try:
        return sorted(changes, key=position)
    except (ArithmeticError, TypeError):
        return changes


def _row_images(
    sample: Sample,
    found: Recognised,
    changes: Sequence[Change],
    order: Sequence[str],
    types: Mapping[str, str],
    notes: list[str],
) -> dict[str, Any]:
    """Options of a table whose rows are images with a flag."""
    options: dict[str, Any] = {"sequence_by": TODO}
    if order:
        name = order[0]
        expression, of = words.quoted_if_needed(name), types[name]
        if of in _TIMES:
            options["event_time"] = f"try_cast({expression} as timestamp)"
        if of == "timestamp_ntz":
            notes.append(
                f"order: not {name}, whose times have no zone: local time runs backwards when "
                "summer time ends. Name a column for TODO; if the times are UTC, write "
                f"try_cast({expression} as timestamp_ntz)"
            )
        else:
            options["sequence_by"] = _as_number(sample, changes, name, expression, of)
            notes.append(f"order: {name}, a guess from its name; ties need a second part")
    else:
        notes.append("order: no column found that orders the events. Name one for TODO")
    if found.format == "flagged":
        options["operation"] = words.quoted_if_needed(found.operation)
    return options


def _as_number(
    sample: Sample, changes: Sequence[Change], name: str, expression: str, of: str
) -> str:
    """A position that may be text in the raw table, as what it means: 10 comes after 9."""
    if of in _TIMES:
        return f"try_cast({expression} as {of})"
    digits = all(str(change.after.get(name)).strip().isdigit() for change in changes)
    if digits and (of == "string" or sample.kind == "csv"):
        return f"try_cast({expression} as decimal(38,0))"
    if sample.kind == "csv" and of != "string":
        return f"try_cast({expression} as {of})"
    return expression


def _positions(
    sample: Sample, found: Recognised, declaration: Mapping[str, Any], notes: list[str]
) -> dict[str, Any]:
    """Order and time of events that carry them, or what can stand for them."""
    known = FORMATS[found.format]
    records = [record for record in sample.records if known.changes(record)]
    options: dict[str, Any] = {}
    if not all(known.has_time(record) for record in records):
        options["event_time"] = False
        notes.append("time: the events carry no time of their commit; the history shows positions")
    if all(known.has_order(record) for record in records):
        notes.append("order: the events' own")
        return options
    beside = [name for name in sample.beside if _ORDER_NAME.fullmatch(name)]
    if declaration.get("landed"):
        options["sequence_by"] = ["_batch", "_file", "_row"]
        notes.append("order: that of the lines in the files, as the events carry no position")
    elif beside:
        options["sequence_by"] = words.quoted_if_needed(beside[0])
        notes.append(f"order: {beside[0]}, a guess from its name: the events carry no position")
    else:
        text = declaration.get("payload", "value")
        options["sequence_by"] = known.stand_in(records, text) or TODO
        notes.append(
            "order: the events carry no position. "
            + (
                "Their time is used instead and cannot order simultaneous events: name "
                "something better, such as Kafka's offset"
                if options["sequence_by"] != TODO
                else "Name what orders them for TODO, such as Kafka's offset"
            )
        )
    return options


def report(sample: Sample, found: Recognised, proposals: Sequence[Proposal]) -> Iterator[str]:
    """Yields the lines of the report: comments, the source YAML, and the three models.

    Args:
        sample: Records of a file or table.
        found: What they were recognised as.
        proposals: The declarations.
    """
    yield f"# {sample.name}: {found.format}, {found.sure}"
    yield from (f"#   {reason}" for reason in found.reasons)
    yield from (f"#   note: {note}" for note in sample.notes)
    if _is_text(sample) and found.format not in AS_TEXT:
        yield "#   note: it is read as columns: load the file with Spark's reader for JSON"
    for proposal in proposals:
        yield f"# {proposal.config.system}.{proposal.config.table}"
        yield from (f"#   {note}" for note in proposal.notes)
    if not proposals:
        yield "# No event holds a row: name a file with inserts or updates to get a declaration."
        return
    yield ""
    yield from yaml_lines(proposals)
    first = proposals[0].config
    paths = {file.defines: file.path for file in files_of(first, Layout())}
    for defines, text, sign in (
        (f"model.{first.staging}", staging_sql(first), "--"),
        (f"snapshot.{first.versions}", snapshot_yaml(first), "#"),
        (f"model.{first.table}", final_sql(first), "--"),
    ):
        yield ""
        yield f"{sign} {paths[defines]}"
        yield text.rstrip()
    if len(proposals) > 1:
        yield ""
        yield f"# and so for the other {len(proposals) - 1}; --row gives rows for cdc generate"


def no_format(sample: Sample) -> str:
    """Returns what to say of a sample that no format fits.

    Args:
        sample: Records of a file or table.
    """
    record = next((record for record in sample.records if isinstance(record, dict)), {})
    return (
        f"no change format fits {sample.name} ({len(sample.records)} records, the first with "
        f"{', '.join(list(record)[:12]) or 'nothing'}).\nThe formats are {', '.join(FORMATS)} and "
        "flagged. For rows with a flag, declare the format flagged, and name the column in "
        "`operation` or the conditions in `apply_as_deletes`."
    )


def yaml_lines(proposals: Sequence[Proposal]) -> Iterator[str]:
    """Yields the source YAML. Declarations that lack something are comments: the rest builds.

    Args:
        proposals: The declarations.
    """
    ready = [proposal for proposal in proposals if not proposal.is_open]
    if ready:
        yield from _source_lines(ready)
    if len(ready) < len(proposals):
        yield "# To be completed: see TODO."
        missing = [proposal for proposal in proposals if proposal.is_open]
        yield from (f"# {line}".rstrip() for line in _source_lines(missing))


def _source_lines(proposals: Sequence[Proposal]) -> Iterator[str]:
    yield "version: 2"
    yield ""
    yield "sources:"
    for system in dict.fromkeys(proposal.config.system for proposal in proposals):
        configs = [p.config for p in proposals if p.config.system == system]
        yield f"  - name: {inline(system)}"
        if configs[0].schema:
            yield f"    schema: {inline(configs[0].schema)}"
        yield "    tables:"
        for config in configs:
            yield from (f"      {line}" for line in table_lines(config))


def csv_rows(proposals: Sequence[Proposal]) -> str:
    """Returns the header and rows of a CONFIG table that declare the same.

    Args:
        proposals: The declarations.
    """
    rows = [_row(proposal.config) for proposal in proposals if not proposal.is_open]
    filled = {name for row in rows for name, value in row.items() if value}
    header = [name for name in HEADER if name in filled or name in ARTICLE]
    text = io.StringIO()
    writer = csv.DictWriter(text, header, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(config: TableConfig) -> dict[str, str]:
    declared = dict(config.declaration)
    sequence = declared.pop("sequence_by", "")
    row = {
        "table_name": config.table,
        "system": config.system,
        "schema": config.schema,
        "raw_table": "" if config.raw_table == config.table else config.raw_table,
        "keys": " ".join(declared.pop("keys")) or "none",
        "rank_expression": sequence if isinstance(sequence, str) else ", ".join(sequence),
        "is_insert_only": "false",
        "columns": ", ".join(f"{column.name} {column.data_type}" for column in config.columns),
    }
    others = {name: declared.pop(name) for name in list(declared) if name not in HEADER}
    if others:
        row["options"] = inline(others)
    return row | {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in declared.items()
    }
