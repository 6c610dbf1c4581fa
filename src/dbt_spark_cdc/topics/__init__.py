"""Landing from Kafka: messages become rows of an append-only raw Delta table, each exactly once.

A run reads what its topics have by then through Structured Streaming, in batches of a bounded
size, and each batch is one commit. Where a run begins follows from the rows of the raw table
alone: there is no checkpoint that could be lost or contradict the table. The model's own table is
a log derived from it, so that a run need not read the raw table again. docs/kafka.md has the rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dbt.adapters.sparkcdc.session.remote import is_remote
from pyspark.sql import DataFrame

from dbt_spark_cdc.kafka import client_options, no_broker
from dbt_spark_cdc.landing.raw_table import add_columns, compact, create_raw, last_written
from dbt_spark_cdc.messages.decoding import Decoder
from dbt_spark_cdc.messages.registry import Registry, Schemas, registry_options
from dbt_spark_cdc.topics.broker import CLIENT_DEFAULTS, open_broker
from dbt_spark_cdc.topics.config import read_settings
from dbt_spark_cdc.topics.log import LOG, read_in_vain, read_known, summary
from dbt_spark_cdc.topics.plan import Loss, plan
from dbt_spark_cdc.topics.raw_table import ADDED, RAW, TXN_APP, land_again, problems_of_raw
from dbt_spark_cdc.topics.stream import Stream


class LostMessages(Exception):
    """Messages are gone that were not landed; the text says which, and how to go on."""


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
    _refuse(dbt, problems_of_raw(session, raw))
    add_columns(session, raw, ADDED)
    # In this order: what another run lands meanwhile shows as a conflict, and never as duplicates.
    written = last_written(session, raw, TXN_APP)
    log = session.table(str(dbt.this)) if dbt.is_incremental else None
    known = read_known(session, raw, log)
    with open_broker(session, options, settings.connection) as broker:
        found = broker.topics(settings)
        todo = plan(found, known.next, settings, broker.first_since)
    _refuse(dbt, todo.problems)
    if todo.losses:
        raise LostMessages(_lost(dbt, todo.losses))

    last, batch = known.last, max(known.last, known.logged, written) + 1
    if decoder is not None and land_again(session, raw, decoder, batch, last):
        last, batch = batch, batch + 1
    if not todo.starts:
        if log is not None and last <= known.logged:
            return log.limit(0)
        return summary(session, raw, known.logged)
    ids = {name: topic.id for name, topic in found.items()}
    stream = Stream(session, options, settings, ids, last, batch, decoder)
    read_to = stream.run(str(dbt.this), todo.starts)
    rows = summary(session, raw, known.logged)
    notes = read_in_vain(rows, known, found, read_to)
    compact(dbt, session, raw, known.last, last_written(session, raw, TXN_APP))
    return rows.unionByName(session.createDataFrame(notes, LOG)) if notes else rows


def _decoder(session: Any, registry: Registry | None, problems: list[str]) -> Decoder | None:
    if registry is None:
        return None
    options, wrong = registry_options(session, registry.connection)
    problems += wrong
    return None if wrong else Decoder(Schemas(registry, options))


def _lost(dbt: Any, losses: Sequence[Loss]) -> str:
    shown = "".join(f"\n  - {loss.problem}" for loss in losses)
    words = ", ".join(json.dumps(loss.accepted_as) for loss in losses)
    return (
        f"{dbt.this} has landed nothing, because messages are gone:{shown}\n"
        "If they still exist elsewhere, restore them first. To go on without them, from the"
        " earliest message that the topic has, add to the model's configuration:"
        f"\n  accepted_losses: [{words}]"
    )


def _refuse(dbt: Any, problems: Sequence[str]) -> None:
    if problems:
        raise ValueError(f"{dbt.this} cannot land messages: " + "; ".join(problems))
