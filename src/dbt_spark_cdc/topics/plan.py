"""Where a run begins to read, and which messages are gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from dbt_spark_cdc.topics.config import Settings
from dbt_spark_cdc.topics.partitions import Landed, Partition, Range, Topic


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
            losses.append(_recreated(name, topic.id, ids[name]))
        for number, has in sorted(topic.partitions.items()):
            partition = Partition(name, number)
            after = landed.get(Landed(name, topic.id, number))
            if after is not None:
                starts[partition] = after
                if loss := _loss(partition, after, has):
                    losses.append(loss)
                    starts[partition] = has.earliest
            elif any(known != topic.id for known in ids.get(name, ())):
                # What the configuration says of offsets was about the former topic.
                starts[partition] = has.earliest
            else:
                unknown[partition] = has
    first = first_since(settings.since, unknown) if settings.since and unknown else settings.offsets
    starts |= {one: first.get(one, has.earliest) for one, has in unknown.items()}
    problems += _wrong_starts(unknown, starts)
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


def _wrong_starts(unknown: Mapping[Partition, Range], starts: Mapping[Partition, int]) -> list[str]:
    """What is wrong with the offsets that the configuration gives partitions."""
    return [
        f"starting_offsets: {partition.topic}/{partition.number} has offsets"
        f" {has.earliest} to {has.end - 1}, and {starts[partition]} is not one of them"
        for partition, has in unknown.items()
        if not has.earliest <= starts[partition] <= has.end
    ]


def _recreated(name: str, topic_id: str, former: Collection[str]) -> Loss:
    """What is lost with a topic in whose place another one is."""
    return Loss(
        f"{name} is {topic_id}",
        f"topic {name} was deleted and created again: its id was"
        f" {', '.join(sorted(former))} and is {topic_id}. What the former topic had"
        " after the last message that was landed is gone",
    )


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
