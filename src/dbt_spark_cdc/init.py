"""`cdc init`: from what describes the tables to a dbt project that builds."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from dbt_spark_cdc import words
from dbt_spark_cdc.config_table import Column, TableConfig
from dbt_spark_cdc.describe import AS_TEXT, LANDED, TODO, identifier_of, no_format, propose
from dbt_spark_cdc.new_project import (
    LANDING,
    RAW_SCHEMA,
    RAW_TABLE,
    FileTable,
    NewFile,
    NewTable,
    Package,
    Shape,
    project_files,
)
from dbt_spark_cdc.project import BadProject, project_settings
from dbt_spark_cdc.recognise import Recognised, recognise, tables_of
from dbt_spark_cdc.sample import GZIP, RECORDS, Sample, Unreadable, read_sample
from dbt_spark_cdc.schemas import TableSchema, read_ddl, read_postgres
from dbt_spark_cdc.source_types import of_values
from dbt_spark_cdc.sql_expression import fault

MOST_BYTES = 1024**3
# With more bad events than that the generated test would fail.
ENOUGH = 0.9
# A file is compared with the first one of its folder even where the sample is full.
AT_LEAST = 20
NO_KEY = "none"
# Formats whose events do not name their table.
NAMELESS = ("change_event", "flagged", "delta_cdf")
# Columns of Delta's change feed that text files cannot type.
_CDF_TYPES = {"_commit_version": "bigint", "_commit_timestamp": "timestamp"}
_RESERVED_NAMES = ("cdc", "dbt", "dbt_spark")
_RELATION = re.compile(r"[A-Za-z_]\w*\.(?=.*\w)(\w|\{table\})+", re.ASCII)
_GIT = re.compile(
    r"(?:git\+)?(?P<address>(?:https?|ssh|git|file)://\S+?|git@\S+?)(?:@(?P<tag>[^@/:]+))?"
)
_SOURCES = ("--events", "--ddl", "--postgres", "--table")


@dataclass(frozen=True)
class Answers:
    """What the options of `cdc init` say, and what was answered.

    Attributes:
        folder: Folder of the project.
        events: File or folder of change events.
        ddl: Schema dump.
        postgres: Whether to ask the database of PostgreSQL's environment variables.
        table: A table of the warehouse that holds change events.
        raw_table: Table that holds the events; empty: they are landed from files.
        payload: Column of the raw table that holds the event's text.
        format: Change format.
        name: Name of the project.
        system: Name of the dbt source.
        schema: Schema that dbt builds in.
        warehouse: Folder of the tables.
        package: Folder or git address of the dbt package.
        only: Tables to take; empty: all.
        keys: Keys, each `TABLE=COLUMN,COLUMN` or without the table.
        sequence_by: What orders the events, each `TABLE=EXPRESSION` or without the table.
        operation: Column of the flag, for the format flagged.
        limit: Records to read at most.
    """

    folder: Path
    events: Path | None = None
    ddl: Path | None = None
    postgres: bool = False
    table: str = ""
    raw_table: str = ""
    payload: str = ""
    format: str = ""
    name: str = ""
    system: str = ""
    schema: str = ""
    warehouse: str = ""
    package: str = ""
    only: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    operation: str = ""
    limit: int = RECORDS

    @property
    def looks_at(self) -> list[str]:
        """The options that say what to look at."""
        given = (self.events is not None, self.ddl is not None, self.postgres, bool(self.table))
        return [option for option, is_given in zip(_SOURCES, given, strict=True) if is_given]

    @property
    def project_name(self) -> str:
        """The project's name: the folder's, unless another was given."""
        return self.name or identifier_of(self.folder.resolve().name.replace(".", "_"))


class Problem(NamedTuple):
    """A wrong or missing answer.

    Attributes:
        option: The option that it belongs to.
        text: What is wrong, with the remedy.
        table: The table that it is about; empty for none.
        columns: The columns that the table has.
    """

    option: str
    text: str
    table: str = ""
    columns: tuple[str, ...] = ()


class BadAnswers(Exception):
    """All that is wrong with the answers."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(f"{p.option}: {p.text}" for p in self.problems))


