"""Tables of a database as its schema dump or its catalog describes them: columns, types, keys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from dbt_spark_cdc.generate.config_table import Column
from dbt_spark_cdc.samples.records import Unreadable
from dbt_spark_cdc.samples.source_types import of_database

LARGEST_DUMP = 64 * 1024**2
CONNECT_SECONDS = 10
# libpq's own variables: what they hold is written nowhere.
POSTGRES_VARIABLES = ("PGHOST", "PGSERVICE", "PGDATABASE", "PGHOSTADDR")

_MYSQL = re.compile(r"\bENGINE\s*=|CREATE\s+TABLE\s+(IF\s+NOT\s+EXISTS\s+)?`", re.I)
# The rows of pg_dump's COPY are no SQL.
_COPIED = re.compile(r"^COPY\b[^;]*\bFROM\s+stdin;\n.*?^\\\.$", re.M | re.S | re.I)
_CREATE = re.compile(
    r"create\s+(?:(?:global|local|unlogged|temporary|temp|foreign)\s+)*table\b", re.I
)
# What sqlglot reads otherwise, or not at all: MySQL's REAL is a double, and floats may be unsigned.
_REAL = re.compile(r"(?<![`\w])real(?![`\w])", re.I)
_UNSIGNED = re.compile(r"(?<![`\w])((?:float|double)(?:\s*\([\d, ]+\))?)\s+unsigned\b", re.I)
_DOMAIN = re.compile(
    r"create\s+domain\s+(?P<name>[\w.\"]+)\s+(?:as\s+)?(?P<type>.+?)"
    r"(?:\s+(?:collate|default|constraint|not|null|check)\b|$)",
    re.I | re.S,
)
# pg_dump makes a partition like any table and attaches it later.
_NAME = r"(?:\"(?:[^\"]|\"\")+\"|\w+)(?:\.(?:\"(?:[^\"]|\"\")+\"|\w+))?"
_ATTACH = re.compile(
    rf"alter\s+table\s+(?:if\s+exists\s+)?(?:only\s+)?(?P<root>{_NAME})"
    rf"\s+attach\s+partition\s+(?P<name>{_NAME})",
    re.I | re.S,
)
_PARTITION = re.compile(
    r"create\s+(?:unlogged\s+|foreign\s+)?table\s+(?:if\s+not\s+exists\s+)?"
    rf"(?P<name>{_NAME})\s+partition\s+of\s+(?P<root>{_NAME})",
    re.I | re.S,
)
_ALTER = re.compile(r"alter\s+table\b.*\bprimary\s+key\b", re.I | re.S)
# Comments, texts, quoted names, the end of a statement, and all else.
_PIECES = {
    backslash: re.compile(
        r"(?P<comment>--[^\n]*|/\*.*?\*/)"
        rf"|'(?:[^'{escape}]|''{escaped})*'"
        r'|"(?:[^"]|"")*"|`[^`]*`|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$'
        r"|(?P<end>;)|[^-/'\"`$;]+|.",
        re.S,
    )
    for backslash, escape, escaped in ((False, "", ""), (True, r"\\", r"|\\."))
}

# information_schema hides the keys of tables from users who may only read; pg_catalog does not.
# A domain is what it is made of, perhaps a domain again; the index of a key may carry more columns.
_POSTGRES = """
with recursive domains (declared, base, modifier) as (
    select oid, typbasetype, typtypmod from pg_catalog.pg_type where typtype = 'd'
    union all
    select d.declared, t.typbasetype, greatest(d.modifier, t.typtypmod)
    from domains d
    join pg_catalog.pg_type t on t.oid = d.base and t.typtype = 'd'
),
bases as (
    select d.declared, d.base, d.modifier
    from domains d
    join pg_catalog.pg_type t on t.oid = d.base and t.typtype <> 'd'
),
parts (root, part) as (
    select inhparent, inhrelid from pg_catalog.pg_inherits
    union
    select p.root, i.inhrelid
    from parts p
    join pg_catalog.pg_inherits i on i.inhparent = p.part
)
select n.nspname, c.relname, a.attname,
    format_type(coalesce(b.base, a.atttypid), coalesce(b.modifier, a.atttypmod)),
    coalesce(array_position((i.indkey::int2[])[0:i.indnkeyatts - 1], a.attnum), -1),
    array(
        select o.nspname || '.' || l.relname
        from parts p
        join pg_catalog.pg_class l on l.oid = p.part and l.relispartition and l.relkind <> 'p'
        join pg_catalog.pg_namespace o on o.oid = l.relnamespace
        where p.root = c.oid
    )
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join bases b on b.declared = a.atttypid
left join pg_catalog.pg_index i on i.indrelid = c.oid and i.indisprimary
where c.relkind in ('r', 'p') and not c.relispartition
    and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_'
