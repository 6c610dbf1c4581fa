"""Reads the CONFIG table, seeds/cdc_tables.csv: a row a table, checked as a whole."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from dbt_spark_cdc import words
from dbt_spark_cdc.generate.sql_expression import fault, partition_fault

# The columns of the CONFIG table in "Simplifying Change Data Capture with Databricks Delta".
ARTICLE = (
    "table_name",
    "partition_column_expression",
    "partition_column_alias",
    "rank_expression",
    "is_insert_only",
)
# Ours: where the events are, what they are, and what dbt shall know.
PLACE = ("system", "schema", "raw_table", "format", "keys", "columns")
# Options of the declaration that go into it as they are.
EXPRESSIONS = (
    "event_time",
    "apply_as_deletes",
    "apply_as_truncates",
    "where",
    "arrival",
    "origin",
)
COLUMN_LISTS = ("except_columns", "track_history_columns")
OPTIONS = (
    "operation",
    *EXPRESSIONS,
    "payload",
    "landed",
    "ignore_null_updates",
    *COLUMN_LISTS,
    "on_bad_event",
    "options",
)
DBT = (
    "description",
    "group",
    "tags",
    "history",
    "key_changes",
    "depends_on",
    "loaded_at_field",
    "warn_after",
    "error_after",
)
HEADER = (*ARTICLE, *PLACE, *OPTIONS, *DBT)
COLUMNS_HEADER = ("table_name", "column_name", "data_type", "system", "description")

_TRUE, _FALSE = {"true", "yes", "y", "1"}, {"false", "no", "n", "0"}
_RANK = re.compile(r"^\s*(partition\s+by\b.*\s)?order\s+by\b(?P<order>.*)$", re.I | re.S)
_DIRECTION = re.compile(r"\s+(?P<word>asc|desc)?(\s*nulls\s+(first|last))?\s*$", re.I)
_AGE = re.compile(r"\s*(\d+)\s*(minute|hour|day)s?\s*", re.I)


class BadConfig(Exception):
    """All that is wrong with the CONFIG table, a line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True)
class Column:
    """A declared column."""

    name: str
    data_type: str
    description: str = ""


@dataclass(frozen=True)
class TableConfig:
    """A row of the CONFIG table.

    Attributes:
        table: Name of the final table, and of the source table.
        system: Name of the dbt source.
        schema: Schema of the raw table; empty: dbt's default, the name of the source.
        raw_table: Name of the raw table.
        declaration: Options of `meta.cdc`, in the order in which they are written.
        columns: Columns with types.
        partition: Column that the final table is partitioned by, or empty.
        history: Whether every version is kept.
        description: What the table holds.
        tags: dbt tags; the group is the first.
        depends_on: Models that write the raw table.
        freshness: `loaded_at_field` and `freshness`, in dbt's words.
    """

    table: str
    system: str
    schema: str
    raw_table: str
    declaration: Mapping[str, Any]
    columns: tuple[Column, ...]
    partition: str
    history: bool
    description: str
    tags: tuple[str, ...]
    depends_on: tuple[str, ...]
    freshness: Mapping[str, Any]

    @property
    def staging(self) -> str:
        """Name of the staging model."""
        return f"stg_{self.system}__{self.table}"

    @property
    def keys_model(self) -> str:
        """Name of the model that follows rows through their keys; empty where keys never change."""
        return f"{self.table}_keys" if self.declaration.get("key_changes") else ""

    @property
    def versions(self) -> str:
        """Name of the snapshot."""
        return f"{self.table}_history"

    @property
    def unique_key(self) -> list[str]:
        """Key of history and final table."""
        return list(self.declaration["keys"]) or ["_row_id"]


