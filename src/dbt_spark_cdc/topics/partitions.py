"""Topics, their partitions and the messages that these have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


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