order by n.nspname, c.relname, a.attnum
"""


@dataclass(frozen=True)
class TableSchema:
    """A table of a database.

    Attributes:
        owner: Its schema, or MySQL's database; empty where nothing names one.
        name: Its name.
        columns: Columns with types of Spark.
        keys: Columns of its primary key.
        partitions: The tables that hold its rows, where PostgreSQL partitions it.
    """

    owner: str
    name: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    partitions: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its name with its schema, where it has one."""
        return f"{self.owner}.{self.name}" if self.owner else self.name


def read_ddl(path: Path) -> list[TableSchema]:
    """Reads the tables of a schema dump of PostgreSQL or MySQL.

    Args:
        path: File of CREATE TABLE statements, as pg_dump and mysqldump write them.

    Returns:
        The tables in the order of the file. Partitions of other tables are left out.

    Raises:
        Unreadable: The file cannot be read, or holds no CREATE TABLE that can.
    """
    try:
        if path.stat().st_size > LARGEST_DUMP:
            raise Unreadable(
                f"{path} has more than {LARGEST_DUMP // 1024**2} MiB. Dump the schema without the "
                "rows: pg_dump --schema-only, or mysqldump --no-data."
            )
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8 text"
        raise Unreadable(
            f"{path} cannot be read: {reason}. Name a dump in UTF-8 that this user may read."
        ) from exc
    if not text.strip():
        raise Unreadable(f"{path} is empty. Name a dump that holds CREATE TABLE statements.")
    mysql = _MYSQL.search(text) is not None
    tables: dict[tuple[str, str], TableSchema] = {}
    domains: dict[str, str] = {}
    parts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    faults = []
    for statement in _statements(_COPIED.sub("", text), mysql):
        if domain := _DOMAIN.match(statement):
            # One domain may be made of another; a dump has them in this order.
            made_of = domain["type"]
            domains[_plain(domain["name"])] = domains.get(_plain(made_of), made_of)
            continue
        if partition := _ATTACH.match(statement) or _PARTITION.match(statement):
            parts.setdefault(_named(partition["root"]), []).append(_named(partition["name"]))
            continue
        try:
            _take(statement, mysql, tables, domains)
        except SqlglotError as exc:
            faults.append(f"{' '.join(statement.split())[:60]} ...: {str(exc).splitlines()[0]}")
    if faults:
        raise Unreadable(
            f"{path} holds statements that are not valid SQL of "
            f"{'MySQL' if mysql else 'PostgreSQL'}. Correct or remove them:\n    "
            + "\n    ".join(faults)
        )
    if not tables:
        raise Unreadable(
            f"{path} holds no CREATE TABLE statement. Dump the schema: pg_dump --schema-only, or "
            "mysqldump --no-data."
        )
    attached = {part for leaves in parts.values() for part in leaves}
    return [
        replace(table, partitions=tuple(sorted(_leaves(name, parts))))
        for name, table in tables.items()
        if name not in attached
    ]


def _named(text: str) -> tuple[str, str]:
    """Schema and name of a table in a statement."""
    pieces = [
        quoted.replace('""', '"') or plain
        for quoted, plain in re.findall(r"\"((?:[^\"]|\"\")+)\"|(\w+)", text)
    ]
    return ("", *pieces)[-2], pieces[-1]


def _leaves(
    root: tuple[str, str], parts: Mapping[tuple[str, str], Sequence[tuple[str, str]]]
) -> Iterator[str]:
    """The partitions of a table that hold rows: one may be partitioned again."""
    for part in parts.get(root, ()):
        if part in parts:
            yield from _leaves(part, parts)
        else:
            yield ".".join(filter(None, part))