@dataclass
class NewProject:
    """A project that is not written yet.

    Attributes:
        folder: Where to write it.
        name: Its name.
        tables: Its tables.
        files: Its files.
        copies: Change files, each with its path below the folder.
    """

    folder: Path
    name: str
    tables: list[NewTable]
    files: list[NewFile]
    copies: list[tuple[Path, Path]] = field(default_factory=list)

    @property
    def paths(self) -> list[Path]:
        """All that would be written, below the folder."""
        return [Path(file.path) for file in self.files] + [path for _, path in self.copies]

    def conflicts(self) -> list[Path]:
        """Returns the paths that are taken already."""
        return [path for path in self.paths if os.path.lexists(self.folder / path)]

    def write(self) -> None:
        """Writes all files. None that is there is opened for writing.

        Raises:
            OSError: A file cannot be written; what was written before is whole.
        """
        for file in self.files:
            target = self.folder / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x", encoding="utf-8", newline="\n") as opened:
                opened.write(file.text)
        for source, path in self.copies:
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with source.open("rb") as read, target.open("xb") as opened:
                shutil.copyfileobj(read, opened)


def plan(answers: Answers) -> NewProject:
    """Looks at what the answers name and returns the project; writes nothing.

    Args:
        answers: Options and answers.

    Raises:
        BadAnswers: Something is wrong or missing; all of it is told at once.
    """
    problems = [*_wrong_names(answers), *_wrong_options(answers), *_taken(answers)]
    package = _package(answers, problems)
    tables: list[NewTable] = []
    copies: list[tuple[Path, Path]] = []
    # Spark and a database are asked only if the other answers will do.
    if len(answers.looks_at) == 1 and (answers.events or answers.ddl or not problems):
        option = answers.looks_at[0]
        try:
            found = list(_look(answers, option, copies))
        except Unreadable as exc:
            problems.append(Problem(option, _without(option, str(exc))))
        except BadAnswers as exc:
            problems += exc.problems
        else:
            tables = _settled(answers, found, problems)
    if problems or package is None:
        raise BadAnswers(problems)
    shape = Shape(
        answers.project_name,
        answers.schema or answers.project_name,
        answers.warehouse or "warehouse",
        package,
        _own_version(),
    )
    taken = {table.folder for table in tables}
    copies = [(source, path) for source, path in copies if path.parts[1] in taken]
    return NewProject(
        answers.folder, shape.name, tables, list(project_files(shape, tables)), copies
    )


