"""A project with many small tables of change events, whose rows are known."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "many"
ROWS = 10
BUILD_SECONDS = 900

PROJECT = """
name: many
version: 1.0.0
config-version: 2
profile: many
flags: {send_anonymous_usage_stats: false}
dispatch: [{macro_namespace: dbt, search_order: [many, cdc, dbt]}]
on-run-start: "{{ cdc.validate() }}"
models: {+file_format: delta}
snapshots: {+file_format: delta}
"""

PROFILE = """
many:
  target: connect
  outputs:
    local:
      type: sparkcdc
      schema: many
      threads: 4
      quick_start: false
      server_side_parameters:
        spark.driver.memory: 2g
        <<: &small
          spark.sql.shuffle.partitions: 1
          spark.sql.codegen.wholeStage: false
          spark.sql.codegen.factoryMode: NO_CODEGEN
          spark.sql.adaptive.enabled: false
    connect:
      type: sparkcdc
      schema: many
      remote: "{{ env_var('CDC_REMOTE', 'sc://localhost:15002') }}"
      token: "{{ env_var('DBT_ENV_SECRET_CDC_TOKEN', '') }}"
      shared_files: "{{ env_var('CDC_SHARED_FILES', 'False') | as_native }}"
      reconnect_seconds: 5
      threads: 4
      server_side_parameters: *small
    thrift:
      type: spark
      method: thrift
      host: "{{ env_var('CDC_THRIFT_HOST', 'localhost') }}"
      port: "{{ env_var('CDC_THRIFT_PORT', '10000') | int }}"
      schema: many
      threads: 2
"""

FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id']) }}}}
{{{{ cdc.current(ref('{table}_history')) }}}}
"""