def read_postgres() -> list[TableSchema]:
    """Asks a PostgreSQL database for its tables. The connection is that of libpq's variables.

    Returns:
        The tables by schema and name, without partitions and those of the system.

    Raises:
        Unreadable: psycopg is missing, the variables are, the server does not answer, or the
            database has no table.
    """
    try:
        import psycopg
    except ImportError as exc:
        raise Unreadable(
            "--postgres needs psycopg, which is not installed: "
            "pip install 'dbt-spark-cdc[postgres]'. "
            "Without it, dump the schema (pg_dump --schema-only) and name the file with --ddl."
        ) from exc
    if not any(os.environ.get(name) for name in POSTGRES_VARIABLES):
        raise Unreadable(
            "--postgres connects as the environment variables of PostgreSQL say, and none of "
            f"{', '.join(POSTGRES_VARIABLES)} is set. Set PGHOST, PGDATABASE, PGUSER and "
            "PGPASSWORD, or PGSERVICE."
        )
    try:
        with (
            psycopg.connect(connect_timeout=CONNECT_SECONDS) as connection,
            connection.cursor() as cursor,
        ):
            rows = cursor.execute(_POSTGRES).fetchall()
    except psycopg.Error as exc:
        said = " ".join(str(exc).split())
        raise Unreadable(
            f"--postgres: the database does not answer: {said}. Correct PGHOST, PGPORT, "
            "PGDATABASE, PGUSER or PGPASSWORD; psql without arguments has to connect."
        ) from exc
    if not rows:
        raise Unreadable(
            "--postgres: the database has no table outside the system's schemas. Name another "
            "one with PGDATABASE."
        )
    return _grouped(rows)


def _grouped(rows: list[tuple[str, str, str, str, int, list[str]]]) -> list[TableSchema]:
    found: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
    partitions = {}
    for owner, table, column, kind, position, parts in rows:
        found.setdefault((owner, table), []).append((column, kind, position))
        partitions[owner, table] = tuple(sorted(parts))
    return [
        TableSchema(
            owner,
            table,
            tuple(Column(name, of_database(kind)) for name, kind, _ in columns),
            tuple(
                name
                for name, _, position in sorted(columns, key=lambda column: column[2])
                if position >= 0
            ),
            partitions[owner, table],
        )
        for (owner, table), columns in found.items()
    ]


def _statements(text: str, mysql: bool) -> Iterator[str]:
    """The statements about domains, tables, their keys and partitions, without comments."""
    parts: list[str] = []
    for piece in _PIECES[mysql].finditer(text + ";"):
        if piece["comment"]:
            parts.append(" ")
        elif piece["end"]:
            statement = "".join(parts).strip()
            parts.clear()
            if any(kind.match(statement) for kind in (_CREATE, _ALTER, _DOMAIN, _ATTACH)):
                yield statement
        else:
            parts.append(piece[0])


def _take(
    statement: str,
    mysql: bool,
    tables: dict[tuple[str, str], TableSchema],
    domains: Mapping[str, str],
) -> None:
    """Adds the table that a statement makes, or the key that it gives to one."""
    dialect = "mysql" if mysql else "postgres"
    if mysql:
        statement = _UNSIGNED.sub(r"\1", _REAL.sub("double", statement))
    parsed = parse_one(statement, read=dialect)
    target = parsed.find(exp.Table)
    if target is None:
        return
    name = (target.db, target.name)
    if isinstance(parsed, exp.Alter):
        if name in tables and (keys := _table_key(parsed)):
            known = tables[name]
            tables[name] = replace(known, keys=keys)
        return
    schema = parsed.this
    columns = [c for c in getattr(schema, "expressions", ()) if isinstance(c, exp.ColumnDef)]
    if not isinstance(schema, exp.Schema) or not columns:
        return  # a partition, or a table of a query
    own = tuple(c.name for c in columns if c.find(exp.PrimaryKeyColumnConstraint))
    tables[name] = TableSchema(
        target.db,
        target.name,
        tuple(
            Column(c.name, of_database(domains.get(_plain(kind), kind), mysql))
            for c in columns
            for kind in [c.kind.sql(dialect) if c.kind else "text"]
        ),
        own or _table_key(schema),
    )


def _plain(name: str) -> str:
    return name.replace('"', "").lower()


def _table_key(statement: exp.Expr) -> tuple[str, ...]:
    """The columns of the primary key that a statement names apart from its columns."""
    for key in statement.find_all(exp.PrimaryKey):
        return tuple(
            named.name
            for part in key.expressions
            if (named := part if isinstance(part, exp.Identifier) else part.find(exp.Identifier))
        )
    return ()
