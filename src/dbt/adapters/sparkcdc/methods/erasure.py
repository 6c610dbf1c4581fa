"""Erasing rows from all files of a table, and the proof that they are gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dbt.adapters.base.meta import available
from dbt.adapters.sparkcdc.erasure import iceberg as iceberg_erasure
from dbt.adapters.sparkcdc.erasure import table_files
from dbt.adapters.sparkcdc.iceberg import tables as iceberg
from dbt.adapters.sparkcdc.methods.tables import TableMethods
from dbt.adapters.sparkcdc.nodes.steps import Step
from dbt.adapters.sparkcdc.session.cursor import literal
from dbt.adapters.sparkcdc.session.settings_scope import CHECKPOINT, scoped
from dbt_common.exceptions import DbtRuntimeError

# A row that is deleted goes from its file at once, and the rows that were deleted before with it.
WHOLE_FILES = {"spark.databricks.delta.merge.deletionVectors.persistent": "false"}
NO_RETENTION = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}


class ErasureMethods(TableMethods):
    """`cdc_erase` on tables of a disk of this machine."""

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
        before = self._live_files(table)
        with scoped(self._spark, WHOLE_FILES | {CHECKPOINT: checkpoint}):
            _, found = self.execute(sql, fetch=True)
        gone = before.keys() - self._live_files(table).keys()
        return {"rows": int(found.rows[0][0]), "files": len(gone)}

    @available.parse_none
    def erase_iceberg_rows(self, table: str, sql: str | None, checkpoint: str) -> int:
        """Deletes rows of an Iceberg table, and rewrites all files that hold deleted rows.

        Args:
            table: Its name in SQL.
            sql: A MERGE that deletes; None where no row is left.
            checkpoint: What its snapshot carries.

        Returns:
            How many data files were replaced.
        """
        spark = self._spark
        before = iceberg_erasure.data_files(spark, table)
        if sql is not None:
            with scoped(spark, {iceberg.CHECKPOINT_SETTING: checkpoint}):
                self.execute(sql)
        iceberg_erasure.purge(spark, self.execute, table)
        return len(before - iceberg_erasure.data_files(spark, table))

    @available.parse_none
    def iceberg_erasure_problems(self, table: str) -> list[str]:
        """See `iceberg_erasure.problems`."""
        return iceberg_erasure.problems(self._spark, table)

    @available.parse_none
    def shortened_lengths(self, tables: list[str]) -> list[int]:
        """Returns after how many characters texts in statistics of some tables may be cut off.

        Args:
            tables: Their names in SQL.
        """
        lengths = set(table_files.SHORTENED)
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
            if hides and table_files.holds_keys(folder / name, keys.rows, names)
        ]

    @available.parse_none
    def has_hidden_rows(self, table: str) -> bool:
        """Returns whether a table has a live file with a deletion vector.

        Args:
            table: Its name in SQL.
        """
        return any(self._live_files(table).values())

    @available.parse_none
    def forget_past(
        self,
        table: str,
        erasure_id: str,
        checkpoint: str,
        version: int | None,
        maintenance: list[str],
    ) -> dict[str, int]:
        """Removes all files of a table that its newest version does not need, and its older log.

        The last commit of the table is one that has no values: only it stays in the log, with a
        checkpoint.

        Args:
            table: Its name in SQL.
            erasure_id: What tells this erasure from others.
            checkpoint: The commit's user metadata.
            version: The version that the checkpoint is of; None where the table has none.
            maintenance: Operations that change no rows.

        Returns:
            `version`: the table's newest one. `files`: how many data files were removed.

        Raises:
            DbtRuntimeError: Somebody has written the table since that version, or set it back. Its
                log is still there.
        """
        spark = self._spark
        if (known := self._iceberg(table)) is not None:
            folders = iceberg_erasure.folders(known)
            files = {path for folder in folders for path in folder.rglob("*.parquet")}
            version = iceberg_erasure.forget_past(spark, table, checkpoint, version)
            return {"version": version, "files": sum(not path.exists() for path in files)}
        folder, _ = self._files_of(table)
        before = table_files.data_files(folder)
        with scoped(spark, NO_RETENTION):
            self.execute(f"vacuum {table} retain 0 hours")
        table_files.remove_empty_folders(folder)
        with scoped(spark, {CHECKPOINT: checkpoint}):
            noted = f"'cdc.erasure' = {literal(erasure_id)}"
            self.execute(f"alter table {table} set tblproperties ({noted})")
        # What only the log tells of others would go with it.
        if version is not None and self._written(table, version, checkpoint, maintenance)[1]:
            raise DbtRuntimeError(table_files.OTHERS_WRITE.format(name=table))
        log, snapshot = self._delta_snapshot(folder)
        version = int(snapshot.version())
        nothing = spark._jvm.scala.Option.empty()  # type: ignore[union-attr]
        log.checkpoint(snapshot, nothing)
        table_files.forget_log(folder, version)
        return {"version": version, "files": len(before - table_files.data_files(folder))}

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
            See `table_files.Found`.
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
        parts = [table_files.search(part, values, wanted, names, beginnings) for part in folders]
        holding = [file for part in parts for file in part.holding]
        return {"searched": sum(part.searched for part in parts), "holding": holding}

    @available.parse_none
    def write_certificate(self, erasure_id: str, certificate: dict[str, Any]) -> str:
        """Writes what an erasure came to as JSON, below the project's target folder.

        Args:
            erasure_id: What tells this erasure from others.
            certificate: What it came to.

        Returns:
            The file.
        """
        file = self._target_path / f"cdc_erasure_{erasure_id}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(certificate, indent=2, default=str) + "\n", encoding="utf-8")
        return str(file)

    def _files_of(self, table: str) -> tuple[Path, dict[str, str]]:
        """The folder of a Delta table on this machine, and what its files call its columns."""
        folder, metadata = self._delta_folder(table), self._delta_metadata(table)
        if folder is None or metadata is None:
            raise DbtRuntimeError(
                f"cdc: {table} is not a Delta table on a disk of this machine, so that its"
                " files can be neither removed nor searched. Delete the person's rows from the"
                " table, purge it (REORG TABLE .. APPLY (PURGE)) and vacuum it where its files are."
            )
        return folder, table_files.physical_names(str(metadata.schemaString()))

    def _live_files(self, table: str) -> dict[str, bool]:
        """The data files of a Delta table's newest version, and whether they hide deleted rows."""
        from pyspark.sql.classic.dataframe import DataFrame

        _, snapshot = self._delta_snapshot(self._files_of(table)[0])
        files = DataFrame(snapshot.allFiles().toDF(), self._spark)
        rows = files.selectExpr("path", "deletionVector is not null").collect()
        return {unquote(path): hides for path, hides in rows}