def installed_package() -> str:
    """Returns where the dbt package is that this wheel was installed with; empty if nothing says.

    A checkout has both. Otherwise pip notes the folder or the git address that it installed from.
    """
    checkout = Path(__file__).resolve().parents[2]
    if _is_package(checkout):
        return str(checkout)
    try:
        noted = json.loads(distribution("dbt-spark-cdc").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    address = str(noted.get("url") or "")
    if commit := (noted.get("vcs_info") or {}).get("commit_id"):
        return f"{address}@{commit}"
    folder = Path(unquote(urlsplit(address).path)) if address.startswith("file://") else None
    return str(folder) if folder and _is_package(folder) else ""


def _is_package(folder: Path) -> bool:
    try:
        return project_settings(folder).get("name") == "cdc"
    except BadProject:
        return False


def _own_version() -> str:
    try:
        return version("dbt-spark-cdc")
    except PackageNotFoundError:
        return ""


def _without(option: str, text: str) -> str:
    return text.removeprefix(f"{option}: ")


def _wrong_names(answers: Answers) -> Iterator[Problem]:
    name = answers.project_name
    if not words.is_identifier(name) or name.lower() in _RESERVED_NAMES:
        given = "" if answers.name else ", from the folder's name,"
        yield Problem(
            "--name",
            f"`{name}`{given} is no name of a dbt project. Use letters, digits and underscores, no "
            f"digit first, and none of {', '.join(_RESERVED_NAMES)}, which are packages.",
        )
    for option, given in (("--system", answers.system), ("--schema", answers.schema)):
        if given and not words.is_identifier(given):
            yield Problem(
                option,
                f"`{given}` is no name. Use letters, digits and underscores, and no digit first.",
            )


def _wrong_options(answers: Answers) -> Iterator[Problem]:
    given = answers.looks_at
    if len(given) != 1:
        said = f"{' and '.join(given)} are given" if given else "nothing says what to look at"
        yield Problem(
            given[1] if given else "--events",
            f"{said}. Name one: --events FILE_OR_FOLDER (change events), --ddl FILE (a schema "
            "dump), --postgres (a live database) or --table SCHEMA.TABLE (a table of events).",
        )
    if answers.format and answers.format not in words.FORMATS:
        yield Problem(
            "--format",
            f"unknown format `{answers.format}`. The formats are {', '.join(words.FORMATS)}.",
        )
    if answers.raw_table and not _RELATION.fullmatch(answers.raw_table):
        yield Problem(
            "--raw-table",
            f"`{answers.raw_table}` is no table. Write SCHEMA.TABLE; {{table}} stands for the "
            "name of each table.",
        )
    if answers.raw_table and answers.table:
        yield Problem("--raw-table", "--table names the raw table already. Leave --raw-table out.")
    if answers.payload and not answers.raw_table:
        yield Problem(
            "--payload", "it names a column of --raw-table, which is not given. Name both, or none."
        )
    if answers.table and not re.fullmatch(r"\w+\.\w+", answers.table):
        yield Problem("--table", f"`{answers.table}` is no table. Write SCHEMA.TABLE.")
    if answers.table and not _warehouse(answers).is_dir():
        yield Problem(
            "--warehouse",
            f"{_warehouse(answers)} is no folder. Name the folder that holds the table "
            f"{answers.table}: `warehouse` of the profile that wrote it.",
        )
    if "'" in answers.warehouse or '"' in answers.warehouse:
        yield Problem("--warehouse", f"`{answers.warehouse}` holds a quote. Choose another folder.")
    for text in answers.sequence_by:
        expression = of_table(text)[1]
        if found := fault(expression):
            yield Problem("--sequence-by", f"`{expression}`: {found}.")


def _warehouse(answers: Answers) -> Path:
    return (answers.folder / Path(answers.warehouse or "warehouse").expanduser()).resolve()


def _taken(answers: Answers) -> Iterator[Problem]:
    """Whether the folder is free but for hidden files, an environment and what is looked at."""
    folder = answers.folder
    if folder.exists() and not folder.is_dir():
        yield Problem("FOLDER", f"{folder} is a file. Name an empty or a new folder.")
        return
    own = {path.resolve() for path in (answers.events, answers.ddl) if path}
    if answers.table:
        own.add(_warehouse(answers))
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    names = [
        path.name
        for path in there
        if path.name[0] != "."
        and not (path / "pyvenv.cfg").exists()
        and not any(path.resolve() in (mine, *mine.parents) for mine in own)
    ]
    if names:
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        yield Problem(
            "FOLDER",
            f"{folder.resolve()} is not empty: it holds {shown}. Name an empty or a new folder: "
            "cdc init FOLDER.",
        )


def _package(answers: Answers, problems: list[Problem]) -> Package | None:
    given = answers.package or installed_package()
    if not given:
        problems.append(
            Problem(
                "--package",
                "nothing says where the dbt package is: dbt-spark-cdc was installed from a wheel "
                "or an index. Name the folder of the package, or its git address with a tag: "
                "--package ADDRESS@TAG.",
            )
        )
        return None
    git = _GIT.fullmatch(given)
    if git is None:
        return _local_package(answers, given, problems)
    if urlsplit(git["address"]).password:
        problems.append(
            Problem(
                "--package",
                f"the address of {urlsplit(git['address']).hostname} holds a password, which "
                "would be written into packages.yml. Leave it out, and let git ask for it.",
            )
        )
        return None
    if not git["tag"]:
        problems.append(
            Problem("--package", f"`{given}` names no revision. Write {given}@TAG or @COMMIT.")
        )
        return None
    return Package(git["address"], git["tag"])


def _local_package(answers: Answers, given: str, problems: list[Problem]) -> Package | None:
    folder = Path(given).expanduser()
    if not _is_package(folder):
        problems.append(
            Problem(
                "--package",
                f"{given} holds no dbt package `cdc`. Name the folder of its dbt_project.yml, or "
                "its git address with a tag: ADDRESS@TAG.",
            )
        )
        return None
    if folder.is_absolute():
        return Package(folder.as_posix())
    # dbt takes it relative to the project.
    return Package(Path(os.path.relpath(folder.resolve(), answers.folder.resolve())).as_posix())


def _look(
    answers: Answers, option: str, copies: list[tuple[Path, Path]]
) -> Iterator[tuple[str, NewTable]]:
    """Yields each table under the name that the source has for it."""
    if option == "--events":
        yield from _from_events(answers, copies)
    elif option == "--table":
        yield from _from_table(answers)
    else:
        schemas = read_postgres() if answers.postgres else read_ddl(answers.ddl or Path())
        wanted = [schema for schema in schemas if _is_wanted(answers.only, schema.title)]
        _check_schemas(answers, wanted)
        for schema in wanted or schemas:
            yield schema.title, _from_schema(answers, schema)


def _is_wanted(only: Sequence[str], name: str) -> bool:
    """Whether a table is among those that were asked for, with or without its schema."""
    table = name.rpartition(".")[2]
    names = {name.lower(), table.lower(), identifier_of(table)}
    return not only or any(one.lower() in names for one in only)


# Files and folders of change events


def _from_events(
    answers: Answers, copies: list[tuple[Path, Path]]
) -> Iterator[tuple[str, NewTable]]:
    path = answers.events
    assert path is not None
    topics = _topics(path)
    size = sum(file.stat().st_size for files in topics.values() for file in files)
    if not answers.raw_table and size > MOST_BYTES:
        raise Unreadable(
            f"{path} holds {size / 1024**3:.1f} GiB, which would be copied into {LANDING}/. Name a "
            f"part of it now, and set CDC_LANDING to the whole folder when the project stands."
        )
    faults = []
    for name, files in topics.items():
        try:
            sample = _sample(name, files, answers.limit)
            found = _recognised(answers, sample)
            new = list(_of_sample(answers, sample, found))
        except Unreadable as exc:
            faults.append(Problem("--events", str(exc)))
            continue
        if not answers.raw_table:
            copies += [
                (file, Path(LANDING, new[0][1].folder, _landed_name(file))) for file in files
            ]
        yield from new
    if faults:
        raise BadAnswers(faults)


def _topics(path: Path) -> dict[str, list[Path]]:
    """Change files by topic: a file, the files of a folder, or those of each folder in it."""
    if not path.exists():
        raise Unreadable(f"{path} does not exist. Name a file or folder of change events.")
    if path.is_file():
        return {identifier_of(path.name): [path]}
    entries = _visible(path)
    files = [entry for entry in entries if entry.is_file()]
    folders = {entry: _visible(entry) for entry in entries if entry.is_dir()}
    if files and folders:
        raise Unreadable(
            f"{path} holds files ({files[0].name}) beside folders ({next(iter(folders)).name}). "
            "Name a folder of files of one topic, or a folder with a folder for each topic."
        )
    if files:
        return {identifier_of(path.resolve().name): files}
    topics = {
        identifier_of(folder.name): [file for file in inside if file.is_file()]
        for folder, inside in folders.items()
    }
    if empty := [folder.name for folder, inside in folders.items() if not inside]:
        raise Unreadable(f"{path} holds folders without files: {', '.join(empty)}. Remove them.")
    if not topics:
        raise Unreadable(f"{path} is a folder without files. Name one that holds change events.")
    return topics


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.name[0] not in "._")


