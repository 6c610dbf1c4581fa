"""Landing: change files become rows of an append-only raw Delta table, each file exactly once.

A file is `<folder>/<table>/<file>`; `<table>/<file>` is its name. Every line becomes a row, with
size, modification time and checksum of its file. All new files of a run are one commit, so a run
that dies has landed all of them or none. The raw table alone decides what has landed; the model's
own table is a log derived from it, so that a run need not read the raw table again. docs/landing.md
has the rules.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

import pyarrow as pa
from dbt.adapters.sparkcdc.session.remote import is_remote
from dbt.adapters.sparkcdc.session.settings_scope import INTERPRETED, scoped
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dbt_spark_cdc.landing.folder import Folder, is_little, open_folder
from dbt_spark_cdc.landing.plan import Plan, compare, seen_files
from dbt_spark_cdc.landing.raw_table import (
    ADDED,
    LOG,
    RAW,
    TXN_APP,
    add_columns,
    append,
    compact,
    create_raw,
    last_written,
    summary,
)

# The end of the year 9999, in milliseconds since 1970.
LAST_TIME = 253_402_300_799_000


def land(dbt: Any, session: Any, folder: str, raw: str) -> DataFrame:
    """The body of a dbt Python model, incremental by append; its table logs the landed files.

    Args:
        dbt: What dbt hands to the model.
        session: What dbt hands to the model.
        folder: Landing folder, with a folder for each table below it.
        raw: Raw table, with its schema.

    Returns:
        Rows to append to the log: one for each file that was landed or has to be reported.

    Raises:
        RuntimeError: Delta does not write to the raw table, which somebody restored or changed.
    """
    # Short statements take longer to compile than to run.
    with scoped(session, INTERPRETED):
        known = _read_known(dbt, session, raw)
    # The log may have to be made of all the raw table, or the run that landed files died before it
    # logged them.
    is_behind = known.last > known.logged
    files = known.files + (_rows(summary(session, raw, known.logged)) if is_behind else [])
    source = open_folder(session, folder)
    plan = compare(source.files(), seen_files(files), source.checksum, source.limit)
    is_nothing = not (plan.new or plan.reported or plan.noted)
    if is_nothing and known.log is not None and not is_behind:
        return known.log.limit(0)
    before = max(known.last, known.logged)
    batch = before + 1
    if plan.new or plan.reported:
        # Before the batch is there: its rows are read soon, and from small files of their own.
        compact(dbt, session, raw, known.last, batch)
    with scoped(session, INTERPRETED if is_little(plan.new) and not is_behind else {}):
        if plan.new or plan.reported:
            append(session, raw, batch, source, plan)
        rows = summary(session, raw, known.logged).toArrow()
        if _is_missing(plan, rows, before, source) and not is_remote(session):
            # Delta takes each number once. The rows of that time are gone: the table was restored,
            # or the files of the run were removed before it read them. In this order: what another
            # landing writes meanwhile is seen, or its number is the one that this one takes.
            batch = last_written(session, raw, TXN_APP) + 1
            rows = summary(session, raw, known.logged).toArrow()
            if _is_missing(plan, rows, before, source):
                append(session, raw, batch, source, plan)
                rows = summary(session, raw, known.logged).toArrow()
    if _is_missing(plan, rows, before, source):
        raise RuntimeError(
            f"Delta has not written batch {batch} to {raw}: its log says that the batch was written"
            " before, and its rows are gone. The table was restored or changed by hand. Drop the"
            " raw table and run the landing model again: it lands all files that are still there"
        )
    found = session.createDataFrame(rows, LOG)
    if not plan.noted:
        return found
    now = datetime.now(timezone.utc)
    notes = [
        (f.table, f.name, None, now, 0, 0, problem, f.size, _as_time(f.modified), checksum)
        for f, checksum, problem in plan.noted
    ]
    return found.unionByName(session.createDataFrame(notes, LOG))


class Known(NamedTuple):
    """What the raw table and the log know.

    Attributes:
        log: The model's own table; None where it is to be made.
        last: Last batch of the raw table, -1 where it has none.
        logged: Last batch of the log, -1 where it has none.
        files: The log's rows.
    """

    log: DataFrame | None
    last: int
    logged: int
    files: list[dict[str, Any]]


def _read_known(dbt: Any, session: Any, raw: str) -> Known:
    """Makes the raw table where there is none, and asks both tables."""
    create_raw(session, raw, RAW)
    add_columns(session, raw, ADDED)
    in_raw = session.table(raw).agg(F.max("_batch")).first()[0]
    last = -1 if in_raw is None else in_raw
    log = session.table(str(dbt.this)) if dbt.is_incremental else None
    files = _read_log(log) if log is not None else []
    logged = max((row["_batch"] for row in files if row["_batch"] is not None), default=-1)
    if last < logged:
        # The raw table was dropped or restored: what it has lost is landed again, and notes, which
        # may be about that, are taken again.
        files = [row for row in files if row["_batch"] is not None and row["_batch"] <= last]
    return Known(log, last, logged, files)


def _is_missing(plan: Plan, rows: pa.Table, before: int, source: Folder) -> bool:
    """Whether Delta ignored what was planned: no batch since has a file of it, and one is there."""
    planned = {file.name for file in plan.new} | {file.name for file, *_ in plan.reported}
    landed = zip(rows["_file"].to_pylist(), rows["_batch"].to_pylist(), strict=True)
    if not planned or any(batch > before and name in planned for name, batch in landed):
        return False
    return any(file.name in planned for file in source.files())


def _read_log(log: DataFrame) -> list[dict[str, Any]]:
    """What the log knows; one of a former version lacks columns."""
    names = ("_file", "_batch", "problem", "bytes", "modified_at", "checksum")
    kinds = {"bytes": "bigint", "modified_at": "timestamp", "checksum": "string"}
    return _rows(
        log.select(
            *(
                F.col(name) if name in log.columns else F.lit(None).cast(kinds[name]).alias(name)
                for name in names
            )
        )
    )


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries, through Arrow; a modification time as milliseconds since 1970."""
    if "modified_at" in frame.columns:
        frame = frame.withColumn("modified_at", F.unix_millis("modified_at"))
    return frame.toArrow().to_pylist()


def _as_time(milliseconds: int) -> datetime:
    # Python's times end before those of file systems.
    return datetime.fromtimestamp(min(milliseconds, LAST_TIME) / 1000, timezone.utc)
