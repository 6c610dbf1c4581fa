"""What keeps the final tables up to date while changes are committed."""

from __future__ import annotations

from pathlib import Path

from bench.live.load import SCHEMA, table_name
from bench.session import Project, as_yaml

THREADS = 4
# The least seconds between two checks of `cdc watch`.
INTERVAL = 0.1
# Of all systems. They run for a while: what is compiled once serves each batch, if Spark keeps it.
SMALL = {
    "spark.sql.shuffle.partitions": 1,
    "spark.sql.adaptive.enabled": False,
    "spark.sql.codegen.cache.maxEntries": 2000,
}
RAW = f"{SCHEMA}_raw"
COLUMNS = {
    "id": "bigint",
    "name": "string",
    "city": "string",
    "amount": "decimal(12,2)",
    "version": "bigint",
    "changed_at": "timestamp",
}
LANDING = """\
from dbt_spark_cdc.landing import land


def model(dbt, session):
    dbt.config(
        materialized="incremental",
        incremental_strategy="append",
        on_schema_change="append_new_columns",
        file_format="delta",
    )
    return land(dbt, session, dbt.config.get("landing_folder"), dbt.config.get("raw_table"))
"""


def landing_files(landing: Path) -> dict[str, str]:
    """Returns the files of a dbt project that lands a folder.

    Args:
        landing: The landing folder.
    """
    config = {"landing_folder": str(landing), "raw_table": f"{RAW}.landed"}
    return {
        "models/landing.py": LANDING,
        "models/landing.yml": as_yaml({"models": [{"name": "landing", "config": config}]}),
    }


class Watched:
    """This package: `cdc watch` over landing, staging, histories where wanted, and final tables.

    Attributes:
        name: As in the results.
        history: Whether there are histories.
        warehouse: Folder of its warehouse.
    """

    def __init__(self, folder: Path, landing: Path, tables: int, *, history: bool) -> None:
        """Writes the dbt project.

        Args:
            folder: For the project and its warehouse.
            landing: The landing folder.
            tables: Number of tables.
            history: Whether there are histories.
        """
        self.name = "cdc_history" if history else "cdc"
        self.history = history
        self.warehouse = folder / "warehouse"
        names = [table_name(number) for number in range(tables)]
        declaration = {"format": "wal2json_v2", "landed": True, "keys": ["id"], "history": history}
        columns = [{"name": name, "data_type": kind} for name, kind in COLUMNS.items()]
        source = {
            "name": SCHEMA,
            "schema": RAW,
            "config": {"meta": {"cdc": declaration}},
            "tables": [
                {"name": name, "identifier": "landed", "columns": columns} for name in names
            ],
        }
        files = landing_files(landing)
        files["models/sources.yml"] = as_yaml({"sources": [source]})
        config = (
            "{{ config(materialized='incremental', incremental_strategy='merge',"
            " unique_key=['id']) }}\n"
        )
        for name in names:
            above = f"{name}_history" if history else f"stg_{name}"
            files[f"models/stg_{name}.sql"] = (
                "-- depends_on: {{ ref('landing') }}\n"
                f"{{{{ cdc.events(source('{SCHEMA}', '{name}')) }}}}\n"
            )
            files[f"models/{name}.sql"] = f"{config}{{{{ cdc.current(ref('{above}')) }}}}\n"
        if history:
            histories = [
                {
                    "name": f"{name}_history",
                    "relation": f"ref('stg_{name}')",
                    "config": {
                        "strategy": "cdc.scd2",
                        "unique_key": ["id"],
                        "file_format": "delta",
                    },
                }
                for name in names
            ]
            files["snapshots/histories.yml"] = as_yaml({"snapshots": histories})
        place = folder / "project"
        self.project = Project(
            SCHEMA,
            place,
            folder,
            files,
            True,
            threads=THREADS,
            parameters=SMALL,
            interpret_small=False,
        )
        self.project.write()

    def arguments(self) -> list[str]:
        """Returns Python's arguments for the process."""
        place = str(self.project.folder)
        return [
            *("-m", "dbt_spark_cdc.cli", "watch", "--project-dir", place, "--profiles-dir", place),
            *("--first", "landing", "--interval", str(INTERVAL), "--at-once", str(THREADS)),
            "--json",
        ]

    def final(self, table: int) -> Path:
        """Returns the folder of a final table."""
        return self.warehouse / f"{SCHEMA}.db" / table_name(table)

    def stages(self, table: int) -> dict[str, Path]:
        """Returns the folders of the tables on the way to a final table, by name."""
        history = Path(f"{self.final(table)}_history")
        return {"history": history} if self.history else {}

    @property
    def raw(self) -> Path | None:
        """The folder of the raw table."""
        return self.warehouse / f"{RAW}.db" / "landed"

    @property
    def living(self) -> str:
        """Condition of the rows of a final table that are not deleted."""
        return "true" if self.history else "_cdc_deleted_at is null"


class ForeachBatch:
    """Structured Streaming: a query for each landing folder, a MERGE for each micro-batch."""

    name = "foreach_batch"
    raw: Path | None = None
    living = "true"

    def __init__(self, folder: Path, landing: Path, tables: int) -> None:
        """Makes the folders that the queries read.

        Args:
            folder: For the warehouse.
            landing: The landing folder.
            tables: Number of tables.
        """
        self.folder, self.landing, self.tables = folder, landing, tables
        for number in range(tables):
            (landing / table_name(number)).mkdir(parents=True, exist_ok=True)

    def arguments(self) -> list[str]:
        """Returns Python's arguments for the process."""
        names = ",".join(table_name(number) for number in range(self.tables))
        return [
            *("-m", "bench.live.foreach_batch", "--folder", str(self.folder)),
            *("--landing", str(self.landing), "--tables", names),
        ]

    def final(self, table: int) -> Path:
        """Returns the folder of a final table."""
        return self.folder / "warehouse" / f"{SCHEMA}.db" / table_name(table)

    def stages(self, table: int) -> dict[str, Path]:
        """Returns nothing: there is no table on the way to a final table."""
        return {}


System = Watched | ForeachBatch