def read_config(tables: Path, columns: Path | None = None) -> list[TableConfig]:
    """Reads the CONFIG table.

    Args:
        tables: The CSV of tables.
        columns: The CSV of columns, for tables that do not list them in their row.

    Raises:
        BadConfig: Something is wrong; all of it is reported at once.
    """
    problems: list[str] = []
    listed: dict[tuple[str, str], list[tuple[Column, str]]] = {}
    if columns is not None:
        listed = _listed_columns(columns, problems)
    rows = list(_rows(tables, HEADER, ("table_name",), problems))
    known: set[tuple[str, str]] = set()
    configs = []
    for number, row in rows:
        reader = _Row(row, f"{tables}, line {number} ({row['table_name'] or 'no name'}): ")
        table = row["table_name"].lower()
        # A row of the file of columns need not name the system.
        names = dict.fromkeys([(row["system"].lower(), table), ("", table)])
        known |= names.keys()
        own = [column for name in names for column, _ in listed.get(name, [])]
        configs.append((number, reader.read(own)))
        problems.extend(reader.problems)
    for name, entries in listed.items():
        if name not in known:
            problems.append(
                f"{entries[0][1]}table `{name[1]}` has no row in {tables}. Add one, or remove "
                "its columns."
            )
    problems.extend(_duplicates(tables, configs))
    if not rows and not problems:
        problems.append(f"{tables} has no rows. Add one for each table.")
    if problems:
        raise BadConfig(problems)
    return [config for _, config in configs]