def _landed_name(file: Path) -> str:
    """A name that says whether the file is packed, and that Spark reads: it takes no colon."""
    name = file.name.replace(":", "_")
    with file.open("rb") as opened:
        packed = opened.read(2) == GZIP
    return f"{name}.gz" if packed and not name.endswith(".gz") else name


def _sample(name: str, files: Sequence[Path], limit: int) -> Sample:
    """The records of all files of a topic, which have to be of one kind."""
    filled = [file for file in files if file.stat().st_size] or files[:1]
    first = read_sample(filled[0], limit)
    records = list(first.records)
    notes, by_line = list(first.notes), first.by_line
    for file in filled[1:]:
        sample = read_sample(file, max(limit - len(records), AT_LEAST))
        if (_kind(sample), _columns(sample)) != (_kind(first), _columns(first)):
            raise Unreadable(
                f"{file} is {_kind(sample)} with {_columns(sample) or 'events'}, and {filled[0]} "
                f"is {_kind(first)} with {_columns(first) or 'events'}. Give the files of each "
                "table a folder of their own."
            )
        records += sample.records
        notes += [note for note in sample.notes if note not in notes]
        by_line = by_line and sample.by_line
    return replace(first, name=name, records=records, notes=notes, by_line=by_line)


def _kind(sample: Sample) -> str:
    return f"{sample.kind} with events in {sample.payload}" if sample.payload else sample.kind


