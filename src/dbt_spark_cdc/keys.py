"""Key changes: which events belong to one row of the source, through all the keys it had.

The events of a key are cut into segments, the lives lived at that key. An event that moves its row
links the segment it ended at the old key with the one it began at the new key; a chain of linked
segments is an entity. docs/keys.md has the rules. Everything runs on the executors, and a run
relabels only what the keys of new events are linked with.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, LongType, StructType

from dbt_spark_cdc.words import quoted

# What an event does at a key. A move is an arrival at its new key and leaves its old one.
UPSERT, ARRIVAL, END, LEAVE, TRUNCATE = range(5)
# What a segment is to an event: its own, left at the old key, ended by taking its key, or none.
OWN, LEFT, ENDED, NONE = range(4)

OLD = "_old_"
SEGMENTS = ["_segment_id", "_left_segment_id", "_ended_segment_id"]
LABELS = ["_entity_id", "_ended_entity_id"]
ROWS_A_CHUNK = 10_000
# Frames of so few rows go to every executor; Spark cannot know that they are small.
SMALL = 100_000
# So many keys do, too: eight bytes each.
KEYS_APART = 1_000_000
# So many links fit into the memory of one task, some 200 bytes each, where a round costs
# milliseconds. With more, each round is a shuffle.
LINKS_A_TASK = 4_000_000

# The executors of a cluster need not have this package: the functions travel whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def resolve_keys(
    dbt: Any, session: Any, events: DataFrame, keys: Sequence[str] | None = None
) -> DataFrame:
    """The body of a dbt Python model, incremental by merge on `_event_id`.

    Args:
        dbt: What dbt hands to the model.
        session: What dbt hands to the model.
        events: All events in the canonical form, as a staging model gives them.
        keys: Key columns; by default those that have an `_old_` column.

    Returns:
        Events to merge into the model's table: the new ones, and those whose labels changed.
    """
    known = session.table(str(dbt.this)) if dbt.is_incremental else None
    # The adapter says so where the table's checkpoint does not tell what is new.
    return resolve(events, known, keys, reads_all=getattr(dbt, "reads_all", False))


def resolve(
    events: DataFrame,
    known: DataFrame | None = None,
    keys: Sequence[str] | None = None,
    reads_all: bool = False,
) -> DataFrame:
    """Resolves events to entities.

    Args:
        events: Events in the canonical form. Those that `known` has are passed over.
        known: What earlier calls returned: the latest row of each `_event_id`, as it is stored.
            None at first.
        keys: Key columns; by default those that have an `_old_` column.
        reads_all: Whether events of earlier arrivals may be new, too.

    Returns:
        One row for each event that is new or whose labels changed: the columns of `events`, the
        labels, and what later calls need.

    Raises:
        ValueError: The events are not in the canonical form, or `known` cannot tell which of them
            it has.
    """
    keys = list(keys or key_columns(events))
    _refuse_odd_columns(events, keys)
    read_to, last_run = None, None
    if known is not None:
        arrived = F.max("_arrived" if "_arrived" in events.columns else F.lit(None))
        read_to, last_run = known.agg(arrived, F.max("_resolved")).collect()[0]
    if reads_all:
        read_to = None
    # Grows, also when the table was recreated: who reads it by this number misses nothing.
    run = max((last_run or 0) + 1, int(time.time()))

    new = _new_events(events, known, read_to)
    if known is not None:
        _refuse_known_positions(new, known, keys)
    count, truncates = new.agg(F.count("*"), F.count_if(F.col("_op") == "T")).collect()[0]
    if count == 0:
        if read_to is not None:
            _refuse_lower_arrivals(events, read_to)
        nothing = {name: F.lit(None).cast("bigint") for name in (*LABELS, *SEGMENTS)}
        labels = new.select("_event_id").withColumns(nothing)
        return _as_output(new, _never_labelled(labels), run)

    settled = None
    if known is None and not truncates:
        new, settled = _settled_apart(new, keys, count)
    narrow = new.select(*_narrow(new, keys)).withColumns(
        {"_at_key": F.lit(True), "_at_old": F.lit(True)}
    )
    loaded = None
    if known is not None:
        loaded = _affected(known, narrow, keys, everything=truncates > 0).localCheckpoint()
        narrow = narrow.unionByName(loaded, allowMissingColumns=True)
    epochs = None
    if known is not None or truncates:
        ends = [
            frame.where("_op = 'T'").select("_seq", "_event_id")
            for frame in (new, known)
            if frame is not None
        ]
        epochs = ends[0] if len(ends) == 1 else ends[0].unionByName(ends[1])

    parts = _segments(_marks(narrow, keys, epochs))
    if loaded is not None:
        parts = parts.unionByName(_kept_segments(loaded), allowMissingColumns=True)
    found = _by_event(parts).localCheckpoint()
    labels = _labels(found)

    resolved = _as_output(new, _never_labelled(labels), run)
    if settled is not None:
        resolved = resolved.unionByName(_with_run(_never_labelled(settled), new.columns, run))
    if known is None or loaded is None:
        return resolved
    changed = _changed(loaded, labels).localCheckpoint()
    count = changed.count()
    if count == 0:
        return resolved
    # Only now whole rows of the table are read. It may lack a column that the events have by now.
    stored = known.select(*(_column(name) for name in new.columns if name in known.columns))
    stored = new.limit(0).unionByName(stored, allowMissingColumns=True)
    return resolved.unionByName(_as_output(stored, _hint(changed, count), run))


def overwrite_partitions(
    known: DataFrame | None, changes: DataFrame, path: str, partition_by: Sequence[str]
) -> None:
    """Adds what `resolve` returned to plain Parquet files; writes only partitions with a change.

    Plain files have no transactions: a reader may see some partitions as before, others as after.

    Args:
        known: The table as `resolve` read it, or None before the first write.
        changes: What `resolve` returned.
        path: Folder of the table.
        partition_by: Partition columns, of those that the events have.
    """
    changes = changes.localCheckpoint()
    rows = changes
    if known is not None:
        touched = changes.select(*partition_by).distinct()
        kept = known.join(touched, list(partition_by), "left_semi")
        rows = kept.join(changes, "_event_id", "left_anti").unionByName(
            changes, allowMissingColumns=True
        )
    # Dynamic: partitions without rows in the frame stay as they are.
    rows.select(*map(_column, changes.columns)).write.mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).partitionBy(*partition_by).parquet(path)


def key_columns(events: DataFrame) -> list[str]:
    """Returns the key columns: those that have an `_old_` column.

    Args:
        events: Events in the canonical form.
    """
    return [
        name.removeprefix(OLD)
        for name in events.columns
        if name.startswith(OLD) and name.removeprefix(OLD) in events.columns
    ]


def _refuse_odd_columns(events: DataFrame, keys: list[str]) -> None:
    wanted = [*keys, *(OLD + key for key in keys), "_op", "_seq", "_event_id"]
    problems = [f"has no column {name}" for name in wanted if name not in events.columns]
    if not keys:
        problems.append(f"has no column {OLD}<key> beside a column <key>: no key can change")
    if "_event_id" in events.columns and events.schema["_event_id"].dataType != LongType():
        problems.append("has an _event_id that is not a bigint")
    if problems:
        raise ValueError(
            f"The frame of events {', and '.join(problems)}. Pass the staging model whose body is"
            " `cdc.events(source(...))`, of a format that carries old keys."
        )


def _refuse_known_positions(new: DataFrame, known: DataFrame, keys: list[str]) -> None:
    """Events that carried a column all along are others once it is declared."""
    added = [name for name in new.columns if name not in known.columns]
    if not added:
        return
    position = [*keys, "_op", "_seq"]
    there = known.select(*(_column(name).alias(f"_known_{name}") for name in position))
    same = F.lit(True)
    for name in position:
        same = same & _column(name).eqNullSafe(_column(f"_known_{name}"))
    again = new.where("_op <> 'T'").join(there, same, "left_semi").count()
    if again:
        raise ValueError(
            f"{again} events have a position of their key that the resolver's table already has,"
            f" and it has no column {', '.join(added)}: they may be the same ones, read again."
            " Resolve all events again: dbt build --full-refresh --select <this model>, then dbt"
            " build."
        )


def _refuse_lower_arrivals(events: DataFrame, read_to: int) -> None:
    highest = events.agg(F.max("_arrived")).collect()[0][0]
    if highest is not None and highest < read_to:
        raise ValueError(
            f"The resolver's table has read up to arrival {read_to}, and the highest of the events"
            f" is {highest}: it would never read an event again. Resolve all events again: dbt"
            " build --full-refresh --select <this model>, then dbt build."
        )


def _column(name: str) -> Column:
    return F.col(quoted(name))


def _is_move(keys: list[str]) -> Column:
    """Whether an event's row had another key before it."""
    same = F.lit(True)
    for key in keys:
        same = same & _column(key).eqNullSafe(_column(OLD + key))
    return F.col("_op").isin("I", "U") & _column(OLD + keys[0]).isNotNull() & ~same


