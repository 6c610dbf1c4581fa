"""Export: the events of a changelog go to files or to a Kafka topic, commit by commit.

The events come from a model of `cdc.debezium_json`. The table of the exporting model is the log of
what has been exported, and its last commit version is the checkpoint: dbt appends to it after the
events have been written. A run that dies before that writes the same events again, to files of the
same names and content, or to the topic as repeats with the same headers. docs/changes_out.md has
the rules.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from dbt.adapters.sparkcdc.errors import message_of
from dbt.adapters.sparkcdc.session.remote import is_remote
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dbt_spark_cdc.kafka import (
    NO_CONNECTOR,
    client_options,
    connector_is_missing,
    no_broker,
    without_secrets,
)
from dbt_spark_cdc.whole_file import sync

EVENTS = ("key", "value", "_commit_version", "_commit_timestamp", "_position")
LOG = (
    "_commit_version bigint, _commit_timestamp timestamp, destination string, file string,"
    " events bigint, bytes bigint, checksum string, _exported_at timestamp"
)
EVENTS_A_FILE = 1_000_000
FILE_NAME = re.compile(r"(\d{20})-(\d{5})\.jsonl")
PARTIAL_NAME = re.compile(rf"\.{FILE_NAME.pattern}\.\w+\.partial")
ARROW_FILES = pa.schema(
    [
        ("name", pa.string()),
        ("partial", pa.string()),
        ("events", pa.int64()),
        ("bytes", pa.int64()),
        ("checksum", pa.string()),
    ]
)
FILES = "name string, partial string, events bigint, bytes bigint, checksum string"

# The executors of a cluster need not have this package: the functions travel whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Commit(NamedTuple):
    """A commit of the table whose changes are exported.

    Attributes:
        version: Its version.
        at: When it was.
        events: Number of its events.
    """

    version: int
    at: datetime
    events: int


class Written(NamedTuple):
    """A file that is complete under a hidden name.

    Attributes:
        name: The name that it is to have.
        partial: The name that it has.
        events: Number of its lines.
        bytes: Its size.
        checksum: SHA-256 of its content.
    """

    name: str
    partial: str
    events: int
    bytes: int
    checksum: str


def to_files(
    dbt: Any, session: Any, events: DataFrame, folder: str, events_a_file: int = EVENTS_A_FILE
) -> DataFrame:
    """The body of a dbt Python model, incremental by append: each event is in one file, once.

    Args:
        dbt: What dbt hands to the model.
        session: What dbt hands to the model.
        events: A model of `cdc.debezium_json`, `dbt.ref(..)`.
        folder: The folder of this export alone. It is made where it is missing.
        events_a_file: Most events of a file, roughly; a larger commit has several files, by key.

    Returns:
        Rows to append to the log: one for each file.

    Raises:
        ValueError: The events or the options are not what they should be, or the position is lost.
        OSError: The folder cannot be written.
    """
    problems = _problems_of_events(events)
    place = _local_folder(session, folder)
    if place is None:
        problems.append(
            f"it has the folder {folder!r}: write a path of this machine, or one that all machines"
            " of the cluster mount, to the model's configuration (`export_folder`)"
        )
    if isinstance(events_a_file, bool) or not isinstance(events_a_file, int) or events_a_file < 1:
        problems.append(f"it has events_a_file={events_a_file!r}: write a whole number from 1 on")
    _refuse(dbt, problems)
    assert place is not None
    last = _position(dbt, session, events, folder)
    lines = events.where(F.col("value").isNotNull())
    commits = _commits_after(lines, last)
    parts = {commit.version: -(-commit.events // events_a_file) for commit in commits}
    _prepare(dbt, place, last, parts)
    if not commits:
        return session.createDataFrame([], LOG)

    written = write_partials(lines.where(_is_one_of(commits)), place, parts)
    publish(place, written)
    times = {commit.version: commit.at for commit in commits}
    now = datetime.now(timezone.utc)
    rows = []
    for file in written:
        number = _version_of(file.name)
        size = (file.events, file.bytes, file.checksum)
        rows.append((number, times[number], folder, file.name, *size, now))
    return session.createDataFrame(rows, LOG)


def to_kafka(dbt: Any, session: Any, events: DataFrame, topic: str) -> DataFrame:
    """The body of a dbt Python model, incremental by append: each event is sent at least once.

    The headers `commit_version` and `position` order the events of a key. The options of Kafka's
    producer are Spark settings of the profile: `spark.cdc.kafka.bootstrap.servers`, and so on.

    Args:
        dbt: What dbt hands to the model.
        session: What dbt hands to the model.
        events: A model of `cdc.debezium_json`, `dbt.ref(..)`.
        topic: The topic of this export.

    Returns:
        Rows to append to the log: one for each commit.

    Raises:
        ValueError: The events or the options are not what they should be, or the position is lost.
        RuntimeError: Kafka has not taken all events.
    """
    problems = _problems_of_events(events)
    options = client_options(session)
    if not isinstance(topic, str) or not re.fullmatch(r"[\w.-]{1,249}", topic, re.ASCII):
        problems.append(
            f"it has the topic {topic!r}: write a name of letters, digits, `.`, `_` and `-` to the"
            " model's configuration (`export_topic`)"
        )
    problems += no_broker(options)
    _refuse(dbt, problems)
    last = _position(dbt, session, events, topic)
    commits = _commits_after(events, last)
    if not commits:
        return session.createDataFrame([], LOG)
    try:
        messages(events.where(_is_one_of(commits))).write.format("kafka").options(
            **options, topic=topic
        ).save()
    except Exception as exc:
        raise RuntimeError(_kafka_problem(exc, topic, options, commits)) from exc
    now = datetime.now(timezone.utc)
    rows = [(c.version, c.at, topic, None, c.events, None, None, now) for c in commits]
    return session.createDataFrame(rows, LOG)


def messages(events: DataFrame) -> DataFrame:
    """Returns events as Kafka's messages; those of a key are in one partition of Spark, in order.

    Args:
        events: Rows of `cdc.debezium_json`.
    """

    def header(name: str, column: str) -> Column:
        text = F.col(column).cast("string").cast("binary")
        return F.struct(F.lit(name).alias("key"), text.alias("value"))

    headers = [header("commit_version", "_commit_version"), header("position", "_position")]
    return (
        events.repartition(F.col("key"))
        .sortWithinPartitions("_commit_version", "_position")
        .select("key", "value", F.array(*headers).alias("headers"))
    )


def write_partials(lines: DataFrame, folder: Path, parts: Mapping[int, int]) -> list[Written]:
    """Writes all files under hidden names.

    Args:
        lines: Events of `cdc.debezium_json`, without tombstones.
        folder: Where to.
        parts: Number of files of each commit version.

    Returns:
        The files, in the order of their names.

    Raises:
        RuntimeError: Spark has divided a file between two tasks.
    """
    part: Column = F.lit(0)
    for number, files in parts.items():
        if files > 1:
            bucket = F.pmod(F.xxhash64("key"), F.lit(files)).cast("int")
            part = F.when(F.col("_commit_version") == number, bucket).otherwise(part)
    padded = F.format_string("%020d-%05d.jsonl", F.col("_commit_version").cast("bigint"), part)
    target = str(folder)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _write_files(target, batches)

    found = (
        lines.withColumn("_file", padded)
        .repartition(F.col("_file"))
        .sortWithinPartitions("_file", "_position", "key")
        .select("_file", "value")
        .mapInArrow(write, FILES)
        .toArrow()
        .to_pylist()
    )
    written = sorted(Written(**row) for row in found)
    if len({file.name for file in written}) < len(written):
        raise RuntimeError(
            f"Spark has divided a file of {folder} between two tasks: nothing was published. Run"
            " the model again; if that does not help, set `spark.sql.adaptive.enabled: false` in"
            " the profile's server_side_parameters"
        )
    return written


def publish(folder: Path, written: Sequence[Written]) -> None:
    """Gives the files their names, so that a reader who sees a file sees all before it.

    Args:
        folder: Where they are.
        written: The files, in the order of their names.
    """
    for file in written:
        os.replace(folder / file.partial, folder / file.name)
    # The disk has the names before the log says that the files are there.
    if os.name != "nt":  # which opens no folder
        sync(folder)


def _write_files(folder: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes lines (file, value), sorted by file; runs on the executors."""
    lines = (
        line
        for batch in batches
        for line in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    for name, group in groupby(lines, key=itemgetter(0)):
        file = _write_partial(Path(folder), name, (value for _, value in group))
        yield pa.RecordBatch.from_pylist([file._asdict()], schema=ARROW_FILES)


def _write_partial(folder: Path, name: str, values: Iterable[str]) -> Written:
    """Writes a file that no other task writes; runs on the executors."""
    partial = folder / f".{name}.{uuid.uuid4().hex}.partial"
    digest = hashlib.sha256()
    events = size = 0
    try:
        with partial.open("xb") as file:
            for value in values:
                line = value.encode() + b"\n"
                digest.update(line)
                file.write(line)
                events += 1
                size += len(line)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return Written(name, partial.name, events, size, digest.hexdigest())


def _local_folder(session: Any, folder: Any) -> Path | None:
    """The folder as Python reaches it; None where it does not."""
    if not isinstance(folder, str) or not folder:
        return None
    parts = urlsplit(folder)
    if parts.scheme not in ("", "file") or is_remote(session):
        return None
    return Path(unquote(parts.path) if parts.scheme else folder).expanduser().absolute()


def _prepare(dbt: Any, folder: Path, last: int, parts: Mapping[int, int]) -> None:
    """Makes the folder, and removes what a killed run has left under hidden names.

    Raises:
        ValueError: It has files behind the checkpoint that this run would not write.
        OSError: It cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(os.listdir(folder))
        for name in names:
            if PARTIAL_NAME.fullmatch(name):
                (folder / name).unlink()
        probe = folder / f".{uuid.uuid4().hex}"
        probe.touch()
        probe.unlink()
    except OSError as exc:
        raise OSError(
            f"{dbt.this} cannot write to the folder {folder}: {exc.strerror or exc}. Correct"
            " `export_folder` in the model's configuration, or the rights of the folder"
        ) from exc
    if unknown := foreign_files(names, last, parts):
        raise ValueError(
            f"{dbt.this} would not write {unknown[0]}, which is in {folder}"
            + (f" with {len(unknown) - 1} more" if len(unknown) > 1 else "")
            + ": it comes from another export, or from a table that was dropped and built again."
            " Move the files away, or name another folder"
        )


def foreign_files(names: Collection[str], last: int, parts: Mapping[int, int]) -> list[str]:
    """Returns the files behind the checkpoint that no killed run of this export can have left.

    Args:
        names: All files of the folder.
        last: Last commit version that the log has.
        parts: Number of files of each commit version that is to be exported.
    """
    found = []
    for name in sorted(names):
        if match := FILE_NAME.fullmatch(name):
            number, part = int(match[1]), int(match[2])
            if number > last and part >= parts.get(number, 0):
                found.append(name)
    return found


def _problems_of_events(events: DataFrame) -> list[str]:
    missing = [name for name in EVENTS if name not in events.columns]
    if not missing:
        return []
    return [
        f"its events have no column {', '.join(missing)}: give it `dbt.ref(..)` of a model with"
        " `cdc.debezium_json`"
    ]


def _refuse(dbt: Any, problems: Sequence[str]) -> None:
    if problems:
        raise ValueError(f"{dbt.this} cannot export: " + "; ".join(problems))


def _position(dbt: Any, session: Any, events: DataFrame, destination: str) -> int:
    """The last commit version that the log has, -1 where it has none.

    Raises:
        ValueError: The events do not go on from there, or went to another place.
    """
    log = session.table(str(dbt.this)) if dbt.is_incremental else None
    newest = log.orderBy(F.desc("_commit_version")).limit(1).collect() if log is not None else []
    if not newest:
        return -1
    last, rebuild = newest[0], f"dbt run --full-refresh --select {dbt.this.identifier}"
    if last["destination"] != destination:
        raise ValueError(
            f"{dbt.this} has exported to {last['destination']} so far, and {destination} has none"
            f" of these events. `{rebuild}` exports all events to it. If the events were moved"
            f" there, change `destination` in {dbt.this}"
        )
    of_last = events.where(F.col("_commit_version") == last["_commit_version"])
    known = of_last.select("_commit_timestamp").limit(1).collect()
    if not known and events.select("_commit_version").limit(1).isEmpty():
        return int(last["_commit_version"])  # as with --empty: there is nothing to miss
    if not known or known[0]["_commit_timestamp"] != last["_commit_timestamp"]:
        reason = (
            "a commit of another time has that version: the table was dropped and built again"
            if known
            else "the changelog does not have that version any more: it was built again from a"
            " later one, or its table was dropped"
        )
        raise ValueError(
            f"{dbt.this} has exported up to version {last['_commit_version']}, and {reason}."
            f" Nothing was exported. `{rebuild}` exports all that the changelog has"
        )
    return int(last["_commit_version"])


def _commits_after(events: DataFrame, last: int) -> list[Commit]:
    """The commits that have not been exported, in order."""
    found = (
        events.where(F.col("_commit_version") > last)
        .groupBy("_commit_version")
        .agg(F.max("_commit_timestamp").alias("at"), F.count("*").alias("events"))
        .orderBy("_commit_version")
        .collect()
    )
    return [Commit(row["_commit_version"], row["at"], row["events"]) for row in found]


def _is_one_of(commits: Sequence[Commit]) -> Column:
    """The same commits, whatever the changelog has gained since."""
    return F.col("_commit_version").between(commits[0].version, commits[-1].version)


def _version_of(name: str) -> int:
    return int(name.partition("-")[0])


def _kafka_problem(
    exc: Exception, topic: str, options: Mapping[str, str], commits: Sequence[Commit]
) -> str:
    said = without_secrets(message_of(exc), options)
    servers = options["kafka.bootstrap.servers"]
    if NO_CONNECTOR in said:
        return connector_is_missing()
    return (
        f"Kafka at {servers} has not taken all events of versions {commits[0].version} to"
        f" {commits[-1].version} for the topic {topic}: {said}\nCheck that the broker runs, that"
        " the topic exists, and the settings spark.cdc.kafka.* of the profile. The next run sends"
        " all of these events"
    )
