"""Landing from Kafka: messages become rows of an append-only raw Delta table, each exactly once.

A run reads what its topics have by then through Structured Streaming, in batches of a bounded
size, and each batch is one commit. Where a run begins follows from the rows of the raw table
alone: there is no checkpoint that could be lost or contradict the table. The model's own table is
a log derived from it, so that a run need not read the raw table again. docs/kafka.md has the rules.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from dbt.adapters.sparkcdc.errors import message_of
from dbt.adapters.sparkcdc.remote import is_remote
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dbt_spark_cdc.decoding import UNKNOWN, Decoder
from dbt_spark_cdc.kafka import (
    CONNECTION,
    NO_CONNECTOR,
    client_options,
    connector_is_missing,
    no_broker,
    without_secrets,
)
from dbt_spark_cdc.landing.raw_table import LANDED, add_columns, create_raw
from dbt_spark_cdc.registry import Registry, Schemas, read_registry, registry_options

MESSAGES_A_BATCH = 500_000
EARLIEST = "earliest"
NOT_TEXT = "value is not valid UTF-8"
COMMITTED = "read_committed"
# How messages are read, unless the profile says otherwise. A broker that restarts is waited for.
CLIENT_DEFAULTS = {
    "kafka.isolation.level": COMMITTED,
    "kafka.request.timeout.ms": "15000",
    "kafka.default.api.timeout.ms": "30000",
}
# Delta ignores or refuses a second commit of the same batch, for instance that of a second run.
TXN_APP = "dbt-spark-cdc topics"
# Where Delta notes the last commit of a session.
LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"

# What raw tables of former versions lack.
ADDED = {"_first_batch": "bigint"}
RAW = {
    **LANDED,
    "key": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
    "key_bytes": "binary",
    "value_bytes": "binary",
    "_topic_id": "string",
    "_previous_batch": "bigint",
    **ADDED,
}
LOG = (
    "topic string, topic_id string, partition int, _batch bigint, _previous_batch bigint,"
    " _landed_at timestamp, first_offset bigint, last_offset bigint, next_offset bigint,"
    " messages bigint, unreadable bigint"
)
TOPIC_NAME = re.compile(r"[\w.-]{1,249}", re.ASCII)


class LostMessages(Exception):
    """Messages are gone that were not landed; the text says which, and how to go on."""


class Range(NamedTuple):
    """The messages that a partition has.

    Attributes:
        earliest: Offset of the first one.
        end: Offset that the next one will have.
    """

    earliest: int
    end: int


class Topic(NamedTuple):
    """A topic as the broker has it.

    Attributes:
        id: Differs between two topics of one name, of which one was deleted.
        partitions: Their messages, by number.
    """

    id: str
    partitions: Mapping[int, Range]


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class Landed(NamedTuple):
    """A partition of a certain topic of that name."""

    topic: str
    topic_id: str
    number: int


class Known(NamedTuple):
    """What the raw table and the log know.

    Attributes:
        last: Last batch of the raw table, -1 where it has none.
        logged: Last batch of the log, -1 where it has none.
        next: The offset after the last one that was landed, for each partition.
    """

    last: int
    logged: int
    next: Mapping[Landed, int]


class Loss(NamedTuple):
    """Messages that are gone.

    Attributes:
        accepted_as: What `accepted_losses` calls it.
        problem: What has happened.
    """

    accepted_as: str
    problem: str


class Plan(NamedTuple):
    """Where a run begins to read.

    Attributes:
        starts: First offset of each partition that has something new.
        losses: What has to be accepted before anything is read.
        problems: What has to be corrected before.
    """

    starts: Mapping[Partition, int]
    losses: Sequence[Loss]
    problems: Sequence[str]


@dataclass(frozen=True)
class Settings:
    """The model's configuration.

    Attributes:
        topics: Names, or a regular expression for whole names.
        raw: Raw table, with its schema.
        since: Messages before that time are not landed.
        offsets: Where partitions begin of which nothing is landed.
        messages_a_batch: Most messages of a batch.
        accepted: Losses that are known.
        connection: The options of Kafka's clients are Spark's settings `spark.cdc.<connection>.*`.
        registry: Where the schemas of messages are; None where messages are text.
    """

    topics: Sequence[str] | re.Pattern[str]
    raw: str
    since: datetime | None = None
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    messages_a_batch: int = MESSAGES_A_BATCH
    accepted: frozenset[str] = frozenset()
    connection: str = CONNECTION
    registry: Registry | None = None

    def wants(self, topic: str) -> bool:
        """Whether a topic is to be landed."""
        if isinstance(self.topics, re.Pattern):
            return self.topics.fullmatch(topic) is not None
        return topic in self.topics


def land(
    dbt: Any,
    session: Any,
    topics: Sequence[str] | str,
    raw_table: str,
    starting_offsets: Any = None,
    messages_a_batch: int | None = None,
    accepted_losses: Sequence[str] | None = None,
    connection: str | None = None,
    registry: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The body of a dbt Python model, incremental by append; its table logs what was landed.

    The options of Kafka's clients are Spark settings of the profile:
    `spark.cdc.kafka.bootstrap.servers`, and so on.

    Args:
        dbt: What dbt hands to the model.
        session: What dbt hands to the model.
        topics: Names of topics, or a regular expression that matches whole names.
        raw_table: Raw table, with its schema.
        starting_offsets: Where a partition begins of which nothing is landed: `earliest`, a time,
            or offsets by topic and partition.
        messages_a_batch: Most messages of a batch.
        accepted_losses: Losses that an error has reported, in its words.
        connection: Another name than `kafka` in the names of the settings.
        registry: Where the schemas are of messages in Avro, Protobuf or JSON with a registry's
            header: `url` of a registry, `folder` of schema files, `columns` that have the header,
            `connection` of its settings.

    Returns:
        Rows to append to the log: one for each batch and partition.

    Raises:
        ValueError: The configuration is not what it should be.
        LostMessages: Messages are gone that were not landed.
        RuntimeError: The broker does not answer, or a batch could not be landed.
    """
    settings, problems = read_settings(
        topics, raw_table, starting_offsets, messages_a_batch, accepted_losses, connection, registry
    )
    if is_remote(session):
        problems.append(
            "Spark Connect does not let it ask the broker: run it on a target with the embedded"
            " Spark, which may be a cluster's (`spark.master`)"
        )
        options: dict[str, str] = {}
    else:
        options = CLIENT_DEFAULTS | client_options(session, settings.connection)
        problems += no_broker(options, settings.connection)
    decoder = _decoder(session, settings.registry, problems)
    _refuse(dbt, problems)
    raw = settings.raw
    create_raw(session, raw, RAW)
    _refuse(dbt, _problems_of_raw(session, raw))
    add_columns(session, raw, ADDED)
    # In this order: what another run lands meanwhile shows as a conflict, and never as duplicates.
    written = _last_written(session, raw)
    log = session.table(str(dbt.this)) if dbt.is_incremental else None
    known = _known(session, raw, log)
    with _broker(session, options, settings.connection) as broker:
        found = broker.topics(settings)
        todo = plan(found, known.next, settings, broker.first_since)
    _refuse(dbt, todo.problems)
    if todo.losses:
        raise LostMessages(_lost(dbt, todo.losses))

    last, batch = known.last, max(known.last, known.logged, written) + 1
    if decoder is not None and _land_again(session, raw, decoder, batch, last):
        last, batch = batch, batch + 1
    if not todo.starts:
        if log is not None and last <= known.logged:
            return log.limit(0)
        return _summary(session, raw, known.logged)
    ids = {name: topic.id for name, topic in found.items()}
    stream = _Stream(session, options, settings, ids, last, batch, decoder)
    read_to = stream.run(str(dbt.this), todo.starts)
    rows = _summary(session, raw, known.logged)
    notes = _read_in_vain(rows, known, found, read_to)
    return rows.unionByName(session.createDataFrame(notes, LOG)) if notes else rows