def _narrow(frame: DataFrame, keys: list[str]) -> list[Column]:
    """What cutting needs of an event: keys, operation, place in the order, transaction."""
    first = F.col("_seq")
    if isinstance(sequence := frame.schema["_seq"].dataType, StructType):
        first = first.getField(sequence.names[0])
    transaction = F.xxhash64(first)
    if "_ts" in frame.columns:
        transaction = F.xxhash64("_ts", F.when(F.col("_ts").isNull(), first))
    return [
        *(_column(name) for key in keys for name in (key, OLD + key)),
        F.col("_op"),
        F.col("_seq"),
        F.col("_event_id"),
        transaction.alias("_transaction"),
    ]


def _new_events(events: DataFrame, known: DataFrame | None, read_to: int | None) -> DataFrame:
    """Events that arrived since the last run, each once, without those that are known."""
    if read_to is not None:
        events = events.where(f"_arrived is null or _arrived > {read_to}")
    new = events.localCheckpoint()
    copies = new.groupBy("_event_id").agg(F.count("*").alias("_copies"))
    count, duplicates = copies.agg(F.count("*"), F.count_if(F.col("_copies") > 1)).collect()[0]
    if duplicates:
        # Few of them, as a rule: only they are put in order.
        twice = _hint(copies.where("_copies > 1").select("_event_id"), duplicates)
        arrived = "_arrived" if "_arrived" in new.columns else F.lit(None)
        first = Window.partitionBy("_event_id").orderBy(arrived)
        firsts = (
            new.join(twice, "_event_id", "left_semi")
            .withColumn("_copy", F.row_number().over(first))
            .where("_copy = 1")
            .select(*map(_column, new.columns))
        )
        new = (
            new.join(twice, "_event_id", "left_anti")
            .select(*map(_column, new.columns))
            .union(firsts)
            .localCheckpoint()
        )
    if known is None or count == 0:
        return new
    again = known.select("_event_id").join(
        _hint(new.select(F.col("_event_id").alias("_new")), count),
        F.col("_event_id") == F.col("_new"),
        "left_semi",
    )
    new = new.join(again, "_event_id", "left_anti").select(*map(_column, new.columns))
    return new.localCheckpoint()


