"""What the logs of tables say: where a table is, its versions, its size and its properties."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbt.adapters.base.meta import available
from dbt.adapters.sparkcdc.delta.log import (
    Appended,
    appended,
    last_write,
    newest_commits,
    table_bytes,
    table_id,
    written_alone,
)
from dbt.adapters.sparkcdc.iceberg import tables as iceberg
from dbt.adapters.sparkcdc.methods.catalog import CatalogMethods, as_dict
from dbt.adapters.sparkcdc.session import remote
from dbt.adapters.sparkcdc.tables.listing import provider_of
from dbt.adapters.sparkcdc.tables.places import Place, place_of


class TableMethods(CatalogMethods):
    """Delta and Iceberg tables, read without a Spark job where their logs are at hand."""

    @available.parse_none
    def is_iceberg(self, table: str) -> bool:
        """Returns whether a name is one of the catalog of Iceberg's tables.

        Args:
            table: The name in SQL, of a table that need not be there.
        """
        catalog = self.config.credentials.iceberg_catalog
        return catalog is not None and table.replace("`", "").startswith(f"{catalog}.")

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

    def _written(
        self, table: str, version: int, checkpoint: str, maintenance: list[str]
    ) -> tuple[bool, bool]:
        """Whether the commit with a checkpoint is there, and whether somebody else wrote."""
        later = self.commits_since(table, version)["commits"]
        return written_alone(later, version, checkpoint, maintenance)

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
            None where only a Spark job could tell, as of a Delta table that is not on a disk of
            this machine.
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
        return None if metadata is None else as_dict(metadata.configuration())

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

    def _iceberg(self, table: str) -> Any:
        """Iceberg's own table; None for other tables, and where there is none."""
        if not self.is_iceberg(table):
            return None
        return iceberg.load(self._spark, table)

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

    def _delta_snapshot(self, folder: Place) -> tuple[Any, Any]:
        """Delta's own log of a table, and the table's newest version."""
        spark = self._spark
        log = getattr(spark._jvm, "org.apache.spark.sql.delta.DeltaLog").forTable(
            spark._jsparkSession, str(folder)
        )
        nothing = spark._jvm.scala.Option.empty()  # type: ignore[union-attr]
        return log, log.update(False, nothing, nothing)

    def _delta_folder(self, name: str) -> Path | None:
        """Where a Delta table is on a disk of this machine."""
        place = self._delta_place(name)
        return place if isinstance(place, Path) else None

    def _delta_place(self, name: str) -> Place | None:
        """Where a Delta table is; None where only Spark reaches it, and nobody Spark's files."""
        handle = self._handle
        if name not in handle.places:
            location = self._known_location(name)
            if location is None:  # the table may be created yet
                return None
            handle.places[name] = place_of(handle.spark, location)
        return handle.places[name]

    def _known_location(self, name: str) -> str | None:
        """Where a Delta table is, asked once until a statement runs."""
        return self.connections.known.ask(("location", name), lambda: self._delta_location(name))

    def _delta_location(self, name: str) -> str | None:
        """Where a Delta table is, if this machine can know."""
        spark = self._spark
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