def read_settings(
    topics: Any,
    raw_table: Any,
    starting_offsets: Any = None,
    messages_a_batch: Any = None,
    accepted_losses: Any = None,
    connection: Any = None,
    registry: Any = None,
) -> tuple[Settings, list[str]]:
    """Returns the configuration of a model, and all that is wrong with it.

    Args:
        topics: As of `land`, as all others.
        raw_table: Raw table.
        starting_offsets: Where partitions begin.
        messages_a_batch: Most messages of a batch.
        accepted_losses: Known losses.
        connection: Name of the connection.
        registry: Where the schemas are.
    """
    problems: list[str] = []
    wanted = _read_topics(topics, problems)
    if not isinstance(raw_table, str) or not re.fullmatch(r"[\w`.]+", raw_table):
        problems.append(
            f"it has raw_table={raw_table!r}: write the name of the table that gets the messages,"
            " such as `shop_raw.messages`"
        )
    since, offsets = _read_start(starting_offsets, problems)
    if isinstance(wanted, list):
        for topic in sorted({partition.topic for partition in offsets} - set(wanted)):
            problems.append(f"starting_offsets: {topic} is not one of the topics")
    most = MESSAGES_A_BATCH if messages_a_batch is None else messages_a_batch
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        problems.append(f"it has messages_a_batch={most!r}: write a whole number from 1 on")
        most = MESSAGES_A_BATCH
    accepted = [] if accepted_losses is None else accepted_losses
    if not isinstance(accepted, list | tuple) or not all(isinstance(a, str) for a in accepted):
        problems.append(
            f"it has accepted_losses={accepted!r}: write a list of what the error has reported"
        )
        accepted = []
    name = CONNECTION if connection is None else connection
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
        problems.append(f"it has connection={name!r}: write a name of letters, digits and `_`")
        name = CONNECTION
    schemas, wrong = read_registry(registry)
    if schemas is not None and schemas.connection == name:
        wrong.append(
            f"registry: its connection is {name}, as Kafka's: give them names of their own, since"
            " the settings of one do not apply to the other"
        )
    settings = Settings(
        wanted, str(raw_table), since, offsets, most, frozenset(accepted), name, schemas
    )
    return settings, problems + wrong


