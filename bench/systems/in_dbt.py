"""This package, and the dbt recipe that people use, on the same adapter."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bench.data import COLUMNS, SCHEMA, Table
from bench.session import CATALOG, Project, Timing, Workshop, as_yaml
from bench.systems.base import Arrived, drop_tables, optimize, sort_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMN_LIST = ", ".join(COLUMNS)


# Into how many partitions by key a table is cut whose partitions are rewritten.
SLICES = 20


def _source(tables: Sequence[Table], declaration: dict[str, object] | None, slices: int = 0) -> str:
    entries = []
    for table in tables:
        entry: dict[str, object] = {"name": table.name, "identifier": f"raw_{table.name}"}
        if declaration is not None:
            # Keys go up to twice the number of rows.
            part = {"slice": f"id div {max(1, 2 * table.rows // slices)}"} if slices else {}
            entry["config"] = {"meta": {"cdc": declaration | {"partition_by": part}}}
            entry["columns"] = [{"name": name, "data_type": kind} for name, kind in COLUMNS.items()]
        entries.append(entry)
    return as_yaml(
        {"version": 2, "sources": [{"name": "log", "schema": SCHEMA, "tables": entries}]}
    )


class _InDbt(ABC):
    """Tables that a dbt project builds."""

    name: str
    project: Project
    workshop: Workshop
    threads: int = 1

    def _build(self, tables: Sequence[Table], *options: str) -> Timing:
        chosen = [node for table in tables for node in self._nodes(table)]
        return self.project.dbt(
            "build", "--select", *chosen, "--threads", str(self.threads), *options
        )

    @abstractmethod
    def _nodes(self, table: Table) -> list[str]:
        """The models and snapshots of a table, in order."""

    def load(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        if not (self.project.folder / "dbt_project.yml").exists():
            self.project.write()
        return self._build(tables)

    def rebuild(self, tables: Sequence[Table]) -> Timing:
        """Rebuilds the tables from all events."""
        return self._build(tables, "--full-refresh")

    def apply(self, tables: Sequence[Table], arrived: Arrived) -> Timing:
        return self._build(tables)

    def lay_out(self, table: Table, files: int) -> None:
        for name in self.delta_tables(table):
            optimize(self.workshop, name, files)

    def delta_tables(self, table: Table) -> list[str]:
        return [f"{self.project.name}.{table.name}"]

    def drop(self, table: Table) -> None:
        drop_tables(self.workshop, self.delta_tables(table))


class Cdc(_InDbt):
    """This package: staging view, history, final table; or without the history.

    With `overwrite` touched partitions are rewritten instead of being merged. `way` is the format
    of its tables and how they are written.
    """

    def __init__(
        self,
        workshop: Workshop,
        tables: Sequence[Table],
        *,
        history: bool,
        overwrite: bool = False,
        threads: int = 1,
        way: tuple[str, str] | None = None,
    ) -> None:
        self.name = "cdc_overwrite" if overwrite else "cdc_history" if history else "cdc"
        if way:
            self.name = f"{way[0]}_{''.join(word[0] for word in way[1].split('-'))}"
        self.catalog = f"{CATALOG}." if way and way[0] == "iceberg" else ""
        self.workshop = workshop
        self.history = history
        self.threads = threads
        declaration = {
            "format": "flagged",
            "keys": ["id"],
            "sequence_by": "seq",
            "event_time": "changed_at",
            "operation": "flag",
            "arrival": "batch",
            "history": history,
        }
        slices = SLICES if overwrite else 0
        files = {"models/sources.yml": _source(tables, declaration, slices)}
        strategy = "'insert_overwrite', partition_by=['slice']" if overwrite else "'merge'"
        written = f", file_format='{way[0]}', write_mode='{way[1]}'" if way else ""
        config = (
            f"{{{{ config(materialized='incremental', incremental_strategy={strategy},"
            f" unique_key=['id']{written}) }}}}\n"
        )
        snapshots = []
        for table in tables:
            name = table.name
            files[f"models/stg_{name}.sql"] = (
                "{{ config(materialized='view') }}\n"
                f"{{{{ cdc.events(source('log', '{name}')) }}}}\n"
            )
            above = f"{name}_history" if history else f"stg_{name}"
            files[f"models/{name}.sql"] = f"{config}{{{{ cdc.current(ref('{above}')) }}}}\n"
            snapshots.append(
                {
                    "name": f"{name}_history",
                    "relation": f"ref('stg_{name}')",
                    "config": {
                        "strategy": "cdc.scd2",
                        "unique_key": ["id"],
                        "file_format": "delta",
                    },
                }
            )
        if history:
            files["snapshots/histories.yml"] = as_yaml({"snapshots": snapshots})
        name = f"{self.name}_of_{tables[0].name}"
        folder = _project_folder(workshop, name)
        is_iceberg = bool(self.catalog)
        self.project = Project(name, folder, workshop.folder, files, True, is_iceberg)

    def _nodes(self, table: Table) -> list[str]:
        history = [f"{table.name}_history"] if self.history else []
        return [f"stg_{table.name}", *history, table.name]

    def delta_tables(self, table: Table) -> list[str]:
        names = [self.catalog + name for name in super().delta_tables(table)]
        return [f"{names[0]}_history", *names] if self.history else names

    def lay_out(self, table: Table, files: int) -> None:
        if not self.catalog:
            super().lay_out(table, files)
            return
        for name in self.delta_tables(table):
            sort_files(self.workshop, name, files)

    def current(self, table: Table) -> DataFrame:
        rows = self.workshop.spark.table(f"{self.catalog}{self.project.name}.{table.name}")
        return rows if self.history else rows.where("_cdc_deleted_at is null")

    def erase(self, table: Table, key: int) -> None:
        """Erases a key from everything that is built from a table's events."""
        args = {"table": table.name, "keys": [key], "dry_run": False}
        self.project.dbt("run-operation", "cdc_erase", "--args", json.dumps(args))

    def versions(self, table: Table) -> DataFrame:
        """Returns the versions of a history, as key and position."""
        history = self.workshop.spark.table(f"{self.project.name}.{table.name}_history")
        return history.selectExpr("id", "changed_at")