def _columns(sample: Sample) -> str:
    """The columns of rows, for a message; those of events in JSON differ from line to line."""
    if sample.kind == "json" or sample.payload:
        return ", ".join(sample.beside)
    return ", ".join(sample.types or dict.fromkeys(n for row in sample.records for n in row))


def _recognised(answers: Answers, sample: Sample) -> Recognised:
    """The format of a sample, which has to be that of nearly all its records."""
    found = recognise(sample)
    if found is None:
        raise Unreadable(f"{no_format(sample)} `cdc describe` says more.")
    if answers.format in words.FORMATS and found.format != answers.format:
        raise Unreadable(
            f"{sample.name} is {found.format} ({'; '.join(found.reasons)}), and --format says "
            f"{answers.format}. Leave --format out, or name other events."
        )
    if found.share < ENOUGH:
        raise Unreadable(
            f"only {found.share:.0%} of the {len(sample.records)} records of {sample.name} are "
            f"{found.format}, and the others would go to the quarantine. Take them out."
        )
    if not any(change.after or change.before for change in found.changes):
        raise Unreadable(
            f"{sample.name} is {found.format}, and no event of it holds a row. Name events with "
            "inserts or updates."
        )
    return found


def _of_sample(
    answers: Answers, sample: Sample, found: Recognised
) -> Iterator[tuple[str, NewTable]]:
    """Yields the tables of a topic."""
    as_text = sample.kind == "json" and not found.operation and found.format in AS_TEXT
    if as_text and not answers.raw_table and not sample.by_line:
        raise Unreadable(
            f"the events of {sample.name} do not stand on a line each, as landing needs them. "
            "Rewrite the file: jq -c . FILE, or jq -c '.[]' FILE for an array."
        )
    names = tables_of(found.changes)
    rows = [
        name
        for name in names
        if any(change.after or change.before for change in found.changes if change.table == name)
    ]
    folder = identifier_of(
        rows[0].rpartition(".")[2] if len(rows) == 1 and rows[0] else sample.name
    )
    for name in rows:
        own = replace(found, changes=[c for c in found.changes if c.table == name])
        system = answers.system or ("" if "." in name else answers.project_name)
        if answers.raw_table:
            seen = replace(sample, payload=answers.payload or "value") if as_text else sample
        else:
            seen = replace(sample, payload="value", beside=tuple(LANDED)) if as_text else sample
        proposal = propose(seen, own, system)[0]
        table = proposal.config.table
        declaration = dict(proposal.config.declaration)
        if len(names) > 1 and name and found.format not in NAMELESS:
            declaration["source_table"] = name
        if not answers.raw_table and as_text and table != folder:
            declaration["where"] = f"_table = '{folder}'"
        files = None
        if not as_text and not answers.raw_table:
            files = _file_table(sample, declaration)
        schema, raw = _raw_table(answers, table, f"{RAW_SCHEMA}.{RAW_TABLE if as_text else table}")
        config = replace(
            proposal.config,
            schema=schema,
            raw_table=raw,
            declaration=declaration,
            depends_on=(LANDING,) if as_text and not answers.raw_table else (),
        )
        notes = (f"{sample.name}: {found.format}, {found.sure}", *proposal.notes)
        place = "" if answers.raw_table else folder
        yield name or table, NewTable(config, notes, place, files)


def _file_table(sample: Sample, declaration: dict[str, Any]) -> FileTable:
    """The Spark table that shows the rows of CSV, JSON or Parquet files.

    The columns of text files are text there, so that a value which does not fit the declared type
    goes to the quarantine and is not NULL; what orders the events is cast in the declaration.
    """
    declaration.setdefault("origin", "_metadata.file_name")
    if sample.kind == "parquet":
        columns = tuple(Column(name, kind) for name, kind in sample.types.items())
        return FileTable("parquet", columns, ())
    names = [sample.payload, *sample.beside] if sample.payload else []
    names = names or list(dict.fromkeys(name for row in sample.records for name in row))
    order = declaration.get("sequence_by")
    if isinstance(order, str) and order.strip("`") in names:
        values = [row.get(order.strip("`")) for row in sample.records]
        of = "decimal(38,0)" if sample.payload else of_values(values, False)
        if of not in ("", "string"):
            declaration["sequence_by"] = f"try_cast({order} as {of})"
    columns = tuple(Column(name, _CDF_TYPES.get(name, "string")) for name in names)
    reader = {"multiLine": "true" if sample.kind == "csv" or not sample.by_line else "false"}
    if sample.kind == "csv":
        # As everybody but Spark writes CSV; and a file with other columns is an error.
        reader |= {**sample.reader, "escape": '"', "enforceSchema": "false"}
    return FileTable(sample.kind, columns, tuple(reader.items()))