def _decoder(session: Any, registry: Registry | None, problems: list[str]) -> Decoder | None:
    if registry is None:
        return None
    options, wrong = registry_options(session, registry.connection)
    problems += wrong
    return None if wrong else Decoder(Schemas(registry, options))


def _read_topics(topics: Any, problems: list[str]) -> list[str] | re.Pattern[str]:
    if isinstance(topics, str) and topics:
        try:
            return re.compile(topics)
        except re.error as exc:
            problems.append(f"topics: `{topics}` is not a regular expression: {exc}")
            return []
    if not isinstance(topics, list | tuple) or not topics:
        problems.append(
            f"it has topics={topics!r}: write a list of names, or a regular expression that"
            " matches whole names"
        )
        return []
    for topic in topics:
        if not isinstance(topic, str) or not TOPIC_NAME.fullmatch(topic):
            problems.append(
                f"topics: {topic!r} is not the name of a topic, which has letters, digits, `.`,"
                " `_` and `-`. A regular expression is written as text, without a list"
            )
    return [topic for topic in topics if isinstance(topic, str)]


def _read_start(start: Any, problems: list[str]) -> tuple[datetime | None, Mapping[Partition, int]]:
    if start is None or start == EARLIEST:
        return None, {}
    if isinstance(start, datetime):
        return start if start.tzinfo else start.replace(tzinfo=timezone.utc), {}
    if isinstance(start, Mapping):
        offsets, is_wrong = {}, not start
        for topic, partitions in start.items():
            if not isinstance(partitions, Mapping):
                is_wrong = True
                continue
            for number, offset in partitions.items():
                texts = (str(number), str(offset))
                if not all(re.fullmatch("[0-9]{1,18}", text) for text in texts):
                    is_wrong = True
                else:
                    offsets[Partition(str(topic), int(number))] = int(offset)
        if is_wrong:
            problems.append(
                f"it has starting_offsets={start!r}: write offsets by topic and partition, such as"
                " `{shop.orders: {0: 1200, 1: 0}}`"
            )
        return None, offsets
    if start == "latest":
        problems.append(
            "starting_offsets: with `latest`, messages that come between two runs would be left"
            " out as long as nothing is landed. Write the time from which on messages are wanted"
        )
        return None, {}
    try:
        at = datetime.fromisoformat(str(start).replace("Z", "+00:00"))
    except ValueError:
        problems.append(
            f"it has starting_offsets={start!r}: write `{EARLIEST}`, a time such as"
            " `2026-01-31T12:00:00Z`, or offsets by topic and partition"
        )
        return None, {}
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc), {}