def _affected(known: DataFrame, new: DataFrame, keys: list[str], everything: bool) -> DataFrame:
    """Known events that the new ones may give other labels.

    These are the events of entities that were at a key which the new events touch: only there can a
    chain break or grow.

    Returns:
        Their labels and segments so far; `_at_key` and `_at_old`, whether the key is cut again;
        `_follows` and `_ended_follows`, whether all of the entity is here: it is labelled again.
    """
    stored = known.select(*_narrow(known, keys), *LABELS, *SEGMENTS, "_former_entity_ids")
    stored = stored.where("_op <> 'T'")
    if everything:
        flags = ("_at_key", "_at_old", "_follows", "_ended_follows")
        return stored.withColumns({flag: F.lit(True) for flag in flags})

    old_keys = [OLD + key for key in keys]
    touched = (
        new.select(*(_column(key).alias(f"_touched_{i}") for i, key in enumerate(keys)))
        .union(new.where(_is_move(keys)).select(*map(_column, old_keys)))
        .distinct()
        .localCheckpoint()
    )
    touched = _hint(touched, touched.count())

    def touches(names: list[str]) -> Column:
        condition = F.lit(True)
        for i, name in enumerate(names):
            condition = condition & _column(name).eqNullSafe(F.col(f"_touched_{i}"))
        return condition

    entities = (
        stored.join(touched, touches(keys), "left_semi")
        .select("_entity_id")
        .union(
            stored.where(_is_move(keys))
            .join(touched, touches(old_keys), "left_semi")
            .select("_entity_id")
        )
        .select(F.col("_entity_id").alias("_followed"))
        .distinct()
        .localCheckpoint()
    )
    entities = _hint(entities, entities.count())
    own, ended = (F.col(name) == F.col("_followed") for name in LABELS)
    loaded = (
        stored.join(entities, own, "left_semi")
        .withColumn("_follows", F.lit(True))
        .union(
            # Rare: events that took a key from one of these entities.
            stored.where("_ended_entity_id is not null")
            .join(entities, ended, "left_semi")
            .join(entities, own, "left_anti")
            .withColumn("_follows", F.lit(False))
        )
    )
    for flag, condition, side in [
        ("_ended_follows", ended, entities),
        ("_at_key", touches(keys), touched),
        ("_at_old", touches(old_keys), touched),
    ]:
        loaded = (
            loaded.join(side.withColumn(flag, F.lit(True)), condition, "left")
            .drop(*side.columns)
            .withColumn(flag, F.col(flag).isNotNull())
        )
    return loaded


