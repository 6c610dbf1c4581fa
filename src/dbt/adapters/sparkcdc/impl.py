"""The adapter: dbt-spark's, with sessions, Python models and exact seeds."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from functools import wraps
from multiprocessing.context import SpawnContext
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from dbt.adapters.base.impl import log_code_execution
from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.spark.impl import SparkAdapter, SparkConfig
from dbt.adapters.sparkcdc import (
    erasure,
    iceberg,
    iceberg_erasure,
    landed_files,
    remote,
    steps,
    types,
)
from dbt.adapters.sparkcdc.connections import SparkCdcConnectionManager
from dbt.adapters.sparkcdc.creation import TableIsUnknown, create_if_missing
from dbt.adapters.sparkcdc.cursor import literal, quoted
from dbt.adapters.sparkcdc.delta_log import (
    Appended,
    appended,
    compaction_pays,
    last_write,
    newest_commits,
    table_bytes,
    table_id,
    written_alone,
)
from dbt.adapters.sparkcdc.errors import is_conflict
from dbt.adapters.sparkcdc.listing import list_tables, provider_of
from dbt.adapters.sparkcdc.places import Place, local_folder, place_of
from dbt.adapters.sparkcdc.progress import Load
from dbt.adapters.sparkcdc.python_model import run_model
from dbt.adapters.sparkcdc.session import warm_up
from dbt.adapters.sparkcdc.settings_scope import FEW_ROWS, INTERPRETED, scoped
from dbt.adapters.sparkcdc.statement_log import FILE, StatementLog
from dbt.adapters.sparkcdc.steps import Step
from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    import agate
    from dbt.adapters.spark import SparkColumn

# Commands that read or write tables; the others must work without Java.
RUNS_SPARK = frozenset(
    [
        "build",
        "run",
        "test",
        "seed",
        "snapshot",
        "run-operation",
        "retry",
        "show",
        "clone",
        "compile",
        "generate",
        "freshness",
    ]
)
# Those of them that run a few statements.
LOOKS_ONLY = frozenset(["show", "compile", "run-operation"])
# Those whose statements are recorded, if at all.
BUILDS = RUNS_SPARK - LOOKS_ONLY - {"generate", "freshness"}
CHECKPOINT = "spark.databricks.delta.commitInfo.userMetadata"
SEED_VIEW = "__dbt_seed"
# A row that is deleted goes from its file at once, and the rows that were deleted before with it.
WHOLE_FILES = {"spark.databricks.delta.merge.deletionVectors.persistent": "false"}
NO_RETENTION = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
# Settings that Delta changes in a session which it writes in.
SET_BY_DELTA = "spark.sql.parquet.fieldId."
SEPARATOR = "\x1e"
# A table of the session's own catalog, as relations are rendered.
PLAIN_NAME = re.compile(r"`?([^`.]+)`?\.`?([^`.]+)`?")


@dataclass
class SparkCdcConfig(SparkConfig):
    """Model settings beyond dbt's own."""

    tblproperties: dict[str, str] | None = None


def _as_dict(settings: Any) -> dict[str, str]:
    """A map of Scala in one call; item by item it would take hundreds."""
    pairs = settings.mkString(SEPARATOR).split(SEPARATOR)
    return dict(pair.split(" -> ", 1) for pair in pairs if pair)