def _rows(
    path: Path, header: Sequence[str], required: Sequence[str], problems: list[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields line number and cells of each row; every column of the header is there."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        problems.append(f"{path} does not exist. Begin it with the line: {','.join(required)},...")
        return
    except (OSError, UnicodeDecodeError) as exc:
        problems.append(f"{path} cannot be read: {exc}. It has to be CSV in UTF-8.")
        return
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        given = [name.strip().lower() for name in next(reader, [])]
        problems.extend(_header_problems(path, given, header, required))
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) > len(given):
                problems.append(
                    f"{path}, line {reader.line_num}: {len(cells)} cells, but the header has "
                    f'{len(given)} columns. Put texts that hold a comma into quotes ("...").'
                )
                continue
            row = dict.fromkeys(header, "")
            row.update(zip(given, (cell.strip() for cell in cells), strict=False))
            yield reader.line_num, row
    except csv.Error as exc:
        problems.append(
            f"{path}, line {reader.line_num}: this is not valid CSV ({exc}). Close all quotes."
        )


def _header_problems(
    path: Path, given: Sequence[str], header: Sequence[str], required: Sequence[str]
) -> Iterator[str]:
    if not given:
        yield f"{path} is empty. Its first line names the columns: {', '.join(header)}."
        return
    for name in sorted({name for name in given if given.count(name) > 1}):
        yield f"{path}, line 1: column `{name}` is there twice. Keep one."
    for name in given:
        if name not in header:
            yield f"{path}, line 1: unknown column `{name}`. The columns are {', '.join(header)}."
    for name in required:
        if name not in given:
            yield f"{path}, line 1: no column `{name}`. Add it."


def _listed_columns(
    path: Path, problems: list[str]
) -> dict[tuple[str, str], list[tuple[Column, str]]]:
    """Columns by (system, table) in lower case, with the place each stands in the file."""
    listed: dict[tuple[str, str], list[tuple[Column, str]]] = {}
    for number, row in _rows(path, COLUMNS_HEADER, COLUMNS_HEADER[:3], problems):
        column = Column(row["column_name"], row["data_type"], row["description"])
        names = (row["system"].lower(), row["table_name"].lower())
        listed.setdefault(names, []).append((column, f"{path}, line {number}: "))
    return listed


def _duplicates(path: Path, configs: Sequence[tuple[int, TableConfig]]) -> Iterator[str]:
    """Names that two rows would give to different models: dbt has one name space for all."""
    seen: dict[str, tuple[int, str]] = {}
    for number, config in configs:
        names = {config.table: "final table", config.staging: "staging model"}
        if config.history:
            names[config.versions] = "history"
        for name, kind in names.items():
            line, other = seen.setdefault(name.lower(), (number, kind))
            if config.table and line != number:
                yield (
                    f"{path}, line {number} ({config.table}): its {kind} would be `{name}`, which "
                    f"is the {other} of line {line}. Remove or rename one of the two."
                )
                break  # its other names meet for the same reason


class _Row:
    """One row on its way to a TableConfig; collects what is wrong with it."""

    def __init__(self, cells: Mapping[str, str], at: str) -> None:
        self.cells = cells
        self.at = at
        self.problems: list[str] = []

    def read(self, listed: Sequence[Column]) -> TableConfig:
        """Returns the row as far as it can be read.

        Args:
            listed: Columns that a file of its own lists for the table.
        """
        cells = self.cells
        columns = self._columns(listed)
        names = [column.name for column in columns]
        declaration: dict[str, Any] = {"format": self._format()}
        keys, sequence = self._keys_and_sequence(names)
        declaration["keys"] = keys
        if sequence:
            declaration["sequence_by"] = sequence[0] if len(sequence) == 1 else sequence
        if self._truth("is_insert_only", False):
            declaration["insert_only"] = True
        declaration.update(self._options(names))
        history = self._truth("history", True)
        if not history:
            declaration["history"] = False
        if self._truth("key_changes", False):
            declaration["key_changes"] = True
        partition, computed = self._partition(names)
        if computed:
            declaration["partition_by"] = {partition: computed}
        declaration.update(self._further_options(declaration))
        self._check_flagged(declaration)
        return TableConfig(
            table=self._identifier("table_name", "Name the table."),
            system=self._identifier("system", "Name the dbt source that the table belongs to."),
            schema=cells["schema"],
            raw_table=cells["raw_table"] or cells["table_name"],
            declaration=declaration,
            columns=columns,
            partition=partition,
            history=history,
            description=cells["description"],
            tags=tuple(self._tags()),
            depends_on=tuple(self._identifiers("depends_on")),
            freshness=self._freshness(),
        )

    def _say(self, text: str) -> None:
        self.problems.append(self.at + text)

    def _identifier(self, cell: str, remedy: str) -> str:
        name = self.cells[cell]
        if not name:
            self._say(f"no `{cell}`. {remedy}")
        elif not words.is_identifier(name):
            self._say(
                f"`{cell}` is `{name}`, which is not a valid name. Use letters, digits and "
                "underscores, and no digit first."
            )
        return name

    def _identifiers(self, cell: str) -> list[str]:
        names = words.split_list(self.cells[cell])
        for name in names:
            if not words.is_identifier(name):
                self._say(
                    f"`{cell}` holds `{name}`, which is not a valid name of a dbt model. Correct "
                    "the name."
                )
        return names

    def _truth(self, cell: str, default: bool) -> bool:
        text = self.cells[cell].lower()
        if text in _TRUE | _FALSE:
            return text in _TRUE
        if text:
            self._say(f"`{cell}` is `{text}`. Write true or false.")
        return default

    def _format(self) -> str:
        name = self.cells["format"].lower()
        if not name:
            self._say(f"no `format`. Name one of {', '.join(words.FORMATS)}.")
        elif name not in words.FORMATS:
            self._say(f"unknown format `{name}`. The formats are {', '.join(words.FORMATS)}.")
        return name

    def _columns(self, listed: Sequence[Column]) -> tuple[Column, ...]:
        columns = list(listed)
        if self.cells["columns"]:
            if columns:
                self._say("columns are in the row and in the file of columns. Keep one of the two.")
            columns = [
                Column(*[*part.split(maxsplit=1), ""][:2])
                for part in words.split_top_level(self.cells["columns"])
            ]
        if not columns:
            self._say(
                "no columns. List them in `columns` (id bigint, name string), or a row each in "
                "cdc_columns.csv."
            )
        seen: set[str] = set()
        for column in columns:
            self._check_column(column, seen)
            seen.add(column.name.lower())
        return tuple(columns)

    def _check_column(self, column: Column, seen: set[str]) -> None:
        name = column.name
        if not name or words.NOT_IN_COLUMN.search(name):
            self._say(
                f"`{name}` is not a valid column name. Write a name without blanks and , ; {{ }} "
                "( ) = `, and its type behind it: id bigint."
            )
        if name.lower() in seen:
            self._say(
                f"column `{name}` is listed twice (names in Spark are not case-sensitive). Keep "
                "one."
            )
        if words.is_reserved(name):
            self._say(f"column `{name}` has a name that the package uses itself. Leave it out.")
        if not column.data_type:
            self._say(f"column `{name}` has no type. Write one behind it: {name or 'id'} bigint.")
        elif not words.is_type(column.data_type):
            self._say(
                f"column `{name}` has the type `{column.data_type}`, which Spark does not have or "
                "cannot compare. Use bigint, string, decimal(12,2), timestamp, date or the like."
            )

    def _keys_and_sequence(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        keys, sequence = words.split_list(self.cells["keys"]), self._sequence()
        ranked = self._ranked_keys()
        if [key.lower() for key in keys] in (["none"], ["[]"]):
            return [], sequence
        if not keys and not ranked:
            self._say("no `keys`. Name the columns of the key, or write none for no key.")
        if keys and ranked and sorted(keys) != sorted(ranked):
            self._say(
                f"`keys` are {', '.join(keys)}, but `rank_expression` ranks by "
                f"{', '.join(ranked)}. Both have to name the key."
            )
        self._check_names("key", keys or ranked, names)
        return keys or ranked, sequence

    def _check_names(self, role: str, wanted: Sequence[str], names: Sequence[str]) -> None:
        for name in wanted:
            if names and name not in names:
                self._say(
                    f"{role} column `{name}` is not among the columns ({', '.join(names)}). "
                    "Correct the name or list the column."
                )

    def _sequence(self) -> list[str]:
        """`rank_expression`: what orders the events, or the window that the article ranks by."""
        text = self.cells["rank_expression"]
        window = _RANK.match(text)
        if not window:
            self._check_expressions("rank_expression", parts := words.split_top_level(text))
            return parts
        parts = []
        for part in words.split_top_level(window["order"]):
            direction = _DIRECTION.search(part)
            if direction is None or (direction["word"] or "asc").lower() == "asc":
                self._say(
                    f"`rank_expression` orders by `{part}`, so that the oldest event would come "
                    "first. Write desc behind it."
                )
            parts.append(part[: direction.start()] if direction else part)
        self._check_expressions("rank_expression", parts)
        return parts

    def _ranked_keys(self) -> list[str]:
        text = self.cells["rank_expression"]
        if not re.match(r"\s*partition\s+by\b", text, re.I):
            return []
        try:
            window = parse_one(f"rank() over ({text})", read="spark")
        except SqlglotError:
            self._say(
                f"`rank_expression` is `{text}`, which is not a window specification of Spark SQL. "
                "Write partition by <keys> order by <columns> desc, or the columns alone."
            )
            return []
        by = window.args.get("partition_by") or []
        if not all(isinstance(key, exp.Column) for key in by):
            self._say("`rank_expression` ranks by an expression. Rank by the columns of the key.")
        return [key.name for key in by if isinstance(key, exp.Column)]

    def _check_expressions(
        self, cell: str, parts: Sequence[str], check: Callable[[str], str | None] = fault
    ) -> None:
        for part in parts:
            found = check(part)
            if found:
                self._say(f"`{cell}` is `{part}`: {found}.")

    def _options(self, names: Sequence[str]) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for cell in EXPRESSIONS:
            text = self.cells[cell]
            if not text:
                continue
            if cell == "event_time" and text.lower() == "false":
                options[cell] = False
                continue
            options[cell] = text
            if cell == "where":
                self._check_expressions(cell, [text], lambda sql: fault(sql, subquery=True))
            elif cell != "origin":  # which may ask for the name of the file
                self._check_expressions(cell, [text])
        for cell in ("operation", "payload"):
            if self.cells[cell]:
                options[cell] = self.cells[cell]
        if self._truth("landed", False):
            options["landed"] = True
        for cell in COLUMN_LISTS:
            wanted = words.split_list(self.cells[cell])
            self._check_names(cell, wanted, names)
            if wanted:
                options[cell] = wanted
        return options | self._null_updates(names) | self._on_bad_event()

    def _null_updates(self, names: Sequence[str]) -> dict[str, Any]:
        text = self.cells["ignore_null_updates"]
        if not text or text.lower() in _FALSE:
            return {}
        if text.lower() in _TRUE:
            return {"ignore_null_updates": True}
        self._check_names("ignore_null_updates", words.split_list(text), names)
        return {"ignore_null_updates": words.split_list(text)}

    def _on_bad_event(self) -> dict[str, Any]:
        text = self.cells["on_bad_event"].lower()
        if text and text not in words.ON_BAD_EVENT:
            self._say(f"`on_bad_event` is `{text}`. Write {' or '.join(words.ON_BAD_EVENT)}.")
        return {"on_bad_event": text} if text else {}

    def _further_options(self, declared: Mapping[str, Any]) -> dict[str, Any]:
        """`options`: what the package knows and this table has no column for."""
        text = self.cells["options"]
        if not text:
            return {}
        try:
            options = yaml.safe_load(text)
        except yaml.YAMLError:
            options = None
        if not isinstance(options, dict):
            self._say(f"`options` is `{text}`, which is not a YAML mapping like {{name: value}}.")
            return {}
        for name in options.keys() & declared.keys():
            self._say(f"`options` names `{name}`, which has a cell of its own. Keep one.")
        return options

    def _partition(self, names: Sequence[str]) -> tuple[str, str]:
        """The column to partition by, and the expression where the table has no such column."""
        expression = self.cells["partition_column_expression"]
        alias = self.cells["partition_column_alias"]
        if not expression:
            if alias:
                self._say(
                    "`partition_column_alias` without `partition_column_expression`. Write the "
                    "expression, or remove the alias."
                )
            return "", ""
        plain = {name.lower(): name for name in names}.get(expression.strip("`").lower())
        if plain and (not alias or alias.lower() == plain.lower()):
            return plain, ""
        if not alias:
            self._say(
                "`partition_column_expression` without `partition_column_alias`. Name the column."
            )
        else:
            self._identifier("partition_column_alias", "")
        if alias.lower() in {name.lower() for name in names}:
            self._say(f"`partition_column_alias` is `{alias}`, which is another column. Rename it.")
        self._check_expressions(
            "partition_column_expression", [expression], lambda sql: partition_fault(sql, names)
        )
        return alias, expression

    def _check_flagged(self, declared: Mapping[str, Any]) -> None:
        flag_words = ("operation", "apply_as_deletes", "apply_as_truncates")
        if declared["format"] != "flagged":
            for name in flag_words:
                if name in declared and declared["format"] in words.FORMATS:
                    self._say(
                        f"`{name}` belongs to the format flagged; {declared['format']} carries "
                        "its operation itself. Remove it."
                    )
            return
        if not declared.get("sequence_by"):
            self._say("no `rank_expression`. Name what orders the events of a key.")
        if not declared.get("operation") and not declared.get("apply_as_deletes"):
            self._say(
                "neither `operation` nor `apply_as_deletes`. Name the flag column, or the "
                "condition that marks a delete (false where nothing is deleted)."
            )

    def _tags(self) -> list[str]:
        tags = [*words.split_list(self.cells["group"]), *words.split_list(self.cells["tags"])]
        for tag in tags:
            if not words.TAG.fullmatch(tag):
                self._say(f"`{tag}` is not a valid tag. Use letters, digits and . _ - : /")
        return list(dict.fromkeys(tags))

    def _freshness(self) -> dict[str, Any]:
        field = self.cells["loaded_at_field"]
        limits = {}
        for cell in ("warn_after", "error_after"):
            text = self.cells[cell]
            if not text:
                continue
            age = _AGE.fullmatch(text)
            if age:
                limits[cell] = {"count": int(age[1]), "period": age[2].lower()}
            else:
                self._say(f"`{cell}` is `{text}`. Write for instance 30 minutes, 2 hours, 1 day.")
            if not field:
                self._say(f"`{cell}` without `loaded_at_field`. Name the time of arrival.")
        if field:
            self._check_expressions("loaded_at_field", [field])
        settings: dict[str, Any] = {"loaded_at_field": field} if field else {}
        return settings | ({"freshness": limits} if limits else {})