def plan(
    found: Mapping[str, Topic],
    landed: Mapping[Landed, int],
    settings: Settings,
    first_since: Callable[[datetime, Collection[Partition]], Mapping[Partition, int]],
) -> Plan:
    """Decides where a run begins to read, and what keeps it from that.

    Args:
        found: The topics that the broker has and that are wanted.
        landed: The offset after the last one that was landed, for each partition.
        settings: The model's configuration.
        first_since: Returns the first offset of partitions from a time on.
    """
    ids: dict[str, set[str]] = {}
    for one in landed:
        ids.setdefault(one.topic, set()).add(one.topic_id)
    losses: list[Loss] = []
    problems = _missing_topics(found, ids, settings, losses)
    starts: dict[Partition, int] = {}
    unknown: dict[Partition, Range] = {}
    for name, topic in sorted(found.items()):
        is_other = name in ids and topic.id not in ids[name]
        if is_other:
            losses.append(
                Loss(
                    f"{name} is {topic.id}",
                    f"topic {name} was deleted and created again: its id was"
                    f" {', '.join(sorted(ids[name]))} and is {topic.id}. What the former topic had"
                    " after the last message that was landed is gone",
                )
            )
        for number, has in sorted(topic.partitions.items()):
            partition = Partition(name, number)
            after = landed.get(Landed(name, topic.id, number))
            if after is not None:
                starts[partition] = after
                if loss := _loss(partition, after, has):
                    losses.append(loss)
                    starts[partition] = has.earliest
            elif is_other:
                starts[partition] = has.earliest
            else:
                unknown[partition] = has
    first = first_since(settings.since, unknown) if settings.since and unknown else settings.offsets
    for partition, has in unknown.items():
        start = starts[partition] = first.get(partition, has.earliest)
        if not has.earliest <= start <= has.end:
            problems.append(
                f"starting_offsets: {partition.topic}/{partition.number} has offsets"
                f" {has.earliest} to {has.end - 1}, and {start} is not one of them"
            )
    new = {
        partition: start
        for partition, start in starts.items()
        if start < found[partition.topic].partitions[partition.number].end
    }
    open_losses = [loss for loss in losses if loss.accepted_as not in settings.accepted]
    return Plan(new, open_losses, problems)


def _missing_topics(
    found: Mapping[str, Topic],
    ids: Mapping[str, Collection[str]],
    settings: Settings,
    losses: list[Loss],
) -> list[str]:
    """What is wrong with topics that the broker does not have."""
    if not isinstance(settings.topics, re.Pattern):
        return [
            f"the broker has no topic {name}"
            + (" any more" if name in ids else "")
            + ": create it, or correct `topics` in the model's configuration"
            for name in settings.topics
            if name not in found
        ]
    for name in sorted(ids):
        if name not in found and settings.wants(name):
            losses.append(
                Loss(
                    f"{name} is gone",
                    f"the broker has no topic {name} any more. What it had after the last message"
                    " that was landed is gone",
                )
            )
    if found or ids:
        return []
    return [
        f"the broker has no topic that matches `{settings.topics.pattern}`: correct `topics` in"
        " the model's configuration, or create one"
    ]


def _loss(partition: Partition, after: int, has: Range) -> Loss | None:
    """What is lost of a partition of which something is landed."""
    name = f"{partition.topic}/{partition.number}"
    if has.earliest > after:
        problem = (
            f"partition {name} begins with offset {has.earliest}, and the raw table ends before"
            f" offset {after}: the messages between them were removed, by the topic's retention or"
            " by hand, before they were landed"
        )
    elif has.end < after:
        problem = (
            f"partition {name} ends before offset {has.end}, and the raw table has messages up to"
            f" offset {after - 1}: the broker has lost messages, and gives their offsets to others"
        )
    else:
        return None
    return Loss(f"{name} after {after - 1}", problem)