def _raw_table(answers: Answers, table: str, default: str) -> tuple[str, str]:
    relation = (answers.raw_table or default).replace("{table}", table)
    schema, _, name = relation.rpartition(".")
    return schema, name


# A table of the warehouse


def _from_table(answers: Answers) -> Iterator[tuple[str, NewTable]]:
    from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials

    from dbt_spark_cdc.spark_table import first_rows

    log = _warehouse(answers).parent / "logs" / "spark.log"
    credentials = SparkCdcCredentials(
        schema="default", warehouse=str(_warehouse(answers)), spark_log=str(log)
    )
    sample = first_rows(answers.table, credentials, answers.limit)
    found = _recognised(answers, sample)
    for proposal in propose(sample, found, answers.system):
        notes = (f"{sample.name}: {found.format}, {found.sure}", *proposal.notes)
        yield proposal.config.table, NewTable(proposal.config, notes)


# Schemas


def _check_schemas(answers: Answers, schemas: Sequence[TableSchema]) -> None:
    """Raises BadAnswers where the events of the tables cannot be what the options say."""
    problems = []
    option = "--postgres" if answers.postgres else "--ddl"
    kind, raw = answers.format, answers.raw_table
    if not kind:
        problems.append(
            Problem(
                "--format",
                f"{option} shows tables and not how their changes look. Name one of "
                f"{', '.join(words.FORMATS)}; `cdc describe FILE` tells the format of a file.",
            )
        )
    if kind in ("flagged", "delta_cdf") and not raw:
        problems.append(
            Problem(
                "--raw-table",
                f"events of the format {kind} are rows of a table. Name it with --raw-table "
                "SCHEMA.{table}, or name files with --events in place of " + option + ".",
            )
        )
    if kind == "flagged" and not answers.operation:
        problems.append(
            Problem("--operation", "flagged needs the column that holds I, U or D. Name it.")
        )
    nameless = kind in NAMELESS or (kind == "dms" and not answers.payload)
    if raw and nameless and len(schemas) > 1 and "{table}" not in raw:
        problems.append(
            Problem(
                "--raw-table",
                f"`{raw}` is one table for {len(schemas)} tables, and events of the format {kind} "
                "do not name theirs. Write {table} in it, or name one table with --only.",
            )
        )
    if problems:
        raise BadAnswers(problems)


def _from_schema(answers: Answers, schema: TableSchema) -> NewTable:
    table = identifier_of(schema.name)
    declaration: dict[str, Any] = {"format": answers.format, "keys": list(schema.keys)}
    rows = answers.format in ("flagged", "delta_cdf") or (
        answers.format == "dms" and bool(answers.raw_table) and not answers.payload
    )
    if not answers.raw_table:
        declaration["landed"] = True
    elif not rows:
        declaration["payload"] = answers.payload or "value"
        if answers.format not in NAMELESS and "{table}" not in answers.raw_table:
            declaration["source_table"] = schema.title
    if answers.format == "flagged":
        declaration["operation"] = answers.operation
    if answers.format in ("flagged", "canal") or (answers.format == "dms" and rows):
        landed = answers.format == "canal" and not answers.raw_table
        declaration["sequence_by"] = ["_batch", "_file", "_row"] if landed else TODO
    owner = "" if schema.owner == "public" else identifier_of(schema.owner or "public")
    raw_schema, raw = _raw_table(answers, table, f"{RAW_SCHEMA}.{RAW_TABLE}")
    config = TableConfig(
        table=table,
        system=answers.system or (owner if owner != "public" else "") or answers.project_name,
        schema=raw_schema,
        raw_table=raw,
        declaration=declaration,
        columns=schema.columns,
        partition="",
        history=True,
        description="",
        tags=(),
        depends_on=() if answers.raw_table else (LANDING,),
        freshness={},
    )
    notes = [f"keys: {', '.join(schema.keys)}, the primary key"] if schema.keys else []
    return NewTable(config, tuple(notes), "" if answers.raw_table else table)