# A shell has what it runs in the background ignore Ctrl-C, and dbt would inherit that.
DBT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from dbt.cli.main import cli
cli()
"""

# Never ends, on all executors: Spark does not see that no row meets the condition.
ENDLESS = """
{{ config(materialized='table') }}
select count(*) as n from range(0, 1000000000000000, 1, 2) where pmod(hash(id), 2) = 2
"""

MAKE_RAW = """
{{% macro make_raw() %}}
    {{% do run_query('create database if not exists {schema}') %}}
    {{% set columns = '(id int, seq int, op string, v string, batch int)' %}}
    {{% for number in range({count}) %}}
        {{% set table = '{schema}.raw_' ~ number ~ ' ' ~ columns %}}
        {{% set place = "'{folder}/" ~ number ~ "'" %}}
        {{% set rest = table ~ ' using json location ' ~ place %}}
        {{% do run_query('create table if not exists ' ~ rest) %}}
    {{% endfor %}}
{{% endmacro %}}
"""

Row = tuple[str, int, str]


class Many:
    """The project.

    Attributes:
        folder: Its folder.
        tables: Names of its tables.
    """

    def __init__(self, folder: Path, count: int, environment: Mapping[str, str]) -> None:
        """Writes the project.

        Args:
            folder: Where; it is made.
            count: How many tables it has.
            environment: Variables for dbt.
        """
        self.folder, self.environment = folder, dict(environment)
        self.tables = [f"t{number}" for number in range(count)]
        self.raw = folder / "raw"
        self.batches = 0
        source = {
            "name": "app",
            "schema": SCHEMA,
            "config": {
                "meta": {
                    "cdc": {
                        "format": "flagged",
                        "keys": ["id"],
                        "sequence_by": "seq",
                        "operation": "op",
                        "arrival": "batch",
                    }
                }
            },
            "tables": [
                {
                    "name": table,
                    "identifier": f"raw_{number}",
                    "columns": [
                        {"name": "id", "data_type": "int"},
                        {"name": "v", "data_type": "string"},
                    ],
                }
                for number, table in enumerate(self.tables)
            ],
        }
        histories = [
            {
                "name": f"{table}_history",
                "relation": f"ref('stg_{table}')",
                "config": {"strategy": "cdc.scd2", "unique_key": ["id"]},
            }
            for table in self.tables
        ]
        files = {
            "dbt_project.yml": PROJECT,
            "profiles.yml": PROFILE,
            "macros/make_raw.sql": MAKE_RAW.format(
                schema=SCHEMA, count=count, folder=self.raw.as_uri()
            ),
            "models/sources.yml": json.dumps({"version": 2, "sources": [source]}),
            "snapshots/snapshots.yml": json.dumps({"version": 2, "snapshots": histories}),
        }
        for table in self.tables:
            files[f"models/stg_{table}.sql"] = f"{{{{ cdc.events(source('app', '{table}')) }}}}"
            files[f"models/{table}.sql"] = FINAL.format(table=table)
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (folder / "dbt_packages").mkdir()
        (folder / "dbt_packages" / "cdc").symlink_to(ROOT)
        self.put()

    def put(self) -> None:
        """A batch arrives in each table: first all rows, and then updates, deletes and repeats."""
        batch = self.batches
        self.batches += 1
        for number, _ in enumerate(self.tables):
            events = [
                {"id": key, "seq": 10 * batch, "op": self._operation(key, batch), "batch": batch}
                | {"v": f"{number}-{key}-{batch}"}
                for key in range(ROWS)
                if not batch or key % 2
            ]
            place = self.raw / str(number)
            place.mkdir(parents=True, exist_ok=True)
            lines = "".join(json.dumps(event) + "\n" for event in [*events, events[0]])
            (place / f"{batch}.json").write_text(lines)

    @staticmethod
    def _operation(key: int, batch: int) -> str:
        if not batch:
            return "I"
        return "D" if key == 2 * batch + 1 else "U"

    def expected(self) -> set[Row]:
        """The rows of all final tables."""
        rows = set()
        for number, table in enumerate(self.tables):
            living: dict[int, str] = {}
            for batch in range(self.batches):
                for key in range(ROWS):
                    if batch and not key % 2:
                        continue
                    if self._operation(key, batch) == "D":
                        living.pop(key, None)
                    else:
                        living[key] = f"{number}-{key}-{batch}"
            rows |= {(table, key, value) for key, value in living.items()}
        return rows

    def found(self, spark: Any) -> set[Row]:
        """The rows of all final tables, as they are.

        Args:
            spark: A session over the same metastore.
        """
        parts = [f"select '{table}', id, v from {SCHEMA}.{table}" for table in self.tables]
        rows = spark.sql(" union all ".join(parts)).collect()
        assert len(rows) == len(set(rows)), "rows more than once"
        return {tuple(row) for row in rows}

    def versions(self, spark: Any) -> int:
        """How many versions all histories have.

        Args:
            spark: A session over the same metastore.
        """
        parts = [f"select count(*) as n from {SCHEMA}.{table}_history" for table in self.tables]
        return int(spark.sql(f"select sum(n) from ({' union all '.join(parts)})").collect()[0][0])

    def dbt(
        self,
        *arguments: str,
        watch: Callable[[subprocess.Popen[str], str], None] | None = None,
        **environment: str,
    ) -> tuple[int, str]:
        """Runs dbt in a process of its own.

        Args:
            arguments: Of dbt.
            watch: Called with the process and each line that it prints.
            environment: Variables beside those of the project.

        Returns:
            Exit status and output.
        """
        process = subprocess.Popen(
            [sys.executable, "-c", DBT, *arguments],
            cwd=self.folder,
            env=os.environ
            | {"DBT_PROFILES_DIR": str(self.folder), "PYTHONFAULTHANDLER": "1"}
            | self.environment
            | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        said = ""
        # What waits without a word is ended, too.
        limit = threading.Timer(BUILD_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        try:
            assert process.stdout
            for line in process.stdout:
                said += line
                if watch:
                    watch(process, line)
            assert limit.is_alive(), said
            return process.wait(60), said
        finally:
            limit.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def build(self, *arguments: str, **environment: str) -> str:
        """Builds all tables, or those that arguments select; it has to succeed.

        Args:
            arguments: Of dbt, behind `build`.
            environment: Variables beside those of the project.

        Returns:
            What dbt printed.
        """
        status, said = self.dbt("build", *arguments, **environment)
        assert not status, said
        return said
