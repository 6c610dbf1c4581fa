"""`cdc watch` in a process of its own: new files reach the final table without another start."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SMALL

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 240
TABLES = ("items", "others")
SELECTED = "stg_items+ stg_others+"
COMMAND = (sys.executable, "-m", "dbt_spark_cdc.cli", "watch")
SETTINGS = {**SMALL, "spark.driver.memory": "1g"}

RAW = """
  - >-
    create table if not exists {{{{ target.schema }}}}.raw_{table}
    (id int, seq int, op string, a string, batch int)
    using json location '{{{{ env_var("RAW") }}}}/{table}'
"""
FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id']) }}}}
{{{{ cdc.current(ref('stg_{table}')) }}}}
"""
FILES = {
    "dbt_project.yml": """
name: watched
version: 1.0.0
config-version: 2
profile: watched
flags: {send_anonymous_usage_stats: false}
dispatch: [{macro_namespace: dbt, search_order: [watched, cdc, dbt]}]
models: {+file_format: delta}
on-run-start:
""",
    "profiles.yml": """
watched:
  target: local
  outputs:
    local:
      type: sparkcdc
      schema: "{{ env_var('APP_SCHEMA') }}"
      threads: 2
      interpret_small: false
      server_side_parameters: SETTINGS
""",
    "models/sources.yml": """
sources:
  - name: app
    schema: app
    tables:
      - &table
        name: items
        identifier: raw_items
        config:
          meta:
            cdc:
              format: flagged
              keys: [id]
              sequence_by: seq
              operation: op
              arrival: batch
              history: false
        columns: [{name: id, data_type: int}, {name: a, data_type: string}]
      - {<<: *table, name: others, identifier: raw_others}
      # Nobody selects it: it takes no turn, though nothing tells whether it has new data.
      - {<<: *table, name: unread}
""",
}
for table in TABLES:
    FILES["dbt_project.yml"] += RAW.format(table=table)
    FILES[f"models/stg_{table}.sql"] = f"{{{{ cdc.events(source('app', '{table}')) }}}}"
    FILES[f"models/{table}.sql"] = FINAL.format(table=table)


class Watcher:
    """A `cdc watch` that runs, and the lines that it prints."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.raw = folder, folder / "raw"
        for table in TABLES:
            (self.raw / table).mkdir(parents=True)
        for name, text in FILES.items():
            file = folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text.replace("SETTINGS", json.dumps(SETTINGS)))
        (folder / "dbt_packages").mkdir()
        (folder / "dbt_packages" / "cdc").symlink_to(ROOT)
        self.environment = os.environ | {
            "RAW": str(self.raw),
            "APP_SCHEMA": "app",
            "DBT_PROFILES_DIR": str(folder),
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        self.lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.process = subprocess.Popen(
            [*COMMAND, "--json", "--interval", "0.2", "--at-once", "1", "--select", SELECTED],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def arrive(self, table: str, number: int, *events: tuple[int, int, str, str]) -> None:
        """A file of events of a table appears, whole."""
        names = ("id", "seq", "op", "a")
        rows = [
            json.dumps(dict(zip(names, event, strict=True)) | {"batch": number}) for event in events
        ]
        partial = self.raw / table / f"_{number}.partial"
        partial.write_text("\n".join(rows) + "\n")
        partial.rename(self.raw / table / f"{number:04}.json")

    def next(self) -> dict[str, Any]:
        return self.lines.get(timeout=TIMEOUT)


@pytest.fixture
def watcher(tmp_path: Path) -> Iterator[Watcher]:
    watcher = Watcher(tmp_path)
    yield watcher
    watcher.process.kill()
    watcher.process.wait()


def test_new_files_reach_the_final_table_without_another_start(
    watcher: Watcher, spark: Any
) -> None:
    first = watcher.next()
    assert (first["sources"], first["failed"], first["error"]) == ([], {}, None), first

    # A table at once, however many have new data.
    watcher.arrive("items", 1, (1, 1, "I", "a"), (2, 1, "I", "b"))
    watcher.arrive("others", 1, (1, 1, "I", "x"))
    lines = [watcher.next() for _ in TABLES]
    assert sorted(line["sources"] for line in lines) == [["app.items"], ["app.others"]]
    assert all((line["failed"], line["error"]) == ({}, None) for line in lines), lines
    watcher.arrive("items", 2, (1, 2, "U", "c"), (2, 2, "D", ""))
    assert watcher.next()["failed"] == {}

    # A mistake in the project is reported, and corrected while it runs.
    sources = watcher.folder / "models" / "sources.yml"
    sources.write_text(FILES["models/sources.yml"].replace("format: flagged", "format: flaged"))
    watcher.arrive("items", 3, (3, 3, "I", "d"))
    line = watcher.next()
    assert line["failed"] or line["error"], line
    sources.write_text(FILES["models/sources.yml"])
    while line["failed"] or line["error"]:
        line = watcher.next()

    watcher.process.send_signal(signal.SIGTERM)
    assert watcher.process.wait(TIMEOUT) == 0
    warehouse = watcher.folder / "warehouse" / "app.db"
    for table, expected in {"items": [(1, "c"), (3, "d")], "others": [(1, "x")]}.items():
        final = spark.read.format("delta").load(str(warehouse / table))
        found = final.where("_cdc_deleted_at is null").select("id", "a").orderBy("id").collect()
        assert [tuple(row) for row in found] == expected
