"""Where each column comes from: declarations say it of tables of the package, SQL of other models.

dbt's artifacts are all that is read: `target/manifest.json`, and `target/catalog.json`, which
`dbt docs generate` writes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node as Step
from sqlglot.lineage import lineage as steps_to
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from dbt_spark_cdc.observe.status_text import OVERVIEW_WIDTH
from dbt_spark_cdc.project import (
    BadProject,
    Node,
    declaration_of,
    kind_of,
    read_artifact,
    target_folder,
    uses,
)

DIALECT = "spark"
# Its models are made of raw events by macros: what matters of them is which events they read.
EVENT_MACROS = ("quarantine", "audit", "schema_drift")
# Columns of a history, or of a resolver's table, that are made of columns of other names.
TIMES = frozenset(["dbt_updated_at", "dbt_valid_from", "dbt_valid_to", "_cdc_created_at"])
POSITIONS = frozenset(["_seq_end", "_cdc_seq", "_cdc_is_latest"])


@dataclass(frozen=True, order=True)
class Origin:
    """A column that another one is made of.

    Attributes:
        table: The unique id of its model, snapshot, seed or source.
        column: Its name.
    """

    table: str
    column: str


@dataclass(frozen=True)
class Column:
    """A column and what it is made of.

    Attributes:
        name: Its name.
        type: Its type in Spark's words; empty where the catalog does not have it.
        origins: The columns that it is made of.
        how: What is done to them, as SQL or in words; empty where nothing is done.
    """

    name: str
    type: str
    origins: tuple[Origin, ...] = ()
    how: str = ""


@dataclass(frozen=True)
class Table:
    """A node of the project with its columns.

    Attributes:
        id: dbt's unique id.
        name: As people call it; `<source>.<table>` for a source.
        kind: `source`, `seed`, `staging`, `resolver`, `history`, `final` or `model`.
        columns: All that it has, in its order.
        untraced: Why nobody can tell what its columns are made of; empty where each says it.
    """

    id: str
    name: str
    kind: str
    columns: tuple[Column, ...]
    untraced: str = ""


@dataclass
class _Catalog:
    """Columns of all nodes, and which node is behind a table's name.

    Attributes:
        columns: Types by column, by unique id.
        ids: Unique ids by schema and table, both in lower case.
        schema: The same columns as sqlglot wants them.
    """

    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    ids: dict[tuple[str, str], str] = field(default_factory=dict)
    schema: dict[str, Any] = field(default_factory=dict)


def trace(manifest: Mapping[str, Any], catalog: Mapping[str, Any]) -> list[Table]:
    """Returns the tables of a project, each of their columns with its origins.

    Args:
        manifest: What dbt writes to `target/manifest.json`, with compiled SQL.
        catalog: What `dbt docs generate` writes to `target/catalog.json`. A table that is not in it
            has the columns that the project describes.

    Returns:
        Tables in the order that data flows: each after those that it reads.
    """
    nodes = _nodes(manifest)
    known = _columns(nodes, catalog)
    return [_table(nodes, node_id, known) for node_id in _in_order(nodes)]


def used_by(tables: Iterable[Table]) -> dict[Origin, list[Origin]]:
    """Returns the columns that are made of a column, by that column.

    Args:
        tables: What `trace` returns.
    """
    found: dict[Origin, list[Origin]] = {}
    for table in tables:
        for column in table.columns:
            for origin in column.origins:
                found.setdefault(origin, []).append(Origin(table.id, column.name))
    return found


def read_tables(folder: Path) -> list[Table]:
    """Returns what `trace` says of a project.

    Args:
        folder: Folder of dbt_project.yml.

    Raises:
        BadProject: There are no artifacts of `dbt docs generate`.
    """
    root = folder.resolve()
    target = target_folder(root)
    manifest, catalog = (read_artifact(target / name) for name in ("manifest.json", "catalog.json"))
    if not manifest or not catalog:
        raise BadProject(f"{target} has no catalog: run `dbt docs generate` in {root}.")
    return trace(manifest, catalog)


def select(tables: list[Table], name: str) -> Table:
    """Returns the table that people call so.

    Args:
        tables: What `trace` returns.
        name: A model, snapshot or seed, or `<source>.<table>`; dbt's unique id where several have
            the name.

    Raises:
        BadProject: There is none, or there are several.
    """
    found = [table for table in tables if name in (table.name, table.id)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(table.id for table in found)
        raise BadProject(f"Several tables are called {name}: give one of {ids}.")
    near = get_close_matches(name, [table.name for table in tables])
    raise BadProject(
        f"No table is called {name}. "
        + (f"Did you mean {' or '.join(near)}?" if near else "`cdc lineage` lists all tables.")
    )


def as_json(tables: list[Table], shown: Iterable[Table]) -> list[dict[str, Any]]:
    """Returns tables as `cdc lineage --json` prints them.

    Args:
        tables: What `trace` returns.
        shown: Those of them to be shown.
    """
    names = {table.id: table.name for table in tables}
    uses_of = used_by(tables)

    def listed(columns: Iterable[Origin]) -> list[dict[str, str]]:
        return [
            {"table": names[one.table], "id": one.table, "column": one.column} for one in columns
        ]

    return [
        {
            "table": table.name,
            "id": table.id,
            "kind": table.kind,
            "untraced": table.untraced or None,
            "columns": [
                {
                    "name": column.name,
                    "type": column.type,
                    "from": listed(column.origins),
                    "how": column.how or None,
                    "used_by": listed(uses_of.get(Origin(table.id, column.name), [])),
                }
                for column in table.columns
            ],
        }
        for table in shown
    ]


def show(console: Console, tables: list[Table], table: Table) -> None:
    """Prints where the columns of a table come from, and what is made of them.

    Args:
        console: Where to print.
        tables: What `trace` returns.
        table: One of them.
    """
    (shown,) = as_json(tables, [table])
    grid = Grid(title=f"{table.name} ({table.kind})", title_justify="left")
    for heading in ("column", "type", "from", "how", "used by"):
        grid.add_column(heading, overflow="fold")
    for column in shown["columns"]:
        origins, readers = (
            "\n".join(f"{one['table']}.{one['column']}" for one in column[key])
            for key in ("from", "used_by")
        )
        cells = (column["name"], column["type"], origins, column["how"] or "", readers)
        grid.add_row(*map(escape, cells))
    # A narrow terminal wraps lines, and loses no cell.
    console.width = max(console.width, OVERVIEW_WIDTH)
    console.print(grid)
    if table.untraced:
        console.print(escape(table.untraced), soft_wrap=True)


def _nodes(manifest: Mapping[str, Any]) -> dict[str, Node]:
    kinds = ("model", "snapshot", "seed")
    nodes = {k: n for k, n in manifest["nodes"].items() if n["resource_type"] in kinds}
    return nodes | dict(manifest["sources"])


def _in_order(nodes: Mapping[str, Node]) -> list[str]:
    """Each after what it reads; otherwise by name."""
    ordered: dict[str, None] = {}

    def add(node_id: str) -> None:
        if node_id in nodes and node_id not in ordered:
            for read in sorted(_reads(nodes[node_id])):
                add(read)
            ordered[node_id] = None

    for node_id in sorted(nodes, key=lambda one: (not one.startswith("source."), one)):
        add(node_id)
    return list(ordered)


def _reads(node: Node) -> list[str]:
    return list((node.get("depends_on") or {}).get("nodes", []))


def _columns(nodes: Mapping[str, Node], catalog: Mapping[str, Any]) -> _Catalog:
    found = _Catalog()
    listed = {**catalog.get("nodes", {}), **catalog.get("sources", {})}
    for node_id, node in nodes.items():
        columns = (listed.get(node_id) or {}).get("columns") or node.get("columns") or {}
        types = {name: _type(column) for name, column in columns.items()}
        schema, table = str(node.get("schema")), str(node.get("alias") or node.get("identifier"))
        found.columns[node_id] = types
        # Several declared tables may share a raw table, and then any of them says its columns.
        found.ids.setdefault((schema.lower(), table.lower()), node_id)
        if types:
            found.schema.setdefault(schema, {})[table] = types
    return found


def _type(column: Mapping[str, Any]) -> str:
    return str(column.get("type") or column.get("data_type") or "")


def _table(nodes: Mapping[str, Node], node_id: str, known: _Catalog) -> Table:
    node = nodes[node_id]
    types = known.columns[node_id]
    reads = [one for one in _reads(node) if one in nodes]

    def table(kind: str, columns: Iterable[Column], untraced: str = "") -> Table:
        name = node["name"]
        if node["resource_type"] == "source":
            name = f"{node['source_name']}.{name}"
        return Table(node_id, name, kind, tuple(columns), untraced)

    def unknown(kind: str, why: str) -> Table:
        return table(kind, (Column(name, type_) for name, type_ in types.items()), why)

    if node["resource_type"] == "source":
        return table("source", _of_source(node, types))
    if node["resource_type"] == "seed":
        return table("seed", (Column(name, type_) for name, type_ in types.items()))
    declared = [one for one in reads if declaration_of(nodes[one])]
    kind = kind_of(node)
    if kind == "staging" and declared:
        return table("staging", _of_staging(nodes[declared[0]], declared[0], types))
    if kind in ("history", "resolver") and reads:
        keys = _keys(nodes, node_id)
        return table(kind, _remembered(reads[0], known.columns[reads[0]], types, keys))
    for macro in EVENT_MACROS:
        if uses(node, f"macro.cdc.{macro}"):
            return unknown("model", f"`cdc.{macro}` makes its rows of whole events.")
    if node.get("language") != "sql":
        return unknown("model", "It is a Python model, which says nothing of its columns.")
    shown = "final" if kind == "final" else "model"
    sql = node.get("compiled_code")
    if not sql:
        return unknown(shown, "dbt has not compiled it.")
    try:
        return table(shown, _of_query(sql, types, known))
    except (SqlglotError, ValueError, KeyError, RecursionError) as exc:
        return unknown(shown, f"Its SQL cannot be followed: {str(exc).splitlines()[0]}")


def _of_source(node: Node, types: Mapping[str, str]) -> Iterator[Column]:
    """The declared columns, which are fields of messages in many formats, and then the raw ones."""
    declaration = declaration_of(node)
    declared = {name: _type(column) for name, column in (node.get("columns") or {}).items()}
    payload = declaration.get("payload") or ("value" if declaration.get("landed") else None)
    renames = declaration.get("renames") or {}
    for name, type_ in declared.items() if declaration else ():
        former = renames.get(name) or []
        names = [former] if isinstance(former, str) else former
        how = f"field `{name}` of the events in `{payload}`" if payload else ""
        once = f"formerly {', '.join(f'`{one}`' for one in names)}" if names else ""
        yield Column(name, type_, how="; ".join(filter(None, (how, once))))
    for name, type_ in types.items():
        if not declaration or name not in declared:
            yield Column(name, type_, how="column of the raw table" if declaration else "")


def _of_staging(source: Node, source_id: str, types: Mapping[str, str]) -> Iterator[Column]:
    """What `cdc.events` makes of a declared source table."""
    declaration = declaration_of(source)
    declared = {name.lower(): name for name in source.get("columns") or {}}
    masks = declaration.get("mask") or {}
    by_format = f"as `{declaration.get('format')}` has it"
    options = {
        "_op": ("operation", by_format),
        "_seq": ("sequence_by", by_format),
        "_ts": ("event_time", by_format),
        "_unset": ("changed_columns", "columns that the event does not set"),
        "_arrived": ("arrival", "the batch that brought the event"),
        "_origin": ("origin", "the place of the event in the raw table"),
    }
    for name, type_ in types.items():
        former_key = name.removeprefix("_old_")
        if name.lower() in declared:
            column = declared[name.lower()]
            mask = masks.get(column)
            how = f"masked: {mask}" if mask else ""
            yield Column(name, type_, (Origin(source_id, column),), how)
        elif name.startswith("_old_") and former_key.lower() in declared:
            origin = Origin(source_id, declared[former_key.lower()])
            yield Column(name, type_, (origin,), "the key before it changed")
        elif name == "_event_id":
            yield Column(name, type_, _all(source_id, declared.values()), "hash of the whole event")
        elif name in options:
            option, otherwise = options[name]
            given = declaration.get(option)
            yield Column(name, type_, how=f"`{option}: {given}`" if given else otherwise)
        else:
            yield Column(name, type_, how="written by the package")


def _remembered(
    read_id: str, read: Mapping[str, str], types: Mapping[str, str], keys: list[str]
) -> Iterator[Column]:
    """What a history or a resolver's table makes of the events that it reads."""
    time = "_ts" if "_ts" in read else "_seq"
    by_name = {name.lower(): name for name in read}
    for name, type_ in types.items():
        if name.lower() in by_name:
            yield Column(name, type_, (Origin(read_id, by_name[name.lower()]),))
        elif name in TIMES:
            yield Column(name, type_, (Origin(read_id, time),), "the time of an event of the row")
        elif name in POSITIONS:
            yield Column(name, type_, (Origin(read_id, "_seq"),), "from the order of the events")
        elif name in ("dbt_scd_id", "_entity_id", "_former_entity_ids"):
            made_of = [*keys, "_seq"] if name == "dbt_scd_id" else keys
            yield Column(name, type_, _all(read_id, made_of), "made of the key")
        elif name == "_events":
            yield Column(name, type_, _all(read_id, read), "the events behind a version")
        else:
            yield Column(name, type_, how="written by the package")


