"""The one Spark of a run, and dbt in the same process."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from dbt.adapters.sparkcdc.connections import SparkCdcConnectionManager
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.adapters.sparkcdc.session.opening import open_session
from dbt.cli.main import dbtRunner, dbtRunnerResult
from dbt.contracts.graph.manifest import Manifest
from dbt_common.events.contextvars import get_node_info

from bench.data import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
FAILED = {"error", "fail", "runtime error"}


class Timing(NamedTuple):
    """What one piece of work took.

    Attributes:
        seconds: The work itself; of dbt the sum over its nodes.
        wall: From call to return; of dbt with reading the project, hooks and so on.
        nodes: Seconds of each dbt node.
    """

    seconds: float
    wall: float
    nodes: Mapping[str, float] = MappingProxyType({})


@dataclass
class Workshop:
    """Where a run works: its folder and its Spark session.

    Attributes:
        folder: Holds warehouse, projects, change files and the peers' own files.
        spark: The session of everything that is not dbt.
    """

    folder: Path
    spark: SparkSession

    @property
    def changes(self) -> Path:
        """Folder of change files."""
        return self.folder / "changes"

    @property
    def java(self) -> int:
        """The process of Spark's Java."""
        return int(self.spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


# The catalog of tables of Iceberg.
CATALOG = "lake"


def target(
    folder: Path,
    schema: str,
    iceberg: bool,
    threads: int = 1,
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Returns the dbt target of all projects: the adapter's own settings, for every system.

    Args:
        folder: The run's folder.
        schema: Where models are built.
        iceberg: Whether there are tables of Iceberg.
        threads: dbt's threads.
        parameters: Further settings of Spark.
    """
    return {
        **({"server_side_parameters": dict(parameters)} if parameters else {}),
        **({"iceberg_catalog": CATALOG} if iceberg else {}),
        "type": "sparkcdc",
        "schema": schema,
        "threads": threads,
        "warehouse": str(folder / "warehouse"),
        "spark_log": str(folder / "logs" / "spark.log"),
        "quick_start": False,
    }


def session_of(
    folder: Path,
    schema: str,
    iceberg: bool = False,
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> SparkSession:
    """Returns a session of Spark as dbt will find it.

    Args:
        folder: The run's folder.
        schema: Where tables are made.
        iceberg: Whether there are tables of Iceberg.
        parameters: Further settings of Spark.
    """
    given = target(folder, schema, iceberg, parameters=parameters)
    given.pop("type")
    given.pop("threads")
    credentials = SparkCdcCredentials(**given)
    credentials.anchor(folder)
    return open_session(credentials)


def open_workshop(folder: Path, iceberg: bool = False) -> Workshop:
    """Starts Spark as dbt will find it.

    Args:
        folder: An empty folder.
        iceberg: Whether there are tables of Iceberg.
    """
    spark = session_of(folder, SCHEMA, iceberg)
    # Files of changes are read by all systems; Spark's old kind of timestamp is not.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark.sql(f"create schema if not exists {SCHEMA}")
    return Workshop(folder, spark)


@dataclass
class Project:
    """A dbt project of the run.

    Attributes:
        name: Its name, and that of its schema.
        folder: Where it lies.
        run: The folder of the run.
        files: Content by path.
        installs: Whether it installs the package.
        iceberg: Whether it has tables of Iceberg.
        stays_parsed: Whether dbt reads the files once and not for each command.
        threads: dbt's threads, where a command does not say otherwise.
        parameters: Further settings of Spark, for another process than this one.
        interpret_small: As in the profile.
    """

    name: str
    folder: Path
    run: Path
    files: Mapping[str, str]
    installs: bool
    iceberg: bool = False
    stays_parsed: bool = False
    threads: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
    interpret_small: bool = True
    _written: bool = field(default=False, init=False)
    _manifest: Manifest | None = field(default=None, init=False)

    def write(self) -> None:
        """Writes the project and installs its package."""
        config: dict[str, Any] = {
            "name": self.name,
            "version": "1.0.0",
            "config-version": 2,
            "profile": "bench",
            "models": {self.name: {"+file_format": "delta"}},
            "flags": {"send_anonymous_usage_stats": False},
        }
        files = dict(self.files)
        if self.installs:
            config["dispatch"] = [
                {"macro_namespace": "dbt", "search_order": [self.name, "cdc", "dbt"]}
            ]
            config["on-run-start"] = ["{{ cdc.validate() }}"]
            files["packages.yml"] = yaml.safe_dump({"packages": [{"local": str(ROOT)}]})
        files["dbt_project.yml"] = yaml.safe_dump(config)
        own = target(self.run, self.name, self.iceberg, self.threads, self.parameters)
        own["interpret_small"] = self.interpret_small
        files["profiles.yml"] = yaml.safe_dump(
            {"bench": {"target": "bench", "outputs": {"bench": own}}}
        )
        for path, text in files.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if self.installs:
            self.dbt("deps")
        self._written = True

    def dbt(self, command: str, *arguments: str) -> Timing:
        """Runs a dbt command in this process.

        Args:
            command: `build`, `run`, `deps` ...
            arguments: Its options.

        Raises:
            RuntimeError: It failed.
        """
        if not self._written and command != "deps":
            self.write()
        if self.stays_parsed and self._manifest is None and command != "deps":
            parsed = self._invoke("parse").result
            assert isinstance(parsed, Manifest)
            self._manifest = parsed
        began = time.perf_counter()
        ran = self._invoke(command, *arguments)
        wall = time.perf_counter() - began
        # The result of an operation has no node.
        results = [] if command == "run-operation" else list(getattr(ran.result, "results", []))
        failed = [f"{r.node.name}: {r.message}" for r in results if str(r.status) in FAILED]
        if ran.exception or failed or not ran.success:
            raise RuntimeError(f"dbt {command} of {self.name} failed: {ran.exception or failed}")
        nodes = {
            result.node.name: result.execution_time
            for result in results
            if result.node.resource_type in ("model", "snapshot")
        }
        return Timing(sum(nodes.values()), wall, nodes)

    def _invoke(self, command: str, *arguments: str) -> dbtRunnerResult:
        return dbtRunner(manifest=self._manifest).invoke(
            [
                *("--log-level", "none", "--log-level-file", "none", "--no-version-check"),
                command,
                *("--project-dir", str(self.folder), "--profiles-dir", str(self.folder)),
                *arguments,
            ]
        )


@dataclass
class Statement:
    """A statement that dbt ran.

    Attributes:
        node: The name of the dbt node; empty for what belongs to none.
        seconds: What it took.
        sql: Its text.
    """

    node: str
    seconds: float
    sql: str


@contextmanager
def recorded_statements() -> Iterator[list[Statement]]:
    """Records every statement that reaches Spark through the adapter's cursor, with its time."""
    statements: list[Statement] = []
    execute, fetch = Cursor.execute, SparkCdcConnectionManager.execute
    latest = threading.local()

    def executed(self: Cursor, sql: str, *arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        statement = Statement(get_node_info().get("node_name", ""), 0.0, sql)
        latest.statement = statement
        statements.append(statement)
        try:
            return execute(self, sql, *arguments, **options)
        finally:
            statement.seconds = time.perf_counter() - began

    # A query runs when its rows are fetched, which is after the cursor's `execute`.
    def fetched(self: Any, sql: str, *arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        latest.statement = None
        try:
            return fetch(self, sql, *arguments, **options)
        finally:
            if latest.statement:
                latest.statement.seconds = time.perf_counter() - began

    Cursor.execute = executed  # type: ignore[method-assign]
    SparkCdcConnectionManager.execute = fetched  # type: ignore[method-assign]
    try:
        yield statements
    finally:
        Cursor.execute = execute  # type: ignore[method-assign]
        SparkCdcConnectionManager.execute = fetch  # type: ignore[method-assign]


def count_by_node(statements: Iterable[Statement]) -> dict[str, int]:
    """Returns how many statements each dbt node ran; what belongs to no node is left out.

    Args:
        statements: What was recorded.
    """
    return dict(Counter(one.node for one in statements if one.node))


def as_yaml(value: Any) -> str:
    """Returns YAML of plain values; JSON is YAML."""
    return json.dumps(value, indent=1)
