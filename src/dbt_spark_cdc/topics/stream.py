"""Messages read batch by batch, each batch one commit of the raw table."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc.errors import message_of
from pyspark.sql import DataFrame

from dbt_spark_cdc.kafka import NO_CONNECTOR, connector_is_missing, without_secrets
from dbt_spark_cdc.messages.decoding import Decoder
from dbt_spark_cdc.topics.config import Settings
from dbt_spark_cdc.topics.partitions import Partition
from dbt_spark_cdc.topics.raw_table import append, as_rows


class Stream:
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
            append(rows, self.settings.raw, number, previous)
            return
        # They are read twice: to see which schemas they have, and to decode them.
        messages = messages.persist()
        try:
            rows = as_rows(self.decoder.decode(messages), self.ids).coalesce(self.tasks)
            append(rows, self.settings.raw, number, previous)
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


def _read_to(progress: Iterable[Any]) -> dict[Partition, int]:
    """The offset after the last one that a stream has read, for each partition."""
    found: dict[Partition, int] = {}
    for step in progress:
        for source in json.loads(step.json)["sources"]:
            for topic, partitions in (source["endOffset"] or {}).items():
                found |= {Partition(topic, int(n)): offset for n, offset in partitions.items()}
    return found
