"""A build that is killed at any moment, JVM and all, or that finds the disk full."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import string
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.history.changes import FINAL, SNAPSHOTS, SOURCES, events_of
from tests.functional.history.conftest import ROOT
from tests.functional.oracle import Event, histories

# `make soak MINUTES=n` kills a build for each minute. Three are two in a row, and one before a full
# disk.
KILLS = max(3, int(float(os.environ.get("MINUTES", "0"))))
SEED = int(os.environ.get("KILL_SEED", "20261121"))
LIMIT_BYTES = 3 * 1024**2
TIMEOUT = 300

PROJECT = """
name: killed
version: 1.0.0
config-version: 2
profile: killed
flags: {send_anonymous_usage_stats: false}
dispatch: [{macro_namespace: dbt, search_order: [killed, cdc, dbt]}]
models: {+file_format: delta}
on-run-start: >-
  create table if not exists {{ target.schema }}.changes (scenario int, id int, seq int, op string,
  a string, b string, batch int) using json location '{{ env_var("RAW") }}'
"""

PROFILE = """
killed:
  target: local
  outputs:
    local:
      type: sparkcdc
      schema: app
      threads: 2
      quick_start: true
      server_side_parameters:
        spark.driver.memory: 1g
        spark.sql.shuffle.partitions: 1
        spark.sql.codegen.wholeStage: false
        spark.sql.codegen.factoryMode: NO_CODEGEN
        spark.sql.adaptive.enabled: false
"""

FILES = {
    "dbt_project.yml": PROJECT,
    "profiles.yml": PROFILE,
    "models/sources.yml": SOURCES,
    "models/stg_changes.sql": "{{ cdc.events(source('app', 'changes')) }}",
    "models/stg_alone.sql": "{{ cdc.events(source('app', 'alone')) }}",
    "models/changes_final.sql": FINAL.format(read="changes_history"),
    "models/alone_final.sql": FINAL.format(read="stg_alone"),
    "snapshots/snapshots.yml": SNAPSHOTS,
}


class Consumer:
    """A project whose builds run in processes of their own, on a warehouse of its own."""

    def __init__(self, folder: Path, spark: Any) -> None:
        self.folder, self.spark = folder, spark
        self.events: list[Event] = []
        self.raw = folder / "raw"
        self.raw.mkdir()
        for name, text in FILES.items():
            file = folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        (folder / "dbt_packages").mkdir()
        (folder / "dbt_packages" / "cdc").symlink_to(ROOT)

    def put(self, events: list[Event]) -> None:
        """One more file of events arrives, whole."""
        self.events += events
        batch = len(list(self.raw.glob("*.json")))
        lines = [
            json.dumps(
                {
                    **{
                        name: value for name, value in event._asdict().items() if name != "position"
                    },
                    "seq": event.position,
                    "batch": batch,
                }
            )
            for event in events
        ]
        (self.raw / f"{batch:04}.json").write_text("\n".join(lines) + "\n")

    def build(
        self, kill_after: float | None = None, prepare: Callable[[], None] | None = None
    ) -> tuple[int, str, float]:
        """Runs dbt build.

        Args:
            kill_after: Seconds after the first node's start at which everything is killed.
            prepare: What the process does before it becomes dbt.

        Returns:
            Exit status, output, and the seconds from the first node's start to the end.
        """
        with subprocess.Popen(
            [sys.executable, "-c", "from dbt.cli.main import cli; cli()", "build"],
            cwd=self.folder,
            env=os.environ | {"RAW": str(self.raw), "DBT_PROFILES_DIR": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a process group, which the JVM belongs to
            preexec_fn=prepare,
        ) as process:
            assert process.stdout is not None
            output = []
            began = time.monotonic()
            for line in process.stdout:
                output.append(line)
                if " of " in line and " START " in line:
                    began = time.monotonic()
                    break
            if kill_after is not None:
                time.sleep(kill_after)
                os.killpg(process.pid, signal.SIGKILL)
            output.append(process.communicate(timeout=TIMEOUT)[0])
        return process.returncode, "".join(output), time.monotonic() - began

    def table(self, name: str) -> Path:
        """The folder of a table."""
        return self.folder / "warehouse" / "app.db" / name

    def rows(self, columns: str, table: str, where: str = "true") -> set[tuple[Any, ...]]:
        """Reads a table without its metastore, which dbt may still hold."""
        query = f"select {columns} from delta.`{self.table(table)}` where {where}"
        found = [tuple(row) for row in self.spark.sql(query).collect()]
        assert len(found) == len(set(found)), table
        return set(found)

    def check(self) -> None:
        """All tables are those that a plain fold over the events makes."""
        expected = histories(self.events)
        history = "scenario, id, a, b, _seq, _seq_end, _cdc_created_at, _cdc_seq"
        assert self.rows(history, "changes_history") == {tuple(version) for version in expected}
        living = {(v.id, v.a, v.b, v.changed) for v in expected if v.seq_end is None}
        current = "id, a, b, _cdc_seq"
        assert self.rows(current, "changes_final") == living
        assert self.rows(current, "alone_final", "_cdc_deleted_at is null") == living


def limit_files() -> None:
    """Whatever this process and its children write ends at a size, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))


@pytest.mark.soak
def test_killed_at_any_moment_and_a_full_disk(tmp_path: Path, spark: Any) -> None:
    consumer = Consumer(tmp_path, spark)
    moments = random.Random(SEED)
    consumer.put(events_of(1))
    status, output, seconds = consumer.build()
    assert status == 0, output
    consumer.check()

    batch = 1
    for kill in range(KILLS):
        batch += 1
        consumer.put(events_of(batch))
        moment = moments.random() * seconds
        status, output, _ = consumer.build(kill_after=moment)
        print(f"kill {kill}: {moment:.2f} s after the first start, status {status}")
        assert status in (-signal.SIGKILL, 0), output
        if kill % 2 == 0 and kill + 1 < KILLS:  # the next build is killed as well
            continue
        if kill + 1 == KILLS:  # the next build finds the disk full
            break
        status, output, _ = consumer.build()
        assert status == 0, output
        consumer.check()

    # Files that are too large for the disk: the build says so, and the next one makes up for it.
    letters = moments.choices(string.ascii_letters + string.digits, k=100 * 60_000)
    batch += 1
    consumer.put(
        [
            Event(0, number, 10 * batch, "I", "".join(letters[number * 60_000 :][:60_000]), "p")
            for number in range(100)
        ]
    )
    status, output, _ = consumer.build(prepare=limit_files)
    assert status == 1, output
    assert "File too large" in output
    status, output, _ = consumer.build()
    assert status == 0, output
    consumer.check()
