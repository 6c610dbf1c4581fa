"""The configuration of a model that lands topics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from dbt_spark_cdc.kafka import CONNECTION
from dbt_spark_cdc.messages.registry import Registry, read_registry
from dbt_spark_cdc.topics.partitions import Partition

MESSAGES_A_BATCH = 500_000
EARLIEST = "earliest"
TOPIC_NAME = re.compile(r"[\w.-]{1,249}", re.ASCII)


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
        """Whether a topic is to be landed.

        Args:
            topic: Its name.
        """
        if isinstance(self.topics, re.Pattern):
            return self.topics.fullmatch(topic) is not None
        return topic in self.topics


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
            problems.append(
                f"starting_offsets: {topic} is not one of the topics: add it to `topics`, or remove"
                " its offsets"
            )
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


def _read_topics(topics: Any, problems: list[str]) -> list[str] | re.Pattern[str]:
    if isinstance(topics, str) and topics:
        try:
            return re.compile(topics)
        except re.error as exc:
            problems.append(
                f"topics: `{topics}` is not a regular expression ({exc}): correct it, or write a"
                " list of names"
            )
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
