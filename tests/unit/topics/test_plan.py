"""Where a run begins to read a topic, and what is refused before anything is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from typing import Any

import pytest

from dbt_spark_cdc.topics.config import MESSAGES_A_BATCH, read_settings
from dbt_spark_cdc.topics.partitions import Landed, Partition, Range, Topic
from dbt_spark_cdc.topics.plan import Plan, plan

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)


def planned(
    found: Mapping[str, Topic],
    landed: Mapping[Landed, int],
    topics: Any = ("a", "b"),
    first: Mapping[Partition, int] | None = None,
    **config: Any,
) -> Plan:
    settings, problems = read_settings(topics, "raw.messages", **config)
    assert not problems

    def first_since(since: datetime, wanted: Collection[Partition]) -> Mapping[Partition, int]:
        assert since == NEW_YEAR
        return {partition: (first or {})[partition] for partition in wanted}

    return plan(found, landed, settings, first_since)


def topic(*partitions: tuple[int, int], id: str = "one") -> Topic:
    return Topic(id, {number: Range(*has) for number, has in enumerate(partitions)})


B = topic((0, 0))


def test_a_partition_goes_on_after_its_last_message() -> None:
    found = {"a": topic((0, 10), (5, 5)), "b": topic((2, 4))}
    assert planned(found, {}) == ({A0: 0, B0: 2}, [], [])
    landed = {Landed("a", "one", 0): 7, Landed("a", "one", 1): 5, Landed("b", "one", 0): 4}
    assert planned(found, landed) == ({A0: 7}, [], [])
    # Messages that retention removed after they were landed are no loss.
    assert planned({"a": topic((7, 10)), "b": B}, landed | {Landed("b", "one", 0): 0}).starts == {
        A0: 7
    }


def test_a_partition_of_which_nothing_is_landed_begins_as_configured() -> None:
    found = {"a": topic((2, 10), (0, 3)), "b": topic((0, 4))}
    landed = {Landed("b", "one", 0): 4}
    first = {A0: 6, A1: 3}
    time = planned(found, landed, starting_offsets="2026-01-01T00:00:00Z", first=first)
    assert time == ({A0: 6}, [], [])
    given = planned(found, landed, starting_offsets={"a": {"0": 9}, "b": {0: 1}})
    assert given == ({A0: 9, A1: 0}, [], [])
    for wrong in (1, 11):
        [problem] = planned(found, landed, starting_offsets={"a": {0: wrong}}).problems
        assert (
            problem == f"starting_offsets: a/0 has offsets 2 to 9, and {wrong} is not one of them"
        )


def test_a_gap_is_a_loss_until_it_is_accepted() -> None:
    landed = {Landed("a", "one", 0): 7}
    found = {"a": topic((9, 12)), "b": B}
    [loss] = planned(found, landed).losses
    assert loss.accepted_as == "a/0 after 6"
    assert "begins with offset 9" in loss.problem
    assert "ends before offset 7" in loss.problem
    assert planned(found, landed, accepted_losses=["a/0 after 6"]) == ({A0: 9}, [], [])
    # What was accepted before says nothing about the next loss.
    again = planned(
        {"a": topic((20, 21)), "b": B}, {Landed("a", "one", 0): 12}, accepted_losses=["a/0 after 6"]
    )
    assert [loss.accepted_as for loss in again.losses] == ["a/0 after 11"]


def test_offsets_that_fall_are_a_loss() -> None:
    landed = {Landed("a", "one", 0): 7}
    found = {"a": topic((2, 6)), "b": B}
    [loss] = planned(found, landed).losses
    assert "the broker has lost messages" in loss.problem
    assert planned(found, landed, accepted_losses=[loss.accepted_as]).starts == {A0: 2}


def test_a_topic_of_the_same_name_is_another_one() -> None:
    landed = {Landed("a", "one", 0): 7, Landed("a", "one", 1): 3}
    found = {"a": topic((0, 100), (1, 50), id="two"), "b": B}
    [loss] = planned(found, landed).losses
    assert loss.accepted_as == "a is two"
    assert "its id was one and is two" in loss.problem
    accepted = planned(found, landed, accepted_losses=["a is two"])
    assert accepted == ({A0: 0, A1: 1}, [], [])
    # Once it has landed something, it is the one that is known.
    landed[Landed("a", "two", 0)] = 100
    assert planned(found, landed) == ({A1: 1}, [], [])
    # Offsets that the configuration has are those of the former topic, for all partitions.
    for config in ({"a": {0: 5, 1: 20}}, {"a": {0: 5, 1: 70}}):
        assert planned(found, landed, starting_offsets=config) == ({A1: 1}, [], [])


def test_topics_that_are_not_there() -> None:
    landed = {Landed("b", "one", 0): 1}
    assert planned({"a": topic((0, 1))}, landed).problems == [
        "the broker has no topic b any more: create it, or correct `topics` in the model's"
        " configuration"
    ]
    by_pattern = planned({"a": topic((0, 1))}, landed, topics="[ab]")
    assert [loss.accepted_as for loss in by_pattern.losses] == ["b is gone"]
    assert planned({"a": topic((0, 1))}, landed, topics="a").losses == []
    [problem] = planned({}, {}, topics="shop.*").problems
    assert problem.startswith("the broker has no topic that matches `shop.*`")


def test_all_that_is_wrong_is_reported_at_once() -> None:
    _, problems = read_settings(
        ["a b", 3],
        "no table",
        starting_offsets="yesterday",
        messages_a_batch=0,
        accepted_losses="a is two",
        connection="spark.cdc",
    )
    expected = [
        "topics: 'a b' is not the name of a topic",
        "topics: 3 is not",
        "raw_table='no table'",
        "starting_offsets='yesterday'",
        "messages_a_batch=0",
        "accepted_losses='a is two'",
        "connection='spark.cdc'",
    ]
    assert len(problems) == len(expected)
    for problem, part in zip(problems, expected, strict=True):
        assert part in problem


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"topics": None}, "topics=None: write a list of names"),
        ({"topics": []}, r"topics=\[\]: write a list"),
        ({"topics": "shop.(x"}, "not a regular expression"),
        ({"messages_a_batch": True}, "a whole number"),
        ({"messages_a_batch": "100"}, "a whole number"),
        ({"starting_offsets": "latest"}, "Write the time from which on"),
        ({"starting_offsets": {"a": 1}}, "offsets by topic and partition"),
        ({"starting_offsets": {"a": {0: -1}}}, "offsets by topic and partition"),
        ({"starting_offsets": {"c": {0: 1}}}, "c is not one of the topics"),
    ],
)
def test_wrong_configuration(config: Mapping[str, Any], said: str) -> None:
    _, [problem] = read_settings(**{"topics": ["a"], "raw_table": "raw.messages"} | config)
    assert re.search(said, problem), problem


def test_configuration() -> None:
    settings, problems = read_settings(r"shop\.[a-z]+", "raw.messages", starting_offsets=NEW_YEAR)
    assert not problems
    assert settings.wants("shop.orders")
    assert not settings.wants("shop.orders2")
    assert (settings.since, settings.messages_a_batch) == (NEW_YEAR, MESSAGES_A_BATCH)
    assert read_settings(["a"], "raw.messages", "2026-01-01")[0].since == NEW_YEAR