def _lost(dbt: Any, losses: Sequence[Loss]) -> str:
    shown = "".join(f"\n  - {loss.problem}" for loss in losses)
    words = ", ".join(json.dumps(loss.accepted_as) for loss in losses)
    return (
        f"{dbt.this} has landed nothing, for messages are gone:{shown}\n"
        "If they still exist elsewhere, restore them first. To go on without them, from the"
        " earliest message that the topic has, add to the model's configuration:"
        f"\n  accepted_losses: [{words}]"
    )


def _refuse(dbt: Any, problems: Sequence[str]) -> None:
    if problems:
        raise ValueError(f"{dbt.this} cannot land messages: " + "; ".join(problems))


def _problems_of_raw(session: Any, raw: str) -> list[str]:
    columns = session.table(raw).columns
    missing = [name for name in RAW if name not in columns and name not in ADDED]
    if not missing:
        return []
    return [
        f"{raw} has no column {', '.join(missing)}, so that it is not a table of messages: name"
        " one of their own in `raw_table`"
    ]


def _known(session: Any, raw: str, log: DataFrame | None) -> Known:
    """What was landed: by the log, and for batches that it lacks by the raw table."""
    last, logged = _last_batch(session.table(raw)), _last_batch(log)
    rows = _summary(session, raw, logged) if last > logged else None
    if log is not None:
        known = log.select(*(part.split()[0] for part in LOG.split(", ")))
        rows = known if rows is None else known.unionByName(rows)
    if rows is None:
        return Known(last, logged, {})
    jumps = rows.where("_batch > _previous_batch + 1").select("_previous_batch", "_batch")
    gaps = [(row[0], row[1]) for row in jumps.distinct().collect()]
    # Where a batch has only messages that were landed before, it says nothing of where to go on.
    is_there = (F.col("_batch") <= last) & F.col("next_offset").isNotNull()
    for before, after in gaps:
        is_there &= ~((F.col("_batch") > before) & (F.col("_batch") < after))
    found = (
        rows.groupBy("topic", "topic_id", "partition")
        .agg(
            F.max(F.when(is_there, F.struct("_batch", "next_offset"))).alias("landed"),
            F.min(F.when(~is_there, F.col("first_offset"))).alias("first_that_is_gone"),
        )
        .selectExpr(
            "topic", "topic_id", "partition", "coalesce(landed.next_offset, first_that_is_gone)"
        )
        .collect()
    )
    return Known(last, logged, {Landed(*row[:3]): row[3] for row in found if row[3] is not None})


def _last_batch(table: DataFrame | None) -> int:
    """The last batch of a table, -1 where it has none."""
    found = None if table is None else table.agg(F.max("_batch")).collect()[0][0]
    return -1 if found is None else int(found)


def _summary(session: Any, raw: str, after: int) -> DataFrame:
    """The rows of the log that the raw table gives for the batches after one."""
    new = F.when(F.col("_first_batch").isNull(), F.col("offset"))
    return (
        session.table(raw)
        .where(F.col("_batch") > after)
        .groupBy("topic", F.col("_topic_id").alias("topic_id"), "partition", "_batch")
        .agg(
            F.min("_previous_batch").alias("_previous_batch"),
            F.min("_landed_at").alias("_landed_at"),
            F.min(new).alias("first_offset"),
            F.max(new).alias("last_offset"),
            (F.max(new) + 1).alias("next_offset"),
            F.count("*").alias("messages"),
            F.count("_problem").alias("unreadable"),
        )
    )