def _worded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Has a method say in our words that the server is what failed."""

    @wraps(method)
    def run(self: SparkCdcAdapter, *arguments: Any, **named: Any) -> Any:
        try:
            return method(self, *arguments, **named)
        except DbtRuntimeError:
            raise
        except Exception as exc:
            if ended := remote.what_ended(self.config.credentials, exc):
                raise DbtRuntimeError(ended) from exc
            raise

    return run


def _in_one_line(error: Exception) -> str:
    """What Spark says of a statement, without the plan that follows."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line.startswith("[")), lines[-1])


def _is_one_model(select: Sequence[str] | None) -> bool:
    """Whether `--select` names one model and nothing around it."""
    return len(select or []) == 1 and str(select[0]).replace("_", "").isalnum()  # type: ignore[index]


class SparkCdcAdapter(SparkAdapter):
    """Child of dbt-spark's adapter; only what a Spark of dbt's own makes different."""

    ConnectionManager = SparkCdcConnectionManager
    connections: SparkCdcConnectionManager
    AdapterSpecificConfigs = SparkCdcConfig

    def __init__(self, config: Any, mp_context: SpawnContext) -> None:
        super().__init__(config, mp_context)
        self.asking = RLock()
        self.answers: dict[str, Any] = {}
        self.published: dict[str, tuple[list[int], Any, Any]] = {}
        self.project = Path(getattr(config, "project_root", None) or Path.cwd()).resolve()
        config.credentials.anchor(self.project)
        args = getattr(config, "args", None)
        command = getattr(args, "which", None)
        if command in BUILDS and config.credentials.log_statements:
            self.connections.statement_log = StatementLog(self._target_path(config) / FILE)
        if command in RUNS_SPARK:
            brief = config.credentials.quick_start
            if brief is None:
                brief = command in LOOKS_ONLY or _is_one_model(getattr(args, "select", None))
            warm_up(config.credentials, record=command == "build" and not brief, brief=brief)

    def _target_path(self, config: Any) -> Path:
        return self.project / (getattr(config, "target_path", None) or "target")

    @log_code_execution
    def submit_python_job(
        self, parsed_model: dict[str, Any], compiled_code: str
    ) -> AdapterResponse:
        """Runs a Python model in this thread, in the session of its connection.

        Args:
            parsed_model: The model as dbt knows it.
            compiled_code: What to run.
        """
        handle = self.connections.get_thread_connection().handle
        handle.columns.clear()
        try:
            run_model(handle.spark, parsed_model, compiled_code, self.project)
        except DbtRuntimeError as exc:
            if ended := remote.what_ended(self.config.credentials, exc):
                raise DbtRuntimeError(ended) from exc
            raise
        finally:
            self.connections.known.forget()
        return AdapterResponse(_message="OK")

    @available
    def is_embedded(self) -> bool:
        """Returns whether Spark runs inside dbt's process, and not on a server."""
        return not self.config.credentials.remote

    @available.parse_none
    def make_seed_view(self, agate_table: agate.Table) -> str:
        """Shows a seed's rows to SQL as a temp view of texts, exactly as dbt read them.

        Args:
            agate_table: The seed.

        Returns:
            Name of the view.
        """
        spark = self.connections.get_thread_connection().handle.spark
        schema = ", ".join(f"{quoted(name)} string" for name in agate_table.column_names)
        rows = [tuple(None if v is None else str(v) for v in row) for row in agate_table.rows]
        spark.createDataFrame(rows, schema).createOrReplaceTempView(SEED_VIEW)
        return SEED_VIEW

    @available.parse_none
    def is_iceberg(self, table: str) -> bool:
        """Returns whether a name is one of the catalog of Iceberg's tables.

        Args:
            table: The name in SQL, of a table that need not be there.
        """
        catalog = self.config.credentials.iceberg_catalog
        return catalog is not None and table.replace("`", "").startswith(f"{catalog}.")

    def _iceberg(self, table: str) -> Any:
        """Iceberg's own table; None for other tables, and where there is none."""
        if not self.is_iceberg(table):
            return None
        return iceberg.load(self.connections.get_thread_connection().handle.spark, table)

    @available.parse_none
    def newest_commits(self, table: str, limit: int | None) -> list[dict[str, Any]]:
        """Reads a table's newest commits, where its log is at hand without a Spark job.

        Args:
            table: Its name in SQL.
            limit: How many at most.

        Returns:
            See `delta_log.newest_commits` and `iceberg.commits`.
        """
        if (known := self._iceberg(table)) is not None:
            return iceberg.newest_commits(known, limit)
        folder = self._delta_place(table)
        commits = newest_commits(folder, limit) if folder and limit else None
        if commits is None:
            first = f" limit {limit}" if limit else ""
            _, found = self.execute(f"describe history {table}{first}", fetch=True)
            names = ("version", "operation", "userMetadata")
            commits = [{name: row[name] for name in names} for row in found.rows]
        return commits

    @available.parse_none
    def commits_since(self, table: str, version: int) -> dict[str, Any]:
        """Returns the commits of a table after a version.

        Args:
            table: Its name in SQL.
            version: The version.

        Returns:
            `commits`: see `newest_commits`. `are_all`: whether the table's log still has all of
            them.
        """
        if (known := self._iceberg(table)) is not None:
            commits, are_all = iceberg.commits_since(known, version)
            return {"commits": commits, "are_all": are_all}
        # Without a log at hand each look is a job of Spark.
        limit = 1 if self.logged_version(table) is not None else 100
        while True:
            found = self.newest_commits(table, limit)
            gap = found[0]["version"] - version
            if gap <= limit or len(found) < limit:
                break
            limit = gap  # in one listing, for somebody may commit between two
        later = [commit for commit in found if commit["version"] > version]
        return {"commits": later, "are_all": len(later) >= gap}

    @available.parse_none
    def commit_checkpoint(self, table: str, checkpoint: str, version: int | None) -> bool:
        """Writes a checkpoint to a table of Iceberg: see `iceberg.commit_checkpoint`."""
        spark = self.connections.get_thread_connection().handle.spark
        return iceberg.commit_checkpoint(spark, table, checkpoint, version)

    @available.parse_none
    def iceberg_files(self, table: str) -> dict[str, int]:
        """See `iceberg.files`."""
        return iceberg.files(self._iceberg(table))

    @available.parse_none
    def compact_iceberg(self, table: str) -> None:
        """See `iceberg.compact`."""
        spark = self.connections.get_thread_connection().handle.spark
        iceberg.compact(spark, self.execute, table)

    @available.parse_none
    def expire_iceberg(self, table: str, hours: int, dry_run: bool) -> int:
        """See `iceberg.expire`."""
        return iceberg.expire(
            lambda sql: self.execute(sql, fetch=True)[1].rows, table, hours, dry_run
        )

    @available.parse_none
    def iceberg_images(self, table: str, first: int, last: int | None) -> list[dict[str, Any]]:
        """Shows what commits of a table of Iceberg changed, for the node that runs.

        Args:
            table: Its name in SQL.
            first: See `iceberg.images`, with the other argument.
            last: The last version whose changes are wanted; None for the newest one.

        Returns:
            `relation`: the rows of files before or after a commit changed them. `is_before`,
            `version`, `timestamp`: see `iceberg.Image`.
        """
        handle = self.connections.get_thread_connection().handle
        if last is None:
            last = iceberg.newest_commits(self._iceberg(table), 1)[0]["version"]
        found = iceberg.images(handle.spark, table, first, last)
        handle.images += found
        handle.shown_to[table] = last
        return [
            {
                "relation": f"{iceberg.IMAGES}.{quoted(image.name)}",
                "is_before": image.is_before,
                "version": image.version,
                "timestamp": image.timestamp.isoformat(),
            }
            for image in found
        ]

    @available.parse_none
    def iceberg_shown_to(self, table: str) -> int | None:
        """Returns the last version whose changes the node that runs was shown; None for none.

        Args:
            table: Its name in SQL.
        """
        return self.connections.get_thread_connection().handle.shown_to.get(table)

    @available.parse_none
    def roll_back_iceberg(self, table: str, snapshot: int) -> None:
        """See `iceberg.roll_back`."""
        iceberg.roll_back(self._iceberg(table), snapshot)

    @available.parse_none
    def logged_version(self, table: str) -> int | None:
        """Returns the newest version of a Delta table, or None where Spark must be asked.

        Args:
            table: Its name in SQL.
        """
        folder = self._delta_place(table)
        commits = None if folder is None else newest_commits(folder, 1)
        return commits[0]["version"] if commits else None

    @available.parse_none
    def has_local_log(self, table: str) -> bool:
        """Returns whether a table is a Delta table on a disk of this machine.

        Args:
            table: Its name in SQL.
        """
        folder = self._delta_folder(table)
        return folder is not None and bool(newest_commits(folder, 1))

    @available.parse_none
    def last_write(self, table: str, maintenance: list[str]) -> str | None:
        """Returns what tells the newest commit that wrote rows from every other commit.

        Args:
            table: Its name in SQL.
            maintenance: Operations that change no rows.

        Returns:
            None where only a Spark job could tell, as of a Delta table on no disk of this machine.
        """
        if (known := self._iceberg(table)) is not None:
            return iceberg.last_write(known, maintenance)
        folder = self._delta_place(table)
        if folder is None:
            return None
        question = ("last write", folder, tuple(maintenance))
        return self.connections.known.ask(question, lambda: last_write(folder, maintenance))

    @available.parse_none
    def appended(
        self, table: str, version: int, column: str, after: int, partition: Sequence[str] = ()
    ) -> Appended | None:
        """Reads what was appended to a Delta table without a query.

        Args:
            table: Its name in SQL.
            version: See `delta_log.appended`, with the other arguments.
            column: A column of whole numbers.
            after: The largest value that is known.
            partition: A partition column and its value, where only that partition counts.

        Returns:
            See `delta_log.appended`.
        """
        folder = self._delta_place(table)
        if folder is None:
            return None
        return appended(folder, version, column, after, partition, self.table_id(table))

    @available.parse_none
    def table_bytes(self, table: str) -> int | None:
        """Returns the size of a table's data files without a Spark job.

        Args:
            table: Its name in SQL.

        Returns:
            None where Spark must be asked.
        """
        if (known := self._iceberg(table)) is not None:
            return iceberg.table_bytes(known)
        folder, version = self._delta_place(table), self.logged_version(table)
        if folder is None or version is None:
            return None
        return table_bytes(folder, version)

    def _few_rows(self) -> dict[str, str]:
        """The settings of statements over few rows, as the profile wants them."""
        return INTERPRETED if self.config.credentials.interpret_small else FEW_ROWS

    @available.parse_none
    def make_step(self, name: str, sql: str, few: bool, interpreted: bool) -> Step:
        """Computes an intermediate result of a node.

        Args:
            name: What it is.
            sql: Its query.
            few: See `steps.keep`.
            interpreted: Whether Spark may interpret the query instead of compiling it.
        """
        handle = self.connections.get_thread_connection().handle
        with (
            self.connections.timed(sql),
            self.connections.exception_handler(sql),
            scoped(handle.spark, self._few_rows() if interpreted else {}),
        ):
            _, cursor = self.connections.add_query(sql, auto_begin=False)
            step = steps.keep(handle.spark, name, cursor.frame, few)
        handle.steps.append(step.relation)
        return step

    @available
    def planned_apart(self, sql: str) -> str:
        """Returns a query of the rows of another one: see `steps.planned_apart`.

        Args:
            sql: The query.
        """
        handle = self.connections.get_thread_connection().handle
        with self.connections.timed(sql), self.connections.exception_handler(sql):
            _, cursor = self.connections.add_query(sql, auto_begin=False)
            step = steps.planned_apart(handle.spark, "query", cursor.frame)
        handle.steps.append(step.relation)
        return f"select * from {step.relation}"

    @available.parse_none
    def step_if_it_can(self, name: str, sql: str, few: bool, interpreted: bool) -> Step | None:
        """Computes an intermediate result that there is another way to.

        Args:
            name: See `make_step`, with the other arguments.
            sql: The query.
            few: Whether it has few rows.
            interpreted: Whether Spark interprets the query.

        Returns:
            None where the query failed.
        """
        try:
            return self.make_step(name, sql, few, interpreted)
        except DbtRuntimeError:
            return None

    @available.parse_none
    def rows_at_once(self) -> int | None:
        """Returns how many raw rows one commit may hold; None where a load is one commit."""
        return self.config.credentials.max_rows_per_commit or None

    @available.parse_none
    def note_created(self, relation: BaseRelation) -> None:
        """Has dbt know a table before its materialization ends.

        Args:
            relation: The table.
        """
        for there in self.list_relations_without_caching(relation.without_identifier()):
            # Spark writes names small.
            if str(there.identifier).lower() == str(relation.identifier).lower():
                self.cache_added(there)

    @available.parse_none
    def begin_load(self, table: str, rows: int, left: int) -> None:
        """Reports from now on how far a load is.

        Args:
            table: Its name in SQL.
            rows: Raw rows of the part that begins.
            left: Those that are not read yet, the part's included.
        """
        handle = self.connections.get_thread_connection().handle
        if handle.load is None or handle.load.table != table:
            handle.end_load()
            handle.load = Load(handle.spark, table)
        handle.load.begin_part(rows, left)

    @available.parse_none
    def expect_reads(self, reads: int, folds: bool) -> None:
        """Notes what the load that is reported does with its rows.

        Args:
            reads: How often it reads them.
            folds: Whether it folds them after that.
        """
        load = self.connections.get_thread_connection().handle.load
        if load is not None:
            load.expect(reads, folds)

    @available.parse_none
    def end_load(self) -> None:
        """Ends the report of a load."""
        self.connections.get_thread_connection().handle.end_load()

    @available.parse_none
    def drop_steps(self) -> None:
        """Lets go of the intermediate results of the node that runs."""
        handle = self.connections.get_thread_connection().handle
        while handle.steps:
            handle.spark.catalog.dropTempView(handle.steps.pop())
        handle.forget_images()

    @available.parse_none
    def event_facts(self, step: Step, key: str, end: str | None) -> dict[str, Any]:
        """See `steps.event_facts`."""
        return steps.event_facts(step.rows, key, end)

    @available.parse_none
    def has_single_events(self, step: Step, keys: list[str], types: dict[str, str]) -> bool:
        """See `steps.has_single_events`."""
        return steps.has_single_events(step.rows, {key: types[key] for key in keys})

    @available.parse_none
    def change_facts(self, step: Step, kind: str) -> dict[str, Any]:
        """See `steps.change_facts`."""
        return steps.change_facts(step.rows, kind)

    @available.parse_none
    def has_any(self, step: Step, column: str, value: bool) -> bool:
        """See `steps.has_any`."""
        return steps.has_any(step.rows, column, value)

    @available.parse_none
    def current_facts(self, step: Step) -> dict[str, int]:
        """See `steps.current_facts`."""
        return steps.current_facts(step.rows)

    @available.parse_none
    def listing(
        self,
        step: Step,
        column: str,
        values: list[Any],
        columns: list[tuple[str, str | None]],
        given: str | None = None,
    ) -> str | None:
        """See `steps.listing`, of the rows whose `column` has one of `values`, and `given` any."""
        rows = steps.rows_where(step.rows, column, values)
        if given is not None:
            rows = rows.filter(rows[given].is_valid())
        return steps.listing(rows, columns)

    @available.parse_none
    def bounds(
        self, step: Step, column: str, values: list[Any], key: str, end: str | None
    ) -> dict[str, Any] | None:
        """See `steps.key_bounds`, of the rows whose `column` has one of `values`."""
        rows = steps.rows_where(step.rows, column, values)
        return steps.key_bounds(rows[key], key, end)

    @available.parse_none
    def partition_condition(self, step: Step) -> str:
        """See `steps.partition_condition`."""
        return steps.partition_condition(step.rows)

    @available.parse_none
    def publish_changes(self, table: str, version: int, step: Step) -> None:
        """Keeps the changes of a table for those that read them later in this run.

        Args:
            table: Its name in SQL.
            version: The version that the changes were made to.
            step: The changes.
        """
        writes = [commit["version"] for commit in self.commits_since(table, version)["commits"]]
        if step.rows is not None and len(writes) == 1:
            schema = (
                self.connections.get_thread_connection().handle.spark.table(step.relation).schema
            )
            self.published[table] = (writes, step.rows, schema)

    @available.parse_none
    def published_changes(self, table: str, writes: list[int]) -> Step | None:
        """Shows the changes of a table that its own run kept, if they are all there were.

        Args:
            table: Its name in SQL.
            writes: The versions in which somebody wrote it since they were last read.
        """
        found = self.published.get(table)
        if found is None or found[0] != writes:
            return None
        handle = self.connections.get_thread_connection().handle
        step = steps.show("published", handle.spark.createDataFrame(*found[1:]), found[1])
        handle.steps.append(step.relation)
        return step

    @available.parse_none
    def query_types(self, sql: str) -> dict[str, str]:
        """Returns the columns of a query with their types as SQL writes them, without running it.

        Args:
            sql: The query.
        """
        return dict(self.connections.known.ask(("types", sql), lambda: self._query_types(sql)))

    @available.parse_none
    def table_types(self, table: str) -> dict[str, str]:
        """Returns the columns of a table with their types as SQL writes them.

        Args:
            table: Its name in SQL.
        """
        return dict(
            self.connections.known.ask(("columns", table), lambda: self._table_types(table))
        )

    def _table_types(self, table: str) -> dict[str, str]:
        from pyspark.sql.types import StructType

        # Spark would look the table up in its catalog, and plan to read it.
        with self.connections.exception_handler(table):
            metadata = self._delta_metadata(table) if self._is_delta(table) else None
            schema = None if metadata is None else metadata.schemaString()
        if schema is None:
            return self.query_types(f"select * from {table}")
        fields = StructType.fromJson(json.loads(schema)).fields
        return {field.name: types.text_of(field.dataType) for field in fields}

    def _is_delta(self, table: str) -> bool:
        """Whether the catalog says so now: a name can have become that of another table."""
        if self.config.credentials.remote:
            return False
        return self._known_location(table) is not None

    def _query_types(self, sql: str) -> dict[str, str]:
        spark = self.connections.get_thread_connection().handle.spark
        with self.connections.exception_handler(sql):
            fields = spark.sql(sql).schema.fields
        return {field.name: types.text_of(field.dataType) for field in fields}

    @available.parse_none
    def evolve(
        self,
        table: BaseRelation,
        columns: dict[str, str],
        images: list[str],
        renames: dict[str, list[str]],
        check: bool = False,
    ) -> dict[str, Any]:
        """Brings a table's columns to the declared ones, in its metadata alone.

        Args:
            table: The table.
            columns: See `types.evolution`, with the other arguments.
            images: Columns that remembered events keep, too.
            renames: Name to former names.
            check: Whether only to look what cannot be done.

        Returns:
            `types`: the table's columns, name to type. `problems`: why nothing was changed.
        """
        name = str(table)
        known = self.table_types(name)
        if self.is_iceberg(name):
            own = {column: iceberg.type_in_table(kind) for column, kind in columns.items()}
            found = types.evolution(known, own, images, renames, iceberg.is_wider)
        else:
            found = types.evolution(known, columns, images, renames)
        if check or found.problems or not found.changes:
            return {"types": known, "problems": found.problems}
        if self.is_iceberg(name):
            for statement in types.plain_statements(name, found.changes):
                self.execute(statement)
            return {"types": self.table_types(name), "problems": []}
        mode = (self.table_properties(name) or {}).get("delta.columnMapping.mode", "none")
        for statement in types.statements(name, found.changes, is_mapped=mode != "none"):
            self.execute(statement)
        return {"types": self.table_types(name), "problems": []}

    @available.parse_none
    def write_changes(
        self,
        table: str,
        sql: str,
        version: int,
        checkpoint: str,
        interpreted: bool,
        maintenance: list[str],
    ) -> bool:
        """Writes a table if it is still the one that the rows were computed from.

        Delta refuses a second transaction of the same application and number, and skips a later
        one: with the table's version as the number, of two writers that read the same version one
        writes. For tables of Iceberg see `iceberg.write_alone`.

        Args:
            table: Its name in SQL.
            sql: The statement that writes.
            version: The version of the table that the rows were computed from.
            checkpoint: The commit's user metadata, different from that of every other commit.
            interpreted: Whether Spark may interpret the statement instead of compiling it.
            maintenance: Operations that change no rows.

        Returns:
            False if somebody else wrote since that version. Nothing was written then, unless that
            happened in the very moment of the write.
        """
        spark = self.connections.get_thread_connection().handle.spark

        def run(settings: dict[str, str]) -> None:
            with (
                self.connections.timed(sql),
                self.connections.exception_handler(sql),
                scoped(spark, settings | (self._few_rows() if interpreted else {})),
            ):
                self.connections.add_query(sql, auto_begin=False)

        if self.is_iceberg(table):
            alone = iceberg.write_alone(
                spark, table, lambda: run({}), version, checkpoint, maintenance
            )
            if alone and iceberg.compaction_pays(self._iceberg(table)):
                try:
                    iceberg.compact(spark, self.execute, table)
                except DbtRuntimeError as exc:
                    # Somebody else writes: the next batch compacts.
                    if not iceberg.is_conflict(exc):
                        raise
            return alone
        settings = {
            CHECKPOINT: checkpoint,
            "spark.databricks.delta.merge.materializeSource": "none",
            "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
        }
        fence = {
            "spark.databricks.delta.write.txnAppId": "dbt-spark-cdc",
            "spark.databricks.delta.write.txnVersion": str(version + 1),
        }

        def written(maintenance: list[str]) -> tuple[bool, bool]:
            later = self.commits_since(table, version)["commits"]
            return written_alone(later, version, checkpoint, maintenance)

        # A clone has the numbers of the table that it was made of: they may be ahead.
        for more in (fence, {}):
            if written(maintenance)[1]:
                return False
            try:
                run(settings | more)
            except DbtRuntimeError as exc:
                if not is_conflict(exc):
                    raise
                # A store can refuse a commit that it has: the answer got lost, and it was repeated.
                if not written([])[0]:
                    return False
            ours, others = written(maintenance)
            if ours:
                self._compact_if_it_pays(table)
                return not others
        return False

    @available.parse_none
    def drop_left_overs(self, relation: BaseRelation, mark: str, hours: int) -> None:
        """Drops tables that builds which died left beside a table of the present build.

        Args:
            relation: The table of the present build: a name, the mark, and what tells builds apart.
            mark: What begins the part of the name that tells builds apart.
            hours: How long a table must have been left alone.
        """
        present = (relation.identifier or "").lower()
        name = present.rpartition(mark)[0]
        schema = relation.include(identifier=False)
        listing = f"show tables in {schema} like {literal(f'{name}{mark}*')}"
        newest = datetime.now(timezone.utc) - timedelta(hours=hours)
        for row in self.execute(listing, fetch=True)[1].rows:
            if row["tableName"].lower() == present:
                continue
            left = relation.incorporate(path={"identifier": row["tableName"]})
            # Another build may drop it first.
            with contextlib.suppress(DbtRuntimeError):
                detail = self.execute(f"describe detail {left}", fetch=True)[1].rows[0]
                # Only tables of Delta say when they were written.
                written = detail["lastModified"]
                if written is not None and written.replace(tzinfo=timezone.utc) < newest:
                    self.execute(f"drop table if exists {left}")

    @available.parse_none
    def replace_partitions(self, table: str, sql: str, emptied: Step | None) -> None:
        """Replaces partitions of a table without a log, and drops those that have no row any more.

        Args:
            table: Its name in SQL.
            sql: The statement that overwrites the partitions which its rows are in; all rows where
                the table has no partitions.
            emptied: The values of the partitions without rows; None where there are no partitions.
        """
        spark = self.connections.get_thread_connection().handle.spark
        dropped = "" if emptied is None else steps.partition_specs(emptied.rows)
        mode = "static" if emptied is None else "dynamic"
        with scoped(spark, {"spark.sql.sources.partitionOverwriteMode": mode}):
            self.execute(sql)
        if dropped:
            self.execute(f"alter table {table} drop if exists {dropped}")

    @available.parse_none
    def files_digest(self, table: str) -> str:
        """Returns what tells the data files of a table without a log from others.

        Args:
            table: Its name in SQL.
        """
        spark = self.connections.get_thread_connection().handle.spark
        # Another program may have written files since this session listed them.
        spark.catalog.refreshTable(table)
        files = sorted(spark.table(table).inputFiles())
        return hashlib.sha256("\n".join(files).encode()).hexdigest()

    def _compact_if_it_pays(self, table: str) -> None:
        folder, version = self._delta_place(table), self.logged_version(table)
        if folder and version is not None and compaction_pays(folder, version):
            try:
                self.execute(f"optimize {table}")
            except DbtRuntimeError as exc:
                # Somebody else writes, or compacts: the next batch does.
                if not is_conflict(exc):
                    raise

    @available.parse_none
    def is_there(self, table: str) -> bool:
        """Asks the catalog, and not dbt's cache, whether a table or view is there.

        Args:
            table: Its name in SQL.
        """
        spark = self.connections.get_thread_connection().handle.spark
        return bool(spark.catalog.tableExists(table))

    @available.parse_none
    def create_if_missing(self, table: str, query: str) -> None:
        """Creates an empty table unless it is there, also where a killed build left files.

        The catalog of the name says whether it is one of Delta or of Iceberg.

        Args:
            table: Its name in SQL.
            query: A query with the table's columns; its rows are not written.

        Raises:
            DbtRuntimeError: The table's folder holds a table that the catalog does not know.
        """
        spark = self.connections.get_thread_connection().handle.spark
        if self.is_iceberg(table):
            self.execute(
                f"create table if not exists {table} using iceberg as"
                f" select * from ({query}) as no_rows where false"
            )
            return
        try:
            create_if_missing(self.execute, spark, table, query)
        except TableIsUnknown as error:
            raise DbtRuntimeError(str(error)) from error

    @available.parse_none
    def table_properties(self, table: str) -> dict[str, str] | None:
        """Returns the properties of a table without a statement.

        Args:
            table: Its name in SQL.

        Returns:
            None where Spark must be asked.
        """
        if (known := self._iceberg(table)) is not None:
            return iceberg.properties(known)
        metadata = self._delta_metadata(table)
        return None if metadata is None else _as_dict(metadata.configuration())

    @available.parse_none
    def table_id(self, table: str) -> str | None:
        """Returns what tells a table from others that have, or had, its name.

        Args:
            table: Its name in SQL.

        Returns:
            None where Spark must be asked.
        """
        if (known := self._iceberg(table)) is not None:
            return str(known.uuid().toString())
        if self.config.credentials.remote:
            folder, version = self._delta_place(table), self.logged_version(table)
            return None if folder is None or version is None else table_id(folder, version)
        metadata = self._delta_metadata(table)
        return None if metadata is None else str(metadata.id())

    def _delta_metadata(self, table: str) -> Any:
        """The metadata of a Delta table's newest version; None where Spark must be asked."""
        if self.config.credentials.remote:  # Delta's classes are in the server
            return None
        folder = self._delta_place(table)
        try:
            if folder is None or not (folder / "_delta_log").exists():
                return None
        except OSError:
            return None
        return self._delta_snapshot(folder)[1].metadata()

    @available.parse_none
    def view_text(self, view: str) -> str | None:
        """Returns the query that a view was made of.

        Args:
            view: Its name in SQL.

        Returns:
            None where there is no such view, or it was made under other settings than this
            session's: a view keeps those it was made under, its time zone for one.
        """
        return self.connections.known.ask(("view", view), lambda: self._view_text(view))

    def _view_text(self, view: str) -> str | None:
        table = self._catalog_table(view)
        if table is None or not table.viewText().isDefined():
            return None
        spark = self.connections.get_thread_connection().handle.spark
        now = _as_dict(spark._jsparkSession.sessionState().conf().getAllConfs())
        for name, value in _as_dict(table.viewSQLConfigs()).items():
            if not name.startswith("spark.sql.") or name.startswith(SET_BY_DELTA):
                continue
            # What is not set has a default.
            if (now[name] if name in now else spark.conf.get(name, None)) != value:
                return None
        return str(table.viewText().get())

    @available.parse_none
    def view_property(self, view: str, name: str) -> str | None:
        """Returns a property of a view.

        Args:
            view: Its name in SQL.
            name: The property's.

        Returns:
            None where there is no such view, or the view has no such property.
        """
        table = self._catalog_table(view)
        return None if table is None else _as_dict(table.properties()).get(name)

    @available.parse_none
    def project_graph(self) -> dict[str, Any]:
        """Returns the project's nodes and sources, which dbt does not show to unit tests."""
        return getattr(self.get_macro_resolver(), "flat_graph", {})

    @available.parse_none
    def environment_length(self, variable: str) -> int | None:
        """Returns how many characters an environment variable has, and not which.

        dbt's own `env_var` would keep its value in target/.

        Args:
            variable: Its name.

        Returns:
            0 where it is not set; None where Spark runs in another environment than this one.
        """
        if self.config.credentials.remote:
            return None
        return len(os.environ.get(variable, ""))

    @available.parse_none
    def once(self, name: str, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Asks once in a run what several nodes want to know; threads wait for the first one.

        Args:
            name: What is asked; the same name is the same answer.
            ask: A macro.
            arguments: Its arguments.

        Returns:
            What the macro returned.
        """
        # What is answered is not waited for: the first one may be running a query.
        if name not in self.answers:
            with self.asking:
                if name not in self.answers:
                    self.answers[name] = ask(*arguments)
        return self.answers[name]

    @available.parse_none
    def rows_if_it_can(self, sql: str) -> list[tuple[Any, ...]] | None:
        """Runs a query that may be wrong for reasons which are not those of who asks.

        Args:
            sql: The query.

        Returns:
            Its rows, or None where it failed.
        """
        try:
            return [tuple(row) for row in self.execute(sql, fetch=True)[1].rows]
        except DbtRuntimeError:
            return None

    @available.parse_none
    def query_problem(self, sql: str) -> str | None:
        """Returns why Spark does not accept a query, in one line, or None where it does.

        Args:
            sql: The query, which is not run.
        """
        try:
            self.query_types(sql)
        except DbtRuntimeError as exc:
            return _in_one_line(exc)
        return None

    @available.parse_none
    def attempt(self, sql: str) -> str | None:
        """Runs a statement; returns why it failed, in one line, or None where it did not.

        Args:
            sql: The statement.
        """
        try:
            self.execute(sql)
        except DbtRuntimeError as exc:
            return _in_one_line(exc)
        return None

    @available.parse_none
    def view_query(self, view: str) -> str | None:
        """Returns the query of a view, or None where there is no such view.

        Args:
            view: Its name in SQL.
        """
        table = self._catalog_table(view)
        text = table.viewText() if table is not None else None
        return str(text.get()) if text is not None and text.isDefined() else None

    @available.parse_none
    def erase_rows(self, table: str, sql: str, checkpoint: str) -> dict[str, int]:
        """Deletes rows of a table, and rewrites the files that hold them.

        Args:
            table: Its name in SQL.
            sql: A MERGE that deletes.
            checkpoint: The commit's user metadata.

        Returns:
            `rows`: how many were deleted. `files`: how many data files were replaced.
        """
        spark = self.connections.get_thread_connection().handle.spark
        before = self._live_files(table)
        with scoped(spark, WHOLE_FILES | {CHECKPOINT: checkpoint}):
            _, found = self.execute(sql, fetch=True)
        gone = before.keys() - self._live_files(table).keys()
        return {"rows": int(found.rows[0][0]), "files": len(gone)}

    @available.parse_none
    def erase_iceberg_rows(self, table: str, sql: str | None, checkpoint: str) -> int:
        """Deletes rows of a table of Iceberg, and rewrites all files that hold deleted rows.

        Args:
            table: Its name in SQL.
            sql: A MERGE that deletes; None where no row is left.
            checkpoint: What its snapshot carries.

        Returns:
            How many data files were replaced.
        """
        spark = self.connections.get_thread_connection().handle.spark
        before = iceberg_erasure.data_files(spark, table)
        if sql is not None:
            with scoped(spark, {iceberg.CHECKPOINT_SETTING: checkpoint}):
                self.execute(sql)
        iceberg_erasure.purge(spark, self.execute, table)
        return len(before - iceberg_erasure.data_files(spark, table))

    @available.parse_none
    def iceberg_erasure_problems(self, table: str) -> list[str]:
        """See `iceberg_erasure.problems`."""
        spark = self.connections.get_thread_connection().handle.spark
        return iceberg_erasure.problems(spark, table)

    @available.parse_none
    def shortened_lengths(self, tables: list[str]) -> list[int]:
        """Returns after how many characters texts in statistics of some tables may be cut off.

        Args:
            tables: Their names in SQL.
        """
        lengths = set(erasure.SHORTENED)
        for table in tables:
            if (known := self._iceberg(table)) is not None:
                lengths |= {length - 1 for length in iceberg_erasure.truncations(known)}
        return sorted(lengths)

    @available.parse_none
    def files_hiding(self, table: str, keys: Step) -> list[str]:
        """Returns the live files of a table in which deletion vectors hide rows of some keys.

        Args:
            table: Its name in SQL.
            keys: The keys.
        """
        folder, names = self._files_of(table)
        return [
            name
            for name, hides in sorted(self._live_files(table).items())
            if hides and erasure.holds_keys(folder / name, keys.rows, names)
        ]

    @available.parse_none
    def has_hidden_rows(self, table: str) -> bool:
        """Returns whether a table has a live file with a deletion vector.

        Args:
            table: Its name in SQL.
        """
        return any(self._live_files(table).values())

    @available.parse_none
    def forget_past(self, table: str, erasure_id: str, checkpoint: str) -> dict[str, int]:
        """Removes all files of a table that its newest version does not need, and its older log.

        The last commit of the table is one that has no values: only it stays in the log, with a
        checkpoint.

        Args:
            table: Its name in SQL.
            erasure_id: What tells this erasure from others.
            checkpoint: The commit's user metadata.

        Returns:
            `version`: the table's newest one. `files`: how many data files were removed.
        """
        spark = self.connections.get_thread_connection().handle.spark
        if (known := self._iceberg(table)) is not None:
            folders = iceberg_erasure.folders(known)
            files = {path for folder in folders for path in folder.rglob("*.parquet")}
            version = iceberg_erasure.forget_past(spark, table, checkpoint)
            return {"version": version, "files": sum(not path.exists() for path in files)}
        folder, _ = self._files_of(table)
        before = erasure.data_files(folder)
        with scoped(spark, NO_RETENTION):
            self.execute(f"vacuum {table} retain 0 hours")
        erasure.remove_empty_folders(folder)
        with scoped(spark, {CHECKPOINT: checkpoint}):
            self.execute(f"alter table {table} set tblproperties ('cdc.erasure' = '{erasure_id}')")
        log, snapshot = self._delta_snapshot(folder)
        version = int(snapshot.version())
        log.checkpoint(snapshot, spark._jvm.scala.Option.empty())
        erasure.forget_log(folder, version)
        return {"version": version, "files": len(before - erasure.data_files(folder))}

    @available.parse_none
    def search_files(
        self, table: str, values: list[str], keys: Step | None, beginnings: list[str]
    ) -> dict[str, Any]:
        """Searches all files below a table's folder, those of its log included.

        Args:
            table: Its name in SQL.
            values: Texts that no file may hold.
            keys: Keys that no data file may hold a row of.
            beginnings: Beginnings of texts, which statistics may hold.

        Returns:
            See `erasure.Found`.
        """
        wanted = keys.rows if keys else None
        names: Mapping[str, str | int]
        if (known := self._iceberg(table)) is not None:
            folders = iceberg_erasure.folders(known)
            columns = [] if wanted is None else wanted.column_names
            names = iceberg_erasure.key_ids(known, columns)
        else:
            folder, names = self._files_of(table)
            folders = [folder]
        parts = [erasure.search(part, values, wanted, names, beginnings) for part in folders]
        holding = [file for part in parts for file in part.holding]
        return {"searched": sum(part.searched for part in parts), "holding": holding}

    @available.parse_none
    def landing_problem(self, folder: str) -> str | None:
        """Returns why the files of a landing folder cannot be written again; None where they can.

        Args:
            folder: The folder of the landing model.
        """
        there = self._landing_folder(folder)
        if there is None:
            return f"the landing folder {folder} is not on a disk of this machine"
        if not there.is_dir():
            return f"the landing folder {there} does not exist"
        tables = sorted(path for path in there.iterdir() if path.is_dir())
        if locked := [str(path) for path in tables if not os.access(path, os.W_OK | os.X_OK)]:
            return f"this user may not write in {', '.join(locked)}"
        return None

    @available.parse_none
    def landed_rewrites(self, folder: str, lines: dict[str, list[str]]) -> dict[str, Any]:
        """Returns which landed files lose lines: see `landed_files.plan`.

        Args:
            folder: The folder of the landing model.
            lines: For each table, the SHA-256 of the lines.

        Returns:
            `files` and `problems`.
        """
        wanted = {table: set(hashes) for table, hashes in lines.items()}
        files, problems = landed_files.plan(self._local_landing_folder(folder), wanted)
        return {"files": [asdict(file) for file in files], "problems": problems}

    @available.parse_none
    def rewrite_landed_files(
        self, files: list[dict[str, Any]], lines: dict[str, list[str]]
    ) -> None:
        """Writes what landed files are to hold beside them.

        Args:
            files: See `landed_rewrites`, with the other argument.
            lines: For each table, the SHA-256 of the lines.
        """
        for file in files:
            landed_files.write_beside(file["file"], set(lines.get(file["table"], ())))

    @available.parse_none
    def replace_landed_files(self, folder: str) -> int:
        """See `landed_files.take_place`."""
        return landed_files.take_place(self._local_landing_folder(folder))

    @available.parse_none
    def search_landed_files(self, folder: str, values: list[str]) -> dict[str, Any]:
        """Searches all files of a landing folder.

        Args:
            folder: The folder of the landing model.
            values: Texts that no file may hold.

        Returns:
            See `erasure.Found`.
        """
        return asdict(erasure.search(self._local_landing_folder(folder), values, None, {}))

    def _landing_folder(self, folder: str) -> Path | None:
        """The folder as landing finds it; None where it is not on a disk of this machine."""
        if urlsplit(folder).scheme:
            return local_folder(folder)
        return Path(folder).absolute()

    def _local_landing_folder(self, folder: str) -> Path:
        there = self._landing_folder(folder)
        if there is None:
            raise DbtRuntimeError(f"cdc: {folder} is not on a disk of this machine.")
        return there

    @available.parse_none
    def write_certificate(self, erasure_id: str, certificate: dict[str, Any]) -> str:
        """Writes what an erasure came to as JSON, below the project's target folder.

        Args:
            erasure_id: What tells this erasure from others.
            certificate: What it came to.

        Returns:
            The file.
        """
        file = self._target_path(self.config) / f"cdc_erasure_{erasure_id}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(certificate, indent=2, default=str) + "\n", encoding="utf-8")
        return str(file)

    def _files_of(self, table: str) -> tuple[Path, dict[str, str]]:
        """The folder of a Delta table on this machine, and what its files call its columns."""
        folder, metadata = self._delta_folder(table), self._delta_metadata(table)
        if folder is None or metadata is None:
            raise DbtRuntimeError(f"cdc: {table} is not a Delta table on a disk of this machine.")
        return folder, erasure.physical_names(str(metadata.schemaString()))

    def _live_files(self, table: str) -> dict[str, bool]:
        """The data files of a Delta table's newest version, and whether they hide deleted rows."""
        from pyspark.sql.classic.dataframe import DataFrame

        spark = self.connections.get_thread_connection().handle.spark
        _, snapshot = self._delta_snapshot(self._files_of(table)[0])
        files = DataFrame(snapshot.allFiles().toDF(), spark)
        rows = files.selectExpr("path", "deletionVector is not null").collect()
        return {unquote(path): hides for path, hides in rows}

    def _delta_snapshot(self, folder: Place) -> tuple[Any, Any]:
        """Delta's own log of a table, and the table's newest version."""
        spark = self.connections.get_thread_connection().handle.spark
        log = getattr(spark._jvm, "org.apache.spark.sql.delta.DeltaLog").forTable(
            spark._jsparkSession, str(folder)
        )
        nothing = spark._jvm.scala.Option.empty()
        return log, log.update(False, nothing, nothing)

    def _delta_folder(self, name: str) -> Path | None:
        """Where a Delta table is on a disk of this machine."""
        place = self._delta_place(name)
        return place if isinstance(place, Path) else None

    def _delta_place(self, name: str) -> Place | None:
        """Where a Delta table is; None where only Spark reaches it, and nobody Spark's files."""
        handle = self.connections.get_thread_connection().handle
        if name not in handle.places:
            location = self._known_location(name)
            if location is None:  # the table may be created yet
                return None
            handle.places[name] = place_of(handle.spark, location)
        return cast("Place | None", handle.places[name])

    def _known_location(self, name: str) -> str | None:
        """Where a Delta table is, asked once until a statement runs."""
        return self.connections.known.ask(("location", name), lambda: self._delta_location(name))

    def _delta_location(self, name: str) -> str | None:
        """Where a Delta table is, if this machine can know."""
        spark = self.connections.get_thread_connection().handle.spark
        if not remote.is_remote(spark):
            table = self._catalog_table(name)
            is_delta = table is not None and provider_of(table) == "delta"
            location = table.storage().locationUri() if is_delta else None
            return location.get().toString() if location and location.isDefined() else None
        if not self.config.credentials.shared_files:
            return None
        from pyspark.errors import AnalysisException

        # A session of a server has no catalog to ask: only a statement tells.
        try:
            detail = spark.sql(f"describe detail {name}").collect()[0]
        except AnalysisException:  # none of this name, or a view
            return None
        return str(detail["location"]) if detail["format"] == "delta" else None

    def _catalog_table(self, name: str) -> Any:
        """What the session's own catalog tells of a table or view, without reading it."""
        from pyspark.errors import PySparkException

        spark = self.connections.get_thread_connection().handle.spark
        if remote.is_remote(spark):
            return None

        def find() -> Any:
            state = spark._jsparkSession.sessionState()
            try:
                return state.catalog().getTableMetadata(
                    state.sqlParser().parseTableIdentifier(name)
                )
            except PySparkException:  # none of this name, or in another catalog
                return None

        # Sessions of several nodes ask; without a schema, a name is the session's own.
        if (parts := PLAIN_NAME.fullmatch(name)) is None:
            return find()
        schema, identifier = (part.lower() for part in parts.groups())
        return self.connections.known.ask(("catalog", schema, identifier), find)

    def get_columns_in_relation(self, relation: BaseRelation) -> list[SparkColumn]:
        # A materialization asks for the same columns up to six times in a row.
        known = self.connections.get_thread_connection().handle.columns
        name = relation.render()
        if name not in known:
            known[name] = super().get_columns_in_relation(relation)
        return list(known[name])

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        spark = self.connections.get_thread_connection().handle.spark
        schema = schema_relation.schema or ""
        if not remote.is_remote(spark) and "." not in schema:
            note = self.connections.known.notes()
            listed = list_tables(spark, schema)
            for table in listed:
                note(("catalog", schema.lower(), table.name.lower()), table.java)
            return [
                self.Relation.create(
                    schema=schema,
                    identifier=table.name,
                    type=RelationType.View if table.is_view else RelationType.Table,
                    is_delta=table.provider == "delta",
                    is_iceberg=table.provider == "iceberg",
                    is_hudi=table.provider == "hudi",
                )
                for table in listed
            ]
        # `schema: catalog.namespace` addresses another catalog; Spark answers with the namespace.
        found = super().list_relations_without_caching(schema_relation)
        return [
            relation.incorporate(path={"schema": schema_relation.schema})
            for relation in found
            if relation.schema  # Spark lists the session's temp views too, outside any schema
        ]

    def _get_columns_for_catalog(self, relation: BaseRelation) -> Iterable[dict[str, Any]]:
        # The listing prints a view's bigint as `long`; asked one by one, all have SQL's own names.
        return super()._get_columns_for_catalog(relation.incorporate(information=None))

    def _get_relation_information(self, row: agate.Row) -> tuple[str, str, str]:
        schema, name, information = super()._get_relation_information(row)
        if "table_type=ICEBERG," in information:  # under a Hive catalog its provider reads `hive`
            information += "\nProvider: iceberg"
        return schema, name, information


# Macros call them; what they ask of a session is no statement that dbt knows.
for _name, _method in list(vars(SparkCdcAdapter).items()):
    if getattr(_method, "_is_available_", False):
        setattr(SparkCdcAdapter, _name, _worded(_method))
