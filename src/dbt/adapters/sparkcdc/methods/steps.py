"""Intermediate results of a node, and the changes that it leaves to others."""

from __future__ import annotations

from multiprocessing.context import SpawnContext
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from dbt.adapters.base.meta import available
from dbt.adapters.sparkcdc.methods.tables import TableMethods
from dbt.adapters.sparkcdc.nodes import steps
from dbt.adapters.sparkcdc.nodes.steps import Step
from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Published(NamedTuple):
    """Changes of a table, kept for the nodes that read them later in a run.

    Attributes:
        writes: The versions that made them.
        rows: The changes.
        schema: Their schema.
    """

    writes: list[int]
    rows: pa.Table
    schema: StructType


class StepMethods(TableMethods):
    """Intermediate results: making them, what they tell without a query, and their end.

    Attributes:
        published: The last changes of each table whose node has run.
    """

    def __init__(self, config: Any, mp_context: SpawnContext) -> None:
        super().__init__(config, mp_context)
        self.published: dict[str, Published] = {}

    @available.parse_none
    def make_step(self, name: str, sql: str, few: bool, interpreted: bool) -> Step:
        """Computes an intermediate result of a node.

        Args:
            name: What it is.
            sql: Its query.
            few: See `steps.keep`.
            interpreted: Whether Spark may interpret the query instead of compiling it.
        """
        with self._running(sql, self._settings_of(interpreted)) as cursor:
            step = steps.keep(self._spark, name, cursor.frame, few)
        self._handle.steps.append(step.relation)
        return step

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

    @available
    def planned_apart(self, sql: str) -> str:
        """Returns a query of the rows of another one: see `steps.planned_apart`.

        Args:
            sql: The query.
        """
        with self._running(sql, {}) as cursor:
            step = steps.planned_apart(self._spark, "query", cursor.frame)
        self._handle.steps.append(step.relation)
        return f"select * from {step.relation}"

    @available.parse_none
    def drop_steps(self) -> None:
        """Lets go of the intermediate results of the node that runs."""
        handle = self._handle
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
            schema = self._spark.table(step.relation).schema
            self.published[table] = Published(writes, step.rows, schema)

    @available.parse_none
    def published_changes(self, table: str, writes: list[int]) -> Step | None:
        """Shows the changes of a table that its own run kept, if they are all there were.

        Args:
            table: Its name in SQL.
            writes: The versions in which somebody wrote it since they were last read.
        """
        found = self.published.get(table)
        if found is None or found.writes != writes:
            return None
        handle = self._handle
        frame = handle.spark.createDataFrame(found.rows, found.schema)
        step = steps.show("published", frame, found.rows)
        handle.steps.append(step.relation)
        return step