def _all(table: str, columns: Iterable[str]) -> tuple[Origin, ...]:
    return tuple(Origin(table, column) for column in columns)


def _keys(nodes: Mapping[str, Node], node_id: str) -> list[str]:
    """The declared key of the source table that a node reads its events from."""
    node = nodes[node_id]
    if node["resource_type"] == "source":
        keys = declaration_of(node).get("keys") or []
        return [keys] if isinstance(keys, str) else list(keys)
    return next(filter(None, (_keys(nodes, one) for one in _reads(node) if one in nodes)), [])


def _of_query(sql: str, types: Mapping[str, str], known: _Catalog) -> Iterator[Column]:
    """What a query says of its columns.

    Raises:
        SqlglotError: The query cannot be parsed, or has a column that no table of it has.
    """
    query = qualify(
        parse_one(sql, dialect=DIALECT),
        schema=known.schema,
        dialect=DIALECT,
        validate_qualify_columns=False,
    )
    scope = build_scope(query)
    if scope is None or not isinstance(scope.expression, exp.Query):
        raise ValueError("it is not a query.")
    selected = {column.lower(): column for column in scope.expression.named_selects}
    # A table that was not built yet has only the columns of its query.
    return iter(
        [
            _of_selected(name, type_, selected.get(name.lower()), scope, known)
            for name, type_ in (types or dict.fromkeys(selected.values(), "")).items()
        ]
    )


