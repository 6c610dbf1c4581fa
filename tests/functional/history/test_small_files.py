"""Small files of tables that are built by one process after another, as a scheduler does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.functional.history.changes import events_of
from tests.functional.history.test_kill import Consumer
from tests.functional.oracle import Event

TABLES = ("changes_history", "changes_final", "alone_final")
# More than the engine leaves alone.
MANY_FILES = 60


def compactions(consumer: Consumer) -> dict[str, int]:
    """How many commits of each table put files together."""
    found = {}
    for table in TABLES:
        commits = sorted((consumer.table(table) / "_delta_log").glob("*.json"))
        actions = [json.loads(line) for file in commits for line in file.read_text().splitlines()]
        infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
        operations = [info["operation"] for info in infos]
        found[table] = operations.count("OPTIMIZE")
    return found


@pytest.mark.soak
def test_files_are_put_together_when_there_are_many(tmp_path: Path, spark: Any) -> None:
    consumer = Consumer(tmp_path, spark)
    rows = [Event(0, 100 + number, 5, "I", "x", "p") for number in range(2 * MANY_FILES)]
    # None of these batches has a truncate: the rows stay.
    for batch, more in ((1, rows), (2, []), (4, [])):
        consumer.put(events_of(batch) + more)
        status, output, _ = consumer.build()
        assert status == 0, output
    consumer.check()
    # Delta's auto compaction would put files together in the first commit of each process.
    assert compactions(consumer) == dict.fromkeys(TABLES, 0)

    for table in TABLES:
        folder = consumer.table(table)
        split = spark.read.format("delta").load(str(folder)).repartition(MANY_FILES)
        split.write.format("delta").mode("overwrite").save(str(folder))
    consumer.put(events_of(5))
    status, output, _ = consumer.build()
    assert status == 0, output
    consumer.check()
    assert compactions(consumer) == dict.fromkeys(TABLES, 1)