# What the options say of tables


def _settled(
    answers: Answers, found: Sequence[tuple[str, NewTable]], problems: list[Problem]
) -> list[NewTable]:
    """The tables that were asked for, as the options complete them."""
    known = [table.config.table for _, table in found]
    for only in answers.only:
        if not any(_is_wanted([only], name) for name, _ in found):
            names = [name for name, _ in found]
            problems.append(Problem("--only", f"there is no table {only}. {_there_are(names)}"))
    wanted = [table for name, table in found if _is_wanted(answers.only, name)]
    keys = _by_table("--key", answers.keys, known, problems)
    orders = _by_table("--sequence-by", answers.sequence_by, known, problems)
    tables = [_complete(table, keys, orders, problems) for table in wanted]
    problems += _doubled(tables)
    return tables


def _there_are(names: Sequence[str]) -> str:
    return f"There are {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}."


def of_table(text: str) -> tuple[str, str]:
    """Returns the table and the value of `TABLE=VALUE`; no table where the value is for all.

    Args:
        text: What an option says.
    """
    match = re.match(r"\s*(\w+)\s*=(?!=)(.*)", text, re.S)
    return (match[1], match[2].strip()) if match else ("", text.strip())


def _by_table(
    option: str, texts: Sequence[str], known: Sequence[str], problems: list[Problem]
) -> dict[str, str]:
    values = {}
    for text in texts:
        table, value = of_table(text)
        if table and table not in known:
            problems.append(Problem(option, f"there is no table {table}. {_there_are(known)}"))
        values[table] = value
    return values


def _complete(
    table: NewTable, keys: Mapping[str, str], orders: Mapping[str, str], problems: list[Problem]
) -> NewTable:
    config, notes = table.config, list(table.notes)
    columns = []
    for column in config.columns:
        bad = words.is_reserved(column.name) or words.NOT_IN_COLUMN.search(column.name)
        if bad:
            notes.append(f"{column.name} is left out: Delta or the package does not take the name")
        else:
            columns.append(column)
    names = tuple(column.name for column in columns)
    declaration = dict(config.declaration)
    order = orders.get(config.table, orders.get("", ""))
    if order:
        declaration["sequence_by"] = order
        notes = [note for note in notes if not note.startswith("order:")] + ["order: as asked for"]
    if declaration.get("sequence_by") == TODO:
        problems.append(
            Problem(
                "--sequence-by",
                f"nothing shows what orders the events of {config.table}. Name a position or time "
                f"of the source: --sequence-by {config.table}=EXPRESSION. "
                f"The columns are {', '.join(names)}.",
                config.table,
                names,
            )
        )
    named = keys.get(config.table, keys.get("", ""))
    if named:
        declaration["keys"] = [] if named.lower() == NO_KEY else words.split_list(named)
        notes = [note for note in notes if not note.startswith("keys:")] + ["keys: as asked for"]
    wrong = [key for key in declaration["keys"] if key not in names]
    if wrong or not (declaration["keys"] or named):
        said = (
            f"{', '.join(wrong)} is no column of {config.table}."
            if wrong
            else f"no key of {config.table} can be found."
        )
        problems.append(
            Problem(
                "--key",
                f"{said} Name its columns: --key {config.table}=COLUMN[,COLUMN], or "
                f"{config.table}={NO_KEY} for rows that are only inserted. "
                f"The columns are {', '.join(names)}.",
                config.table,
                names,
            )
        )
    config = replace(config, columns=tuple(columns), declaration=declaration)
    return replace(table, config=config, notes=tuple(notes))


def _doubled(tables: Sequence[NewTable]) -> Iterator[Problem]:
    """Names that two tables would give to different models: dbt has one name space for all."""
    seen = {LANDING: -1} if any(table.is_landed for table in tables) else {}
    for number, table in enumerate(tables):
        for name in table.models:
            other = seen.setdefault(name.lower(), number)
            if other != number:
                taken = "the model that lands the files" if other < 0 else tables[other].title
                yield Problem(
                    "--only",
                    f"{table.title} would have the model {name}, which {taken} has too. Name the "
                    "tables to take, as SCHEMA.TABLE, one --only for each.",
                )
                break
