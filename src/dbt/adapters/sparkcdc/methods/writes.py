"""Writing tables: fenced by the version that was read, and compacted where it pays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dbt.adapters.base.meta import available
from dbt.adapters.sparkcdc.delta.creation import TableIsUnknown, create_if_missing
from dbt.adapters.sparkcdc.delta.log import (
    LARGE_FILE_BYTES,
    VECTORS,
    compaction_pays,
    sets_back,
    vectors_pay,
)
from dbt.adapters.sparkcdc.errors import is_conflict
from dbt.adapters.sparkcdc.iceberg import writes as iceberg_writes
from dbt.adapters.sparkcdc.methods.tables import TableMethods
from dbt.adapters.sparkcdc.nodes import steps
from dbt.adapters.sparkcdc.nodes.steps import Step
from dbt.adapters.sparkcdc.session.settings_scope import CHECKPOINT, MIN_FILE_SIZE, scoped
from dbt.adapters.sparkcdc.tables.places import Place
from dbt_common.exceptions import DbtRuntimeError

# The rows are computed already and read the same twice, and REPLACE WHERE lists its own keys.
UNCHECKED = {
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
}
# How often a statement is tried again beside maintenance, which changes no rows.
MOST_CONFLICTS = 10
VECTORS_BY_DEFAULT = "spark.databricks.delta.properties.defaults.enableDeletionVectors"


def _fence(version: int) -> dict[str, str]:
    """Settings that let one of several writers commit that have read the same version."""
    return {
        "spark.databricks.delta.write.txnAppId": "dbt-spark-cdc",
        "spark.databricks.delta.write.txnVersion": str(version + 1),
    }


@contextmanager
def _beside_others() -> Iterator[None]:
    """Ends a block without an exception where somebody else committed to its table first."""
    try:
        yield
    except DbtRuntimeError as exc:
        if not is_conflict(exc):
            raise


class WriteMethods(TableMethods):
    """Statements that write, create and drop tables."""

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
        writes. For Iceberg tables see `iceberg_writes.write_alone`.

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
        if self.is_iceberg(table):
            return self._write_iceberg(table, sql, version, checkpoint, interpreted, maintenance)
        # A clone has the numbers of the table that it was made of: they may be ahead.
        for fence in (_fence(version), {}):
            settings = UNCHECKED | {CHECKPOINT: checkpoint} | fence
            for _ in range(MOST_CONFLICTS):
                if self._written(table, version, checkpoint, maintenance)[1]:
                    return False
                is_done = self._is_committed(sql, settings | self._settings_of(interpreted))
                # A store can refuse a commit that it has: the answer got lost, and it was repeated.
                ours, others = self._written(table, version, checkpoint, maintenance)
                if ours:
                    self._compact_if_it_pays(table)
                    return not others
                if is_done:  # Delta has skipped it
                    break
            else:
                return False
        return False

    def _is_committed(self, sql: str, settings: dict[str, str]) -> bool:
        """Runs a statement, and returns False where somebody else committed first."""
        with _beside_others(), self._running(sql, settings):
            return True
        return False

    @available.parse_none
    def commit_position(self, table: str, sql: str, checkpoint: str, version: int | None) -> bool:
        """Commits a checkpoint of a Delta table alone, unless `cdc_replay` has set it back.

        Args:
            table: Its name in SQL.
            sql: A statement that changes no rows.
            checkpoint: The commit's user metadata.
            version: The version that the checkpoint is of; None where it says of no row that it was
                read.

        Returns:
            Whether it was committed.
        """
        for _ in range(MOST_CONFLICTS):
            later = [] if version is None else self.commits_since(table, version)["commits"]
            if any(map(sets_back, later)):
                return False
            if self._is_committed(sql, {CHECKPOINT: checkpoint}):
                return True
        return False

    def _write_iceberg(
        self,
        table: str,
        sql: str,
        version: int,
        checkpoint: str,
        interpreted: bool,
        maintenance: list[str],
    ) -> bool:
        """What `write_changes` does with an Iceberg table."""

        def write() -> None:
            with self._running(sql, self._settings_of(interpreted)):
                pass

        alone = iceberg_writes.write_alone(
            self._spark, table, write, version, checkpoint, maintenance
        )
        if alone and iceberg_writes.compaction_pays(self._iceberg(table)):
            try:
                iceberg_writes.compact(self._spark, self.execute, table)
            except DbtRuntimeError as exc:
                # Somebody else writes: the next batch compacts.
                if not iceberg_writes.is_conflict(exc):
                    raise
        return alone

    def _compact_if_it_pays(self, table: str) -> None:
        # Files that are large stay, and only those are written again that made it pay.
        settings = {MIN_FILE_SIZE: str(LARGE_FILE_BYTES)}
        self._run_if_it_pays(table, compaction_pays, f"optimize {table}", settings)

    @available.parse_none
    def add_vectors_if_large(self, table: str) -> None:
        """Turns deletion vectors on where a Delta table has grown large and nobody has decided it.

        Args:
            table: Its name in SQL.
        """

        def pays(folder: Place, version: int) -> bool:
            if not vectors_pay(folder, version):
                return False
            return self._spark.conf.get(VECTORS_BY_DEFAULT, "true") != "false"

        if not self.is_iceberg(table):
            statement = f"alter table {table} set tblproperties ('{VECTORS}' = 'true')"
            self._run_if_it_pays(table, pays, statement, {})

    def _run_if_it_pays(
        self,
        table: str,
        pays: Callable[[Place, int], bool],
        statement: str,
        settings: dict[str, str],
    ) -> None:
        """Runs a statement that changes no rows, where the log of a Delta table says that it pays.

        Where somebody else writes, or does the same, it is left to the next batch.
        """
        folder, version = self._delta_place(table), self.logged_version(table)
        if folder is None or version is None or not pays(folder, version):
            return
        with _beside_others(), scoped(self._spark, settings):
            self.execute(statement)

    @available.parse_none
    def replace_partitions(self, table: str, sql: str, emptied: Step | None) -> None:
        """Replaces partitions of a table without a log, and drops those that have no row any more.

        Args:
            table: Its name in SQL.
            sql: The statement that overwrites the partitions which its rows are in; all rows where
                the table has no partitions.
            emptied: The values of the partitions without rows; None where there are no partitions.
        """
        spark = self._spark
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
        spark = self._spark
        # Another program may have written files since this session listed them.
        spark.catalog.refreshTable(table)
        files = sorted(spark.table(table).inputFiles())
        return hashlib.sha256("\n".join(files).encode()).hexdigest()

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
        if self.is_iceberg(table):
            self.execute(
                f"create table if not exists {table} using iceberg as"
                f" select * from ({query}) as no_rows where false"
            )
            return
        try:
            create_if_missing(self.execute, self._spark, table, query)
        except TableIsUnknown as error:
            raise DbtRuntimeError(str(error)) from error
