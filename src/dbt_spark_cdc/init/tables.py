"""The tables of a new project: from change events, a schema, a database or a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbt_spark_cdc import words
from dbt_spark_cdc.generate.config_table import Column, TableConfig
from dbt_spark_cdc.init.answers import Answers, BadAnswers, Problem, warehouse_of
from dbt_spark_cdc.init.files import LANDING, RAW_SCHEMA, RAW_TABLE, FileTable, NewTable
from dbt_spark_cdc.samples.describe import (
    AS_TEXT,
    LANDED,
    TODO,
    as_renamed,
    identifier_of,
    no_format,
    propose,
    usable_names,
)
from dbt_spark_cdc.samples.recognise import Recognised, recognise, tables_of
from dbt_spark_cdc.samples.records import GZIP, NoRecords, Sample, Unreadable, read_sample
from dbt_spark_cdc.samples.schemas import TableSchema, read_ddl, read_postgres
from dbt_spark_cdc.samples.source_types import of_values

MOST_BYTES = 1024**3
# With more bad events than that the generated test would fail.
ENOUGH = 0.9
# A file is compared with the first one of its folder even where the sample is full.
AT_LEAST = 20
# Formats whose events do not name their table.
NAMELESS = ("change_event", "flagged", "delta_cdf")
# What `sequence_by` can read of landed events, without an order of its own.
_LANDED_COLUMNS = dict.fromkeys(
    ("value", *sorted(LANDED), "_landed_at", "_size", "_modified", "_checksum", "_message"), ""
)
# Columns of Delta's change feed that text files cannot type.
_CDF_TYPES = {"_commit_version": "bigint", "_commit_timestamp": "timestamp"}


def look_at(
    answers: Answers, option: str, copies: list[tuple[Path, Path]]
) -> Iterator[tuple[str, NewTable]]:
    """Yields each table under the name that the source has for it.

    Args:
        answers: Options and answers.
        option: The option that says what to look at.
        copies: Gets the change files to copy, each with its path below the project.

    Raises:
        Unreadable: What the option names cannot be read.
        BadAnswers: Several things are wrong with it.
    """
    if option == "--events":
        yield from _from_events(answers, copies)
    elif option == "--table":
        yield from _from_table(answers)
    else:
        schemas = read_postgres() if answers.postgres else read_ddl(answers.ddl or Path())
        wanted = [schema for schema in schemas if is_wanted(answers.only, schema.title)]
        _check_schemas(answers, wanted)
        for schema in wanted or schemas:
            yield schema.title, _from_schema(answers, schema)


def is_wanted(only: Sequence[str], name: str) -> bool:
    """Whether a table is among those that were asked for, with or without its schema.

    Args:
        only: What was asked for; nothing: all.
        name: The table.
    """
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
            f"part of it now, and set CDC_LANDING to the whole folder once the project works."
        )
    faults = []
    for name, files in topics.items():
        try:
            _check_names(answers, files)
            sample = _sample(name, files, answers.limit)
            found = _recognised(answers, sample)
            new = list(_of_sample(answers, sample, found))
        except Unreadable as exc:
            faults.append(Problem("--events", str(exc)))
            continue
        except BadAnswers as exc:
            faults += exc.problems
            continue
        if not answers.raw_table and any(is_wanted(answers.only, title) for title, _ in new):
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
        return {_topic_of(path.resolve()): files}
    own = {
        folder: [file for file in inside if file.is_file()] for folder, inside in folders.items()
    }
    if deep := [
        f"{folder.name}/{entry.name}"
        for folder, inside in folders.items()
        for entry in inside
        if entry.is_dir()
    ]:
        more = ", ..." if len(deep) > 8 else ""
        raise Unreadable(
            f"{path} holds folders inside of those of its topics: {', '.join(deep[:8])}{more}. "
            "Files in them are not read. Move the files up, into the folder of their topic."
        )
    if empty := [folder.name for folder, inside in own.items() if not inside]:
        raise Unreadable(f"{path} holds folders without files: {', '.join(empty)}. Remove them.")
    topics: dict[str, list[Path]] = {}
    for folder, inside in own.items():
        if topics.setdefault(_topic_of(folder), inside) is not inside:
            raise Unreadable(
                f"{path} holds two folders that would be the topic {_topic_of(folder)}; one of them"
                f" is {folder.name}. Rename one, or name one of them alone."
            )
    if not topics:
        raise Unreadable(f"{path} is a folder without files. Name one that holds change events.")
    return topics


def _topic_of(folder: Path) -> str:
    """The name of a folder as an identifier. Dots are part of it, as in `shop.public.orders`."""
    return identifier_of(folder.name.replace(".", "_"))


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.name[0] not in "._")


def _landed_name(file: Path) -> str:
    """A name that says whether the file is packed, and that Spark reads: it takes no colon."""
    name = file.name.replace(":", "_")
    with file.open("rb") as opened:
        packed = opened.read(2) == GZIP
    return f"{name}.gz" if packed and not name.endswith(".gz") else name


def _check_names(answers: Answers, files: Sequence[Path]) -> None:
    """Raises Unreadable where two files of a topic would be copied to the same name."""
    seen: dict[str, Path] = {}
    for file in () if answers.raw_table else files:
        if (other := seen.setdefault(_landed_name(file), file)) is not file:
            raise Unreadable(
                f"{other} and {file.name} would both be copied as {_landed_name(file)}. Rename one."
            )


def _sample(name: str, files: Sequence[Path], limit: int) -> Sample:
    """The records of all files of a topic, which have to be of one kind."""
    first: Sample | None = None
    empty: NoRecords | None = None
    records: list[Any] = []
    for file in files:
        try:
            sample = read_sample(file, max(limit - len(records), AT_LEAST) if first else limit)
        except NoRecords as exc:
            # A day without a change may have a file, too.
            empty = empty or exc
            continue
        if first is None:
            first, first_file, records = sample, file, list(sample.records)
            rows, notes, by_line = list(sample.rows), list(sample.notes), sample.by_line
            continue
        if (_kind(sample), _columns(sample)) != (_kind(first), _columns(first)):
            raise Unreadable(
                f"{file} is {_kind(sample)} with {_columns(sample) or 'events'}, and {first_file} "
                f"is {_kind(first)} with {_columns(first) or 'events'}. Give the files of each "
                "table a folder of their own."
            )
        records += sample.records
        rows += sample.rows
        notes += [note for note in sample.notes if note not in notes]
        by_line = by_line and sample.by_line
    if first is None:
        raise empty or NoRecords(f"{name} holds no files. Name events.")
    return replace(first, name=name, records=records, rows=rows, notes=notes, by_line=by_line)


def _kind(sample: Sample) -> str:
    return f"{sample.kind} with events in {sample.payload}" if sample.payload else sample.kind


def _columns(sample: Sample) -> str:
    """The columns of rows, for a message; those of events in JSON differ from line to line."""
    if sample.kind == "json" or sample.payload:
        return ", ".join(sample.beside)
    return ", ".join(sample.types or dict.fromkeys(n for row in sample.records for n in row))


def _recognised(answers: Answers, sample: Sample) -> Recognised:
    """The format of a sample, which has to be that of nearly all its records."""
    found = recognise(sample, answers.operation)
    if found is None and answers.operation:
        names = dict.fromkeys(n for row in sample.records if isinstance(row, dict) for n in row)
        raise BadAnswers(
            [
                Problem(
                    "--operation",
                    f"no record of {sample.name} has I, U, D or T, or such a word, in a column "
                    f"{answers.operation}. Name the column that does, or leave the option out if "
                    f"the events are of another format. The columns are {', '.join(names)}.",
                )
            ]
        )
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
            f"the events of {sample.name} are not on one line each, as landing needs them. "
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
        columns = _LANDED_COLUMNS if as_text and not answers.raw_table else {}
        if not as_text and not answers.raw_table:
            columns = _raw_columns(sample)
            files = _file_table(sample, declaration, columns)
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
        yield name or table, NewTable(config, notes, place, files, columns)


def _raw_columns(sample: Sample) -> dict[str, str]:
    """Columns of a raw table, each with the type that puts its texts in order, or none."""
    rows = [row for row in sample.rows or sample.records if isinstance(row, Mapping)]
    names = [sample.payload, *sample.beside] if sample.payload else list(sample.types)
    columns = {}
    for name in names or dict.fromkeys(name for row in rows for name in row):
        values = [value for row in rows if (value := row.get(name)) is not None]
        is_number = bool(values) and all(str(value).strip().isdigit() for value in values)
        of = ""
        if sample.kind in ("csv", "json"):
            of = of_values(values, True)
            is_number = is_number or of == "bigint"
            of = "" if of in ("string", "boolean", "binary") or name in _CDF_TYPES else of
        elif not all(isinstance(value, str) for value in values):
            is_number = False
        is_number = is_number and name not in _CDF_TYPES
        columns[name] = "decimal(38,0)" if is_number else of
    return columns


def _file_table(
    sample: Sample, declaration: dict[str, Any], raw_columns: Mapping[str, str]
) -> FileTable:
    """The Spark table that shows the rows of CSV, JSON or Parquet files.

    The columns of text files are text there, so that a value which does not fit the declared type
    goes to the quarantine and is not NULL; what orders the events is cast in the declaration.
    """
    declaration.setdefault("origin", "_metadata.file_name")
    if sample.kind == "parquet":
        columns = tuple(Column(name, kind) for name, kind in sample.types.items())
        return FileTable("parquet", columns, ())
    order = declaration.get("sequence_by")
    if isinstance(order, str) and (name := order.strip("`")) in raw_columns:
        values = [row.get(name) for row in sample.records]
        of = raw_columns[name] if sample.payload else of_values(values, False)
        if of not in ("", "string"):
            declaration["sequence_by"] = f"try_cast({order} as {of})"
    columns = tuple(Column(name, _CDF_TYPES.get(name, "string")) for name in raw_columns)
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

    from dbt_spark_cdc.samples.spark_table import first_rows

    log = warehouse_of(answers).parent / "logs" / "spark.log"
    credentials = SparkCdcCredentials(
        schema="default", warehouse=str(warehouse_of(answers)), spark_log=str(log)
    )
    sample = first_rows(answers.table, credentials, answers.limit)
    found = _recognised(answers, sample)
    for proposal in propose(sample, found, answers.system):
        notes = (f"{sample.name}: {found.format}, {found.sure}", *proposal.notes)
        yield (
            proposal.config.table,
            NewTable(proposal.config, notes, raw_columns=_raw_columns(sample)),
        )


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
    usable = {} if rows else usable_names([column.name for column in schema.columns])
    if usable:
        declaration["keys"] = [usable.get(key, key) for key in schema.keys]
        declaration["renames"] = {new: name for name, new in usable.items()}
    if not answers.raw_table:
        declaration["landed"] = True
        if schema.partitions:
            folders = [table, *(name.rpartition(".")[2] for name in schema.partitions)]
            texts = (name.replace("\\", "\\\\").replace("'", "\\'") for name in folders)
            listed = "', '".join(texts)
            declaration["where"] = f"_table in ('{listed}')"
    elif not rows:
        declaration["payload"] = answers.payload or "value"
        if answers.format not in NAMELESS and "{table}" not in answers.raw_table:
            declaration["source_table"] = (
                [schema.title, *schema.partitions] if schema.partitions else schema.title
            )
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
        columns=tuple(
            replace(column, name=usable.get(column.name, column.name)) for column in schema.columns
        ),
        partition="",
        history=True,
        description="",
        tags=(),
        depends_on=() if answers.raw_table else (LANDING,),
        freshness={},
    )
    notes = [f"keys: {', '.join(schema.keys)}, the primary key"] if schema.keys else []
    notes += as_renamed(usable)
    if schema.partitions and not rows:
        notes.append(_of_partitions(schema, declaration))
    if answers.raw_table:
        return NewTable(config, tuple(notes))
    return NewTable(config, tuple(notes), table, raw_columns=_LANDED_COLUMNS)


def _of_partitions(schema: TableSchema, declaration: Mapping[str, Any]) -> str:
    """What to do about changes that carry the names of partitions."""
    shown = ", ".join(schema.partitions[:5]) + (", ..." if len(schema.partitions) > 5 else "")
    if "source_table" in declaration:
        remedy = "source_table lists them; add each partition that is created later"
    elif declaration.get("landed"):
        remedy = "where lists their folders; add that of each partition which is created later"
    else:
        remedy = "write the changes of all partitions to its raw table"
    return (
        f"partitioned: PostgreSQL's changes name the partition ({shown}), not {schema.title}: "
        f"{remedy}. Only pgoutput can name the table: create the publication that Debezium reads "
        "with publish_via_partition_root."
    )