def _settled_apart(
    events: DataFrame, keys: list[str], count: int
) -> tuple[DataFrame, DataFrame | None]:
    """Divides all events of a table without truncates: most keys have one row, which never moves.

    Returns:
        The events at keys where a row moves or is deleted; the others, with their labels, or None
        where they are not most of them. All events of such a key are one segment, which follows
        none.
    """
    key, old_key = (_segment_id(events, keys, F.lit(is_old)) for is_old in (False, True))
    unsettled = (
        events.where(_is_move(keys) | (F.col("_op") == "D"))
        .select(F.explode(F.array(key, F.when(_is_move(keys), old_key))).alias("_unsettled"))
        .where("_unsettled is not null")
        .distinct()
        .localCheckpoint()
    )
    if unsettled.count() > min(KEYS_APART, count // 2):
        return events, None
    is_unsettled = key == F.col("_unsettled")
    settled = events.join(F.broadcast(unsettled), is_unsettled, "left_anti")
    labels = dict.fromkeys((*LABELS, *SEGMENTS), F.lit(None).cast("bigint"))
    settled = settled.withColumns(labels | {"_entity_id": key, "_segment_id": key})
    return events.join(F.broadcast(unsettled), is_unsettled, "left_semi"), settled


def _segment_id(events: DataFrame, keys: list[str], is_old: Column, *before: Column) -> Column:
    """The id of a segment at an event's key, or at its old one; `before` is what ended the last."""
    identity = []
    for key in keys:
        value = F.when(is_old, _column(OLD + key)).otherwise(_column(key))
        if isinstance(events.schema[key].dataType, IntegralType):
            value = value.cast("bigint")  # that an int becomes one renames nothing
        identity += [value, value.isNull()]  # a hash passes over NULL
    return F.xxhash64(*identity, *before)


def _marks(events: DataFrame, keys: list[str], truncates: DataFrame | None) -> DataFrame:
    """What the events do, key by key; a move stands at both of its keys.

    Returns:
        `_first_id`, the id of the first segment of the key between two truncates; `_next_id`, that
        of the segment which the mark may begin; what puts the marks of a key in order.
    """
    kind = (
        F.when(F.col("_op") == "T", TRUNCATE)
        .when(F.col("_op") == "D", END)
        .when(_is_move(keys), ARRIVAL)
        .otherwise(UPSERT)
    )
    kinds = F.array(
        F.when(F.col("_at_key"), kind), F.when(F.col("_at_old") & _is_move(keys), F.lit(LEAVE))
    )
    marks = events.withColumn("_kind", F.explode(kinds)).where("_kind is not null")
    epoch = F.lit(None).cast("bigint")
    if truncates is not None:
        boundary = F.struct("_seq", "_event_id")
        marks = marks.crossJoin(
            F.broadcast(truncates.agg(F.collect_list(boundary).alias("_truncates")))
        )
        epoch = F.array_max(
            F.filter("_truncates", lambda truncate: truncate["_seq"] < F.col("_seq"))
        )["_event_id"]

    leaves = F.col("_kind") == LEAVE
    return marks.select(
        _segment_id(events, keys, leaves, epoch).alias("_first_id"),
        _segment_id(events, keys, leaves, F.col("_event_id")).alias("_next_id"),
        "_seq",
        F.col("_kind").isin(END, LEAVE).alias("_is_end"),
        "_event_id",
        "_kind",
        "_transaction",
    )


def _segments(marks: DataFrame) -> DataFrame:
    """Cuts the events of each key into segments.

    Returns:
        `_event_id`, `_part`, `_segment_id`: what the segment is to the event.
    """
    return (
        marks.repartition("_first_id")
        .sortWithinPartitions("_first_id", "_seq", "_is_end", "_event_id")
        .select("_event_id", "_kind", "_transaction", "_first_id", "_next_id")
        .mapInArrow(_cut_batches, "_event_id bigint, _part bigint, _segment_id bigint")
    )


def cut_keys(
    event: np.ndarray,
    kind: np.ndarray,
    transaction: np.ndarray,
    first: np.ndarray,
    after: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts whole keys: a segment begins after each end.

    Only where a row arrives at a key that is not free, there is a queue to be kept.

    Args:
        event: Events in order, key after key.
        kind: What they do at the key.
        transaction: The transaction they are of.
        first: Id of the key's first segment, by which keys are distinguished.
        after: Id of the segment that the event may begin.

    Returns:
        Events, what the segment is to each, segments.
    """
    place = np.arange(len(event))
    begins = np.append(True, first[1:] != first[:-1])
    start = np.maximum.accumulate(np.where(begins, place, 0))
    is_end = (kind == END) | (kind == LEAVE)
    last_end = np.append(-1, np.maximum.accumulate(np.where(is_end, place, -1))[:-1])
    segment = np.where(last_end >= start, after[last_end], first)
    part = np.select([kind == LEAVE, kind == TRUNCATE], [LEFT, NONE], OWN)

    displaces = (kind == ARRIVAL) & ~begins & ~np.append(True, is_end[:-1])
    is_crowded = np.isin(start, start[displaces])
    if not is_crowded.any():
        return event, part, segment
    columns = (begins, event, kind, transaction, first, after)
    crowded = zip(*(column[is_crowded].tolist() for column in columns), strict=True)
    found = np.array(list(cut_crowded_keys(crowded)), dtype=np.int64)
    simple = (column[~is_crowded] for column in (event, part, segment))
    events, parts, segments = (np.append(*pair) for pair in zip(simple, found.T, strict=True))
    return events, parts, segments


def cut_crowded_keys(
    marks: Iterable[tuple[bool, int, int, int, int, int]],
) -> Iterator[tuple[int, int, int]]:
    """Cuts keys at which rows arrive before the row there has left, as in `set id = id + 1`.

    The row there waits: the next end at the key in this transaction is its own, and where several
    wait, that of the first. What still waits when the transaction ends was ended by the row that
    took its key.

    Args:
        marks: In order, key after key: whether the key begins, event, kind, transaction, id of the
            key's first segment, id of the segment that the event may begin.

    Yields:
        Event, what the segment is to it, segment.
    """
    waiting: deque[tuple[int, int]] = deque()
    current, is_free, transaction = 0, True, None
    for is_first, event, kind, mark_transaction, first_id, next_id in marks:
        if is_first or mark_transaction != transaction:
            for segment, taker in waiting:
                yield taker, ENDED, segment
            waiting.clear()
            transaction = mark_transaction
        if is_first:
            current, is_free = first_id, True
        if kind in (END, LEAVE):
            part = LEFT if kind == LEAVE else OWN
            if waiting:
                yield event, part, waiting.popleft()[0]
            else:
                yield event, part, current
                current, is_free = next_id, True
            continue
        if kind == ARRIVAL and not is_free:
            waiting.append((current, event))
            current = next_id
        is_free = False
        yield event, OWN, current
    for segment, taker in waiting:
        yield taker, ENDED, segment


def _cut_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    names = ["_event_id", "_part", "_segment_id"]
    for marks in _whole_keys(batches):
        parts = cut_keys(*(column.to_numpy() for column in marks.columns))
        arrays = [pa.array(column, pa.int64()) for column in parts]
        yield from pa.Table.from_arrays(arrays, names).to_batches(max_chunksize=ROWS_A_CHUNK)


def _whole_keys(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The marks of whole keys: the last key of a batch may go on in the next one."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        first = batch.column("_first_id").to_numpy()
        others = np.flatnonzero(first != first[-1])
        last_key = int(others[-1]) + 1 if len(others) else 0
        if last_key:
            yield pa.Table.from_batches([*waiting, batch.slice(0, last_key)])
            waiting = []
        waiting.append(batch.slice(last_key))
    if waiting:
        yield pa.Table.from_batches(waiting)


def _kept_segments(loaded: DataFrame) -> DataFrame:
    """Segments of known events at keys that are not cut again; `_kept` is a label that stays."""
    parts = F.array(
        F.when(
            ~F.col("_at_key"),
            F.struct(
                F.lit(OWN).alias("_part"),
                F.col("_segment_id"),
                F.when(~F.col("_follows"), F.col("_entity_id")).alias("_kept"),
            ),
        ),
        F.when(
            ~F.col("_at_old") & F.col("_left_segment_id").isNotNull(),
            F.struct(
                F.lit(LEFT).alias("_part"),
                F.col("_left_segment_id").alias("_segment_id"),
                F.lit(None).cast("bigint").alias("_kept"),
            ),
        ),
        F.when(
            ~F.col("_at_key") & F.col("_ended_segment_id").isNotNull(),
            F.struct(
                F.lit(ENDED).alias("_part"),
                F.col("_ended_segment_id").alias("_segment_id"),
                F.when(~F.col("_ended_follows"), F.col("_ended_entity_id")).alias("_kept"),
            ),
        ),
    )
    return (
        loaded.select("_event_id", F.explode(parts).alias("_kept_part"))
        .where("_kept_part is not null")
        .select("_event_id", "_kept_part.*")
    )


def _by_event(parts: DataFrame) -> DataFrame:
    """One row an event, with its segments."""
    kept = F.col("_kept") if "_kept" in parts.columns else F.lit(None).cast("bigint")

    def of(part: int, value: Column) -> Column:
        return F.max(F.when(F.col("_part") == part, value))

    return parts.groupBy("_event_id").agg(
        *(of(part, F.col("_segment_id")).alias(name) for part, name in enumerate(SEGMENTS)),
        of(OWN, kept).alias("_kept_own"),
        of(ENDED, kept).alias("_kept_ended"),
    )


def _labels(found: DataFrame) -> DataFrame:
    """Follows the links to the first segment of each entity, whose id is the entity's."""
    # Of an entity that keeps its label not all links need be here.
    links = found.where("_left_segment_id is not null and _kept_own is null").select(
        F.col("_segment_id").alias("_linked"), F.col("_left_segment_id").alias("_parent")
    )
    count, ended = found.agg(
        F.count_if(F.expr("_left_segment_id is not null and _kept_own is null")),
        F.count("_ended_segment_id"),
    ).collect()[0]
    roots = _hint(find_entities(links, count).localCheckpoint(), count)

    def with_label(frame: DataFrame, label: str, kept: str, segment: str) -> DataFrame:
        entity = F.coalesce(kept, "_entity", segment).alias(label)
        joined = frame.join(roots, F.col(segment) == F.col("_linked"), "left")
        return joined.select(*frame.columns, entity)

    labels = with_label(found, "_entity_id", "_kept_own", "_segment_id")
    others = labels.withColumn("_ended_entity_id", F.lit(None).cast("bigint"))
    if ended == 0:
        return others
    # Apart, since a join on a column that is mostly NULL puts most rows into one task.
    takers = labels.where("_ended_segment_id is not null")
    return others.where("_ended_segment_id is null").union(
        with_label(takers, "_ended_entity_id", "_kept_ended", "_ended_segment_id")
    )


def find_entities(links: DataFrame, count: int, links_a_task: int = LINKS_A_TASK) -> DataFrame:
    """Finds the first segment of the chain that each linked segment is in, by pointer doubling.

    Args:
        links: `_linked`, a segment, and `_parent`, the one it follows; each once at most.
        count: How many.
        links_a_task: Up to how many one task does.

    Returns:
        `_linked`, `_entity`: the first segment, or the smallest one in a circle.
    """
    if count == 0:
        return links.withColumnRenamed("_parent", "_entity")
    if count <= links_a_task:
        return links.repartition(1).mapInArrow(_follow_batches, "_linked bigint, _entity bigint")
    state = links.select(
        "_linked", F.col("_parent").alias("_at"), F.least("_linked", "_parent").alias("_smallest")
    )
    for _ in range(count.bit_length()):
        ahead = state.select(
            F.col("_linked").alias("_at"),
            F.col("_at").alias("_further"),
            F.col("_smallest").alias("_smaller"),
        )
        state = _forgetful(
            state.join(ahead, "_at", "left").select(
                "_linked",
                F.coalesce("_further", "_at").alias("_at"),
                F.least("_smallest", "_smaller").alias("_smallest"),
                F.col("_further").isNotNull().alias("_is_open"),
            )
        )
        if state.where("_is_open").isEmpty():
            break
    # What is open after so many rounds never comes to an end.
    return state.select(
        "_linked",
        F.when(F.col("_is_open"), F.col("_smallest")).otherwise(F.col("_at")).alias("_entity"),
    )


def _forgetful(frame: DataFrame) -> DataFrame:
    """A frame cut off from how it came to be, its estimated size included.

    Spark takes the size of a join for the product of both sides, and a checkpoint keeps that. In a
    loop of joins the number soon has millions of digits; only a cache knows its true size.
    """
    cached = frame.persist()
    cached.count()
    cut = cached.localCheckpoint()
    cached.unpersist()
    return cut


def follow_links(linked: pa.Array, parents: pa.Array) -> tuple[pa.Array, int]:
    """Does in memory what `find_entities` does.

    Args:
        linked: Segments.
        parents: The segment that each follows.

    Returns:
        Entity of each, and in how many rounds it was found.
    """
    index = pc.index_in(parents, value_set=linked)
    is_top = np.asarray(index.is_null())  # its parent follows none
    step = np.where(is_top, np.arange(len(linked)), np.asarray(index.fill_null(-1)))
    at, rounds = step, 0
    while rounds < len(linked).bit_length() and not is_top[at].all():
        at, rounds = at[at], rounds + 1
    circles = np.flatnonzero(~is_top[at])
    if len(circles):
        names = linked.take(pa.array(circles)).to_numpy(zero_copy_only=False)
        _, by_rank, smallest = np.unique(names, return_index=True, return_inverse=True)
        place = np.searchsorted(circles, step[circles])
        for _ in range(len(circles).bit_length()):
            smallest, place = np.minimum(smallest, smallest[place]), place[place]
        at[circles] = len(linked) + circles[by_rank[smallest]]
    return pa.concat_arrays([parents, linked]).take(pa.array(at)), rounds


def _follow_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    links = pa.Table.from_batches(list(batches)).combine_chunks()
    if not links.num_rows:
        return
    linked, parents = (links.column(i).chunk(0) for i in range(2))
    entities, _ = follow_links(linked, parents)
    found = pa.Table.from_arrays([linked, entities], ["_linked", "_entity"])
    yield from found.to_batches(max_chunksize=ROWS_A_CHUNK)


def _changed(loaded: DataFrame, labels: DataFrame) -> DataFrame:
    """Labels of the known events that got another label or segment."""
    names = [*LABELS, *SEGMENTS]
    before = loaded.select(
        "_event_id", *(F.col(name).alias(f"_past{name}") for name in names), "_former_entity_ids"
    )
    is_same = F.lit(True)
    for name in names:
        is_same = is_same & F.col(name).eqNullSafe(F.col(f"_past{name}"))
    past = F.concat("_former_entity_ids", F.array(*(f"_past{name}" for name in LABELS)))
    former = F.array_except(F.array_compact(past), F.array(*LABELS))
    return (
        labels.join(before, "_event_id")
        .where(~is_same)
        .select("_event_id", *names, former.alias("_former_entity_ids"))
    )


def _as_output(events: DataFrame, labels: DataFrame, run: int) -> DataFrame:
    """Events with their labels, as they are stored."""
    return _with_run(events.join(labels, "_event_id"), events.columns, run)


def _with_run(labelled: DataFrame, columns: Sequence[str], run: int) -> DataFrame:
    return labelled.select(
        *map(_column, columns),
        *LABELS,
        "_former_entity_ids",
        *SEGMENTS,
        F.lit(run).cast("bigint").alias("_resolved"),
    )


def _never_labelled(labels: DataFrame) -> DataFrame:
    return labels.withColumn("_former_entity_ids", F.array().cast("array<bigint>"))


def _hint(frame: DataFrame, count: int) -> DataFrame:
    return F.broadcast(frame) if count <= SMALL else frame