class Exporting(Cdc):
    """A table of this package, and a consumer that exports its changes to files."""

    def __init__(self, workshop: Workshop, table: Table) -> None:
        super().__init__(workshop, [table], history=False)
        name = table.name
        exported = {"name": f"{name}_exported", "config": {"export_folder": self.folder(table)}}
        self.project.files = {
            **self.project.files,
            f"models/{name}_changes.sql": (
                "{{ config(materialized='incremental', incremental_strategy='merge') }}\n"
                f"{{{{ cdc.changelog(ref('{name}')) }}}}\n"
            ),
            f"models/{name}_events.sql": f"{{{{ cdc.debezium_json(ref('{name}_changes')) }}}}\n",
            f"models/{name}_exported.py": EXPORTED.format(name=name),
            "models/exported.yml": as_yaml({"models": [exported]}),
        }

    def folder(self, table: Table) -> str:
        """Returns the folder of exported files."""
        return str(self.workshop.folder / "exports" / table.name)

    def consume(self, table: Table) -> Timing:
        """Exports the changes since the last time."""
        nodes = [f"{table.name}_{node}" for node in ("changes", "events", "exported")]
        return self.project.dbt("run", "--select", *nodes)

    def changes(self, table: Table) -> DataFrame:
        """Returns the changes of a table that the consumer has read."""
        return self.workshop.spark.table(f"{self.project.name}.{table.name}_changes")

    def drop(self, table: Table) -> None:
        super().drop(table)
        names = (f"{self.project.name}.{table.name}_{node}" for node in ("changes", "exported"))
        drop_tables(self.workshop, list(names))
        shutil.rmtree(self.folder(table), ignore_errors=True)


class Keyed:
    """A table of this package whose rows move to other keys, with resolver and history."""

    name = "cdc_history"
    columns: ClassVar = {"id": "bigint", "name": "string", "city": "string"}

    def __init__(self, workshop: Workshop, raw: str) -> None:
        self.workshop = workshop
        declaration = {
            "format": "change_event",
            "keys": ["id"],
            "key_changes": True,
            "arrival": "batch",
        }
        source = {
            "name": "moved",
            "identifier": raw,
            "config": {"meta": {"cdc": declaration}},
            "columns": [{"name": name, "data_type": kind} for name, kind in self.columns.items()],
        }
        history = {
            "name": "moved_history",
            "relation": "ref('moved_keys')",
            "config": {"strategy": "cdc.scd2", "unique_key": ["id"], "file_format": "delta"},
        }
        files = {
            "models/sources.yml": as_yaml(
                {"version": 2, "sources": [{"name": "log", "schema": SCHEMA, "tables": [source]}]}
            ),
            "models/stg_moved.sql": (
                "{{ config(materialized='view') }}\n{{ cdc.events(source('log', 'moved')) }}\n"
            ),
            "models/moved_keys.py": RESOLVED,
            "models/moved.sql": (
                "{{ config(materialized='incremental', incremental_strategy='merge',"
                " unique_key=['id']) }}\n"
                "{{ cdc.current(ref('moved_history')) }}\n"
            ),
            "snapshots/histories.yml": as_yaml({"snapshots": [history]}),
        }
        name = "cdc_of_moved"
        self.project = Project(name, _project_folder(workshop, name), workshop.folder, files, True)
        self.current = f"{name}.moved"

    def load(self) -> Timing:
        """Builds the tables."""
        return self.project.dbt("build")

    def apply(self, batch: int) -> Timing:
        """Brings the tables up to date."""
        return self.project.dbt("build")

    def drop(self) -> None:
        """Frees the disk that the tables take."""
        names = (f"{self.project.name}.moved{end}" for end in ("_keys", "_history", ""))
        drop_tables(self.workshop, list(names))