def _read_in_vain(
    rows: DataFrame,
    known: Known,
    found: Mapping[str, Topic],
    read_to: Mapping[Partition, int],
) -> list[tuple[Any, ...]]:
    """Rows of the log for offsets without a message, so that the next run skips them.

    Transactions end with a marker, and compaction leaves gaps.
    """
    landed = {
        Landed(row["topic"], row["topic_id"], row["partition"]): (row["_batch"], row["next_offset"])
        for row in rows.orderBy("_batch").collect()
        if row["next_offset"] is not None
    }
    last = max([known.last, known.logged, *(batch for batch, _ in landed.values())])
    now = datetime.now(timezone.utc)
    notes = []
    for partition, offset in read_to.items():
        key = Landed(partition.topic, found[partition.topic].id, partition.number)
        _, after = landed.get(key, (0, known.next.get(key, -1)))
        if offset > after and last >= 0:
            notes.append((*key, last, last - 1, now, None, None, offset, 0, 0))
    return notes


def _last_written(session: Any, raw: str) -> int:
    """The last batch that Delta's log has: it outlives a restored table."""
    table = session._jvm.io.delta.tables.DeltaTable.forName(session._jsparkSession, raw)
    written = table.deltaLog().unsafeVolatileSnapshot().transactions().get(TXN_APP)
    return int(written.get()) if written.isDefined() else -1


