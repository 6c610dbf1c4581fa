"""What a broker has, asked through the client that Spark's connector brings along."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from dbt.adapters.sparkcdc.errors import message_of

from dbt_spark_cdc.kafka import connector_is_missing, without_secrets
from dbt_spark_cdc.topics.config import Settings
from dbt_spark_cdc.topics.partitions import Partition, Range, Topic

COMMITTED = "read_committed"
# How messages are read, unless the profile says otherwise. A broker that restarts is waited for.
CLIENT_DEFAULTS = {
    "kafka.isolation.level": COMMITTED,
    "kafka.request.timeout.ms": "15000",
    "kafka.default.api.timeout.ms": "30000",
}


@contextmanager
def open_broker(session: Any, options: Mapping[str, str], connection: str) -> Iterator[Broker]:
    """Connects to a broker for as long as a block runs.

    Args:
        session: A session inside this process.
        options: The options of Kafka's clients.
        connection: What they are named after in the profile.

    Raises:
        RuntimeError: The connector is missing, or the broker cannot be asked.
    """
    broker = Broker(session, options, connection)
    try:
        yield broker
    finally:
        broker.admin.close()


class Broker:
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
        """Returns the topics that the broker has and that are wanted.

        Args:
            settings: The configuration of the landing model.
        """
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
        """Returns the first offset of partitions from a time on; the end where there is none.

        Args:
            since: The time.
            partitions: The partitions.
        """
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