class Recipe(_InDbt):
    """Latest row of each key by row_number, merged on the key; deletes are a flag.

    With a history also dbt's snapshot by timestamp of the latest rows.
    """

    def __init__(
        self,
        workshop: Workshop,
        tables: Sequence[Table],
        *,
        history: bool,
        vectors: bool = False,
        threads: int = 1,
    ) -> None:
        self.name = "dbt_recipe_dv" if vectors else "dbt_recipe"
        self.workshop = workshop
        self.history = history
        self.threads = threads
        files = {"models/sources.yml": _source(tables, None)}
        # Delta's defaults, where the table has no deletion vectors.
        properties = {
            "delta.enableDeletionVectors": str(vectors).lower(),
            "delta.checkpointInterval": "10",
        }
        snapshots = []
        for table in tables:
            name = table.name
            files[f"models/stg_{name}.sql"] = STAGING.format(columns=COLUMN_LIST, name=name)
            files[f"models/{name}.sql"] = MERGED.format(
                columns=COLUMN_LIST, name=name, properties=properties
            )
            files[f"models/{name}_current.sql"] = CURRENT.format(columns=COLUMN_LIST, name=name)
            snapshots.append(
                {
                    "name": f"{name}_snapshot",
                    "relation": f"ref('stg_{name}')",
                    "config": {
                        "strategy": "timestamp",
                        "unique_key": "id",
                        "updated_at": "changed_at",
                        "file_format": "delta",
                        "tblproperties": properties,
                    },
                }
            )
        if history:
            files["snapshots/snapshots.yml"] = as_yaml({"snapshots": snapshots})
        name = f"{self.name}_of_{tables[0].name}"
        self.project = Project(name, _project_folder(workshop, name), workshop.folder, files, False)

    def _nodes(self, table: Table) -> list[str]:
        history = [f"{table.name}_snapshot"] if self.history else []
        return [f"stg_{table.name}", *history, table.name, f"{table.name}_current"]

    def delta_tables(self, table: Table) -> list[str]:
        names = super().delta_tables(table)
        return [f"{names[0]}_snapshot", *names] if self.history else names

    def current(self, table: Table) -> DataFrame:
        return self.workshop.spark.table(f"{self.project.name}.{table.name}_current")

    def versions(self, table: Table) -> DataFrame:
        """Returns the versions of a snapshot that are no deletes, as key and position."""
        snapshot = self.workshop.spark.table(f"{self.project.name}.{table.name}_snapshot")
        return snapshot.where("not is_deleted").selectExpr("id", "changed_at")


def _project_folder(workshop: Workshop, name: str) -> Path:
    return workshop.folder / "projects" / name


EXPORTED = """\
from dbt_spark_cdc.export import to_files


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="append", file_format="delta")
    return to_files(dbt, session, dbt.ref("{name}_events"), dbt.config.get("export_folder"))
"""

RESOLVED = """\
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(
        materialized="incremental",
        incremental_strategy="merge",
        unique_key="_event_id",
        file_format="delta",
    )
    return resolve_keys(dbt, session, dbt.ref("stg_moved"))
"""

STAGING = """\
{{{{ config(materialized='view') }}}}
with ranked as (
    select
        *,
        row_number() over (partition by id order by seq desc) as latest
    from {{{{ source('log', '{name}') }}}}
)

select
    {columns},
    flag = 'D' as is_deleted
from ranked
where latest = 1
"""

# The watermark stands before the window: behind it, every run would sort the whole log.
MERGED = """\
{{{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key='id',
    tblproperties={properties}
) }}}}
with ranked as (
    select
        *,
        row_number() over (partition by id order by seq desc) as latest
    from {{{{ source('log', '{name}') }}}}
    {{% if is_incremental() %}}
    where changed_at > (select max(changed_at) from {{{{ this }}}})
    {{% endif %}}
)

select
    {columns},
    flag = 'D' as is_deleted
from ranked
where latest = 1
"""

CURRENT = """\
{{{{ config(materialized='view') }}}}
select {columns}
from {{{{ ref('{name}') }}}}
where not is_deleted
"""