def _of_selected(
    name: str, type_: str, selected: str | None, scope: Scope, known: _Catalog
) -> Column:
    if selected is None:
        query = scope.expression
        is_open = isinstance(query, exp.Query) and "*" in query.named_selects
        how = "of a table that the project does not know" if is_open else "not in its query"
        return Column(name, type_, how=how)
    log = logging.getLogger("sqlglot")
    level = log.level
    # It warns of each function that makes rows, such as `explode`: their columns have no origin.
    log.setLevel(logging.ERROR)
    try:
        step = steps_to(
            selected,
            scope.expression,
            schema=known.schema,
            dialect=DIALECT,
            scope=scope,
            trim_selects=False,
            copy=False,
        )
    finally:
        log.setLevel(level)
    leaves = (leaf for leaf in step.walk() if not leaf.downstream)
    origins = {origin for leaf in leaves for origin in _origin(leaf, known)}
    return Column(name, type_, tuple(sorted(origins)), _expression(step))


def _origin(leaf: Step, known: _Catalog) -> Iterator[Origin]:
    if isinstance(leaf.expression, exp.Table):
        table = known.ids.get((leaf.expression.db.lower(), leaf.expression.name.lower()))
        column = exp.to_column(leaf.name, dialect=DIALECT).name
        if table:
            names = {name.lower(): name for name in known.columns[table]}
            # A catalog may be older than the query: no origin is better than one that is not there.
            if not names or column.lower() in names:
                yield Origin(table, names.get(column.lower(), column))


def _expression(step: Step) -> str:
    """The last thing that is done to a column; of a union, what each of its queries does."""
    made = step.expression.unalias()
    if isinstance(made, (exp.Column, exp.Table, exp.Query)):
        return " or ".join(dict.fromkeys(filter(None, map(_expression, step.downstream))))
    return made.transform(_unqualified).sql(dialect=DIALECT)


def _unqualified(part: exp.Expression) -> exp.Expression:
    """A column as people write it, without its table and without quotes that it does not need."""
    if isinstance(part, exp.Column):
        return exp.column(part.name, quoted=not exp.SAFE_IDENTIFIER_RE.match(part.name))
    return part