class _Stream:
    """Reads messages batch by batch, each of them one commit."""

    def __init__(
        self,
        session: Any,
        options: Mapping[str, str],
        settings: Settings,
        ids: Mapping[str, str],
        last: int,
        batch: int,
        decoder: Decoder | None = None,
    ) -> None:
        self.session, self.options, self.settings = session, options, settings
        self.ids, self.last, self.batch, self.decoder = ids, last, batch, decoder
        self.tasks = session.sparkContext.defaultParallelism
        self.failure: Exception | None = None

    def run(self, model: str, starts: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Lands what the partitions have now.

        Args:
            model: The model's table, for messages.
            starts: First offset of each partition.

        Returns:
            The offset after the last one that was read, for each partition.

        Raises:
            RuntimeError: A batch could not be landed.
        """
        assigned: dict[str, list[int]] = {}
        for partition in starts:
            assigned.setdefault(partition.topic, []).append(partition.number)
        offsets = {
            topic: {str(number): starts[Partition(topic, number)] for number in numbers}
            for topic, numbers in assigned.items()
        }
        # A checkpoint for as long as the run lasts: what was landed, the raw table says.
        folder = tempfile.mkdtemp(prefix="cdc-topics-")
        query = None
        try:
            query = (
                self.session.readStream.format("kafka")
                .options(
                    **self.options,
                    assign=json.dumps(assigned),
                    startingOffsets=json.dumps(offsets),
                    failOnDataLoss="true",
                    includeHeaders="true",
                    maxOffsetsPerTrigger=str(self.settings.messages_a_batch),
                )
                .load()
                .writeStream.foreachBatch(self._land)
                .option("checkpointLocation", Path(folder).as_uri())
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            return _read_to(query.recentProgress)
        except Exception as exc:
            # Spark reports a failure of the batch as text, with all of Java's and Python's frames.
            raise RuntimeError(self._problem(model, self.failure or exc)) from exc
        finally:
            if query is not None:
                query.stop()
            shutil.rmtree(folder, ignore_errors=True)

    def _land(self, messages: DataFrame, epoch: int) -> None:
        try:
            self._write(messages, epoch)
        except Exception as exc:
            self.failure = exc
            raise

    def _write(self, messages: DataFrame, epoch: int) -> None:
        """Lands a batch, all of it or nothing."""
        number = self.batch + epoch
        previous = number - 1 if epoch else self.last
        if self.decoder is None:
            rows = as_rows(messages, self.ids).coalesce(self.tasks)
            _append(rows, self.settings.raw, number, previous)
            return
        # They are read twice: to see which schemas they have, and to decode them.
        messages = messages.persist()
        try:
            rows = as_rows(self.decoder.decode(messages), self.ids).coalesce(self.tasks)
            _append(rows, self.settings.raw, number, previous)
        finally:
            messages.unpersist()

    def _problem(self, model: str, exc: Exception) -> str:
        said = without_secrets(message_of(exc), self.options)
        if NO_CONNECTOR in said:
            return connector_is_missing()
        return (
            f"{model} has not landed all messages of Kafka at"
            f" {self.options['kafka.bootstrap.servers']}: {said}\n"
            "Nothing of the batch that failed is in the raw table, and the batches before it are"
            " whole. Once the cause is gone, the next run goes on from there"
        )


def _append(rows: DataFrame, raw: str, number: int, previous: int) -> None:
    """Writes a batch, all of it or nothing.

    Raises:
        RuntimeError: Another run was faster.
    """
    session = rows.sparkSession
    session.conf.unset(LAST_COMMIT)
    (
        rows.withColumn("_batch", F.lit(number).cast("bigint"))
        .withColumn("_previous_batch", F.lit(previous).cast("bigint"))
        .select(*RAW)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", TXN_APP)
        .option("txnVersion", number)
        .saveAsTable(raw)
    )
    if session.conf.get(LAST_COMMIT, None) is None:
        raise RuntimeError(f"another run has landed batch {number} of {raw} at the same time")


def _land_again(session: Any, raw: str, decoder: Decoder, number: int, last: int) -> bool:
    """Lands messages once more whose schema nobody knew when they were landed, and somebody does.

    Their first rows stay, as all of an append-only table, and say what was wrong then.
    """
    rows = session.table(raw)
    unknown = rows.where(F.col("_problem").contains(UNKNOWN) & F.col("_first_batch").isNull())
    problems = [row[0] for row in unknown.select("_problem").distinct().collect()]
    if not (solved := [problem for problem in problems if decoder.knows(problem)]):
        return False
    place = ["topic", "_topic_id", "partition", "offset"]
    landed_again = rows.where("_first_batch is not null").select(*place)
    todo = unknown.where(F.col("_problem").isin(solved)).join(landed_again, place, "left_anti")
    sent = [
        F.expr(f"coalesce({name}_bytes, cast({name} as binary))").alias(name)
        for name in ("key", "value")
    ]
    messages = todo.select(
        *place, "timestamp", "headers", *sent, F.col("_batch").alias("_first_batch")
    ).persist()
    try:
        if messages.isEmpty():
            return False
        _append(as_rows(decoder.decode(messages), {}), raw, number, last)
    finally:
        messages.unpersist()
    return True


def as_rows(messages: DataFrame, ids: Mapping[str, str]) -> DataFrame:
    """Returns messages as rows of the raw table, without batch.

    Args:
        messages: As Spark's connector reads them, or decoded; or as they were landed before.
        ids: Ids of the topics, by name, of messages that do not have it.
    """

    def given(name: str, kind: str = "string") -> Column:
        return F.col(name) if name in messages.columns else F.lit(None).cast(kind)

    pairs = [F.lit(text) for pair in sorted(ids.items()) for text in pair]
    id_of = F.element_at(F.create_map(*pairs), F.col("topic")) if pairs else F.col("_topic_id")
    is_text = {name: F.expr(f"is_valid_utf8(cast({name} as string))") for name in ("key", "value")}
    texts = {
        name: F.coalesce(
            given(f"{name}_text"), F.expr(f"make_valid_utf8(cast({name} as string))")
        ).alias(name)
        for name in ("key", "value")
    }
    # The text is what was sent, unless it was decoded or could not be.
    kept = {
        name: F.when(
            ~is_text[name]
            | given(f"{name}_text").isNotNull()
            | given(f"{name}_problem").isNotNull(),
            F.col(name),
        ).alias(f"{name}_bytes")
        for name in ("key", "value")
    }
    not_text = F.when(~is_text["value"] & given("value_text").isNull(), F.lit(NOT_TEXT))
    doubts = [F.coalesce(given("value_problem"), not_text), given("key_problem")]
    return messages.select(
        texts["value"],
        F.expr("concat(topic, '/', partition)").alias("_file"),
        F.col("offset").alias("_row"),
        F.current_timestamp().alias("_landed_at"),
        F.nullif(F.concat_ws("; ", *doubts), F.lit("")).alias("_problem"),
        F.expr("substring_index(topic, '.', -1)").alias("_table"),
        texts["key"],
        "topic",
        "partition",
        "offset",
        "timestamp",
        "headers",
        kept["key"],
        kept["value"],
        id_of.alias("_topic_id"),
        given("_first_batch", "bigint").alias("_first_batch"),
    )


def _read_to(progress: Iterable[Any]) -> dict[Partition, int]:
    """The offset after the last one that a stream has read, for each partition."""
    found: dict[Partition, int] = {}
    for step in progress:
        for source in json.loads(step.json)["sources"]:
            for topic, partitions in (source["endOffset"] or {}).items():
                found |= {Partition(topic, int(n)): offset for n, offset in partitions.items()}
    return found


class _Broker:
    """Asks a broker through the client that Spark's connector brings along."""

    def __init__(self, session: Any, options: Mapping[str, str], connection: str) -> None:
        self.jvm, self.options, self.connection = session._jvm, options, connection
        self.java = self.jvm.org.apache.kafka.clients.admin
        properties = self.jvm.java.util.Properties()
        for name, value in options.items():
            properties.setProperty(name.removeprefix("kafka."), value)
        try:
            create = self.java.AdminClient.create
        except Exception as exc:
            raise RuntimeError(connector_is_missing()) from exc
        if not callable(create):
            raise RuntimeError(connector_is_missing())
        self.admin = self._asked(lambda: create(properties))

    def topics(self, settings: Settings) -> dict[str, Topic]:
        """Returns the topics that the broker has and that are wanted."""
        names = [n for n in self._got(self.admin.listTopics().names()) if settings.wants(n)]
        if not names:
            return {}
        listed = self.jvm.java.util.ArrayList()
        for name in sorted(names):
            listed.add(name)
        described = self._got(self.admin.describeTopics(listed).allTopicNames())
        numbers = {
            name: [one.partition() for one in described[name].partitions()] for name in names
        }
        partitions = [Partition(name, number) for name in names for number in numbers[name]]
        spec = self.java.OffsetSpec
        earliest = self._offsets(partitions, spec.earliest())
        ends = self._offsets(partitions, spec.latest())
        return {
            name: Topic(
                described[name].topicId().toString(),
                {
                    number: Range(earliest[Partition(name, number)], ends[Partition(name, number)])
                    for number in numbers[name]
                },
            )
            for name in names
        }

    def first_since(
        self, since: datetime, partitions: Collection[Partition]
    ) -> dict[Partition, int]:
        """Returns the first offset of partitions from a time on; the end where there is none."""
        spec = self.java.OffsetSpec
        found = self._offsets(partitions, spec.forTimestamp(int(since.timestamp() * 1000)))
        ends = self._offsets([one for one in partitions if found[one] < 0], spec.latest())
        return found | ends

    def _offsets(self, partitions: Collection[Partition], spec: Any) -> dict[Partition, int]:
        if not partitions:
            return {}
        asked = self.jvm.java.util.HashMap()
        named = {}
        for partition in partitions:
            java = self.jvm.org.apache.kafka.common.TopicPartition(*partition)
            asked.put(java, spec)
            named[partition] = java
        level = self.jvm.org.apache.kafka.common.IsolationLevel
        is_committed = self.options["kafka.isolation.level"].lower() == COMMITTED
        options = self.java.ListOffsetsOptions(
            level.READ_COMMITTED if is_committed else level.READ_UNCOMMITTED
        )
        found = self._got(self.admin.listOffsets(asked, options).all())
        return {partition: found[java].offset() for partition, java in named.items()}

    def _got(self, future: Any) -> Any:
        return self._asked(future.get)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as exc:
            servers = self.options["kafka.bootstrap.servers"]
            said = without_secrets(message_of(exc), self.options)
            raise RuntimeError(
                f"Kafka at {servers} could not be asked for its topics: {said}\n"
                "Check that the broker runs, and the settings"
                f" spark.cdc.{self.connection}.* of the profile. Nothing was landed, and the next"
                " run goes on from the last batch"
            ) from exc


@contextmanager
def _broker(session: Any, options: Mapping[str, str], connection: str) -> Iterator[_Broker]:
    broker = _Broker(session, options, connection)
    try:
        yield broker
    finally:
        broker.admin.close()
