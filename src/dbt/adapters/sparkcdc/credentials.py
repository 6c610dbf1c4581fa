"""What a profile of `type: sparkcdc` may say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from dbt.adapters.contracts.connection import Credentials
from dbt.adapters.sparkcdc.iceberg import tables as iceberg
from dbt.adapters.sparkcdc.jvm import metastore as metastores
from dbt.adapters.sparkcdc.tables.places import local_folder
from dbt_common.exceptions import DbtRuntimeError

from dbt_spark_cdc.words import is_identifier

# The scheme of one letter is a drive of Windows.
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
TOKEN = re.compile(r";token=([^;]*)")


@dataclass
class SparkCdcCredentials(Credentials):
    """Connection settings; only `schema` has to be given.

    Attributes:
        schema: Schema (Spark: database) that models are built in.
        warehouse: Where the tables are: a folder, relative to the project, or the address of one in
            an object store, such as `s3a://bucket/warehouse`.
        metastore: Folder of the embedded metastore, relative to the project; by default
            `.metastore` in the warehouse. A warehouse in an object store needs this, or a metastore
            that `server_side_parameters` names.
        spark_log: File for everything that the JVM prints, relative to the project.
        remote: Spark Connect URL (`sc://host:port`); without it Spark runs inside dbt's process.
            A `token` in it is moved to the field `token`, so that the URL can be shown.
        token: Bearer token of the Spark Connect server. No message, log or `dbt debug` shows it.
        shared_files: Whether the server's files, `file:/...`, are on this machine too, at the same
            paths. The adapter then reads facts from the logs of tables.
        reconnect_seconds: How long a statement waits for a server that does not answer.
        quick_start: Whether Java starts without its optimizing compiler, which suits a few short
            statements. If unset, it does so for `show`, `compile`, `run-operation` and for a run
            of one model.
        interpret_small: Whether Spark interprets statements over few rows instead of compiling
            them. A long-running process compiles a statement only once: `cdc watch` with
            thousands of changes in a batch is faster with false.
        iceberg_catalog: Name of the catalog that tables with `file_format: iceberg` are in. Its
            settings are `spark.sql.catalog.<name>.*`; without them it is a folder in the warehouse.
        max_rows_per_commit: Maximum number of raw rows in a batch. A table with more rows to read
            is loaded in parts, each with a commit of its own. 0: all rows in one commit.
        log_statements: Whether a build records the duration of each SQL statement in
            target/cdc_statements.jsonl.
        server_side_parameters: Spark settings; each one overrides the adapter's default.
        method: Always `session`, which macros of dbt-spark expect.
    """

    database: str | None = None  # type: ignore[assignment]
    schema: str | None = None  # type: ignore[assignment]
    warehouse: str = "warehouse"
    metastore: str | None = None
    spark_log: str = "logs/spark.log"
    remote: str | None = None
    token: str | None = field(default=None, repr=False)
    shared_files: bool = False
    reconnect_seconds: int = 60
    quick_start: bool | None = None
    interpret_small: bool = True
    max_rows_per_commit: int = 20_000_000
    log_statements: bool = False
    iceberg_catalog: str | None = None
    server_side_parameters: dict[str, Any] = field(default_factory=dict)
    method: str = "session"

    def __post_init__(self) -> None:
        self.server_side_parameters = {
            key: _spark_value(value) for key, value in self.server_side_parameters.items()
        }
        remote = self.server_side_parameters.pop("spark.remote", self.remote)
        if remote and (found := TOKEN.search(remote)):
            self.token = self.token or unquote(found[1])
            remote = TOKEN.sub("", remote)
        self.remote = remote
        problems = [*self._problems(), *self._problems_of_catalog(), *self._problems_of_warehouse()]
        if problems:
            raise DbtRuntimeError("\n".join(problems))
        self.database = None
        if self.warehouse.startswith("file:"):
            self.warehouse = str(local_folder(self.warehouse))

    def _problems(self) -> Iterator[str]:
        if not self.schema:
            yield (
                "The profile of type sparkcdc has no `schema`: add `schema: <name>`, the schema "
                "that dbt builds in."
            )
        if self.database not in (None, self.schema):
            yield (
                f"The profile names database '{self.database}' and schema '{self.schema}': in "
                "Spark they are one thing. Leave `database` out."
            )
        if self.method != "session":
            yield (
                f"Type sparkcdc has no method '{self.method}': it runs Spark in dbt's own process, "
                "or on a Spark Connect server with `remote: sc://host:port`. For thrift, http "
                "and odbc use `type: spark`."
            )
        if self.token and not self.remote:
            yield (
                "The profile of type sparkcdc has a `token` and no `remote`: add `remote: "
                "sc://host:port`, the Spark Connect server that it is for, or leave it out."
            )
        if self.shared_files and not self.remote:
            yield (
                "The profile of type sparkcdc has `shared_files` and no `remote`: add `remote: "
                "sc://host:port`, the Spark Connect server whose files are meant, or leave it out."
            )
        if self.max_rows_per_commit < 0:
            yield (
                "The profile of type sparkcdc has `max_rows_per_commit: "
                f"{self.max_rows_per_commit}`: it is a number of rows, or 0 for one commit."
            )
        if self.reconnect_seconds < 0:
            yield (
                f"The profile of type sparkcdc has `reconnect_seconds: {self.reconnect_seconds}`: "
                "it is a time, 0 or more."
            )

    def _problems_of_catalog(self) -> Iterator[str]:
        if not self.iceberg_catalog:
            return
        if not is_identifier(self.iceberg_catalog):
            yield (
                f"The profile of type sparkcdc has `iceberg_catalog: {self.iceberg_catalog}`: the "
                "name of a catalog consists of letters, digits and `_`."
            )
        if self.iceberg_catalog == "spark_catalog":
            yield (
                "The profile of type sparkcdc has `iceberg_catalog: spark_catalog`, which is the "
                "catalog of Delta's tables. Name another one, such as `lake`."
            )
        if self.remote:
            yield (
                "The profile of type sparkcdc has `iceberg_catalog` and `remote`: tables of "
                "Iceberg are built by the Spark inside dbt's process only. Leave one of them out."
            )

    def _problems_of_warehouse(self) -> Iterator[str]:
        scheme, _, place = self.warehouse.partition(":")
        authority = place.removeprefix("//").partition("/")[0]
        is_embedded = metastores.is_embedded(self.server_side_parameters)
        if "@" in authority and (":" in authority.partition("@")[0] or scheme.startswith("s3")):
            # No other message may show the address.
            yield (
                f"The profile of type sparkcdc has a `warehouse` of scheme {scheme} with a key or "
                "password in its address, which messages would show. Give it by the environment, "
                "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for S3, or by an entry of "
                "`server_side_parameters` that reads it with `env_var`."
            )
            return
        if scheme == "file" and local_folder(self.warehouse) is None:
            yield (
                f"The profile of type sparkcdc has `warehouse: {self.warehouse}`, which is not "
                "on a disk of this machine: write the path of a folder."
            )
        elif scheme in ("s3", "s3n") and not self.remote:
            yield (
                f"The profile of type sparkcdc has `warehouse: {self.warehouse}`: Spark reaches S3 "
                f"by s3a. Write `warehouse: s3a:{place}`."
            )
        if self.metastore and not is_embedded:
            yield (
                f"The profile of type sparkcdc has `metastore: {self.metastore}`, the folder of an "
                "embedded metastore, and names another metastore in `server_side_parameters`: "
                "leave one of them out."
            )
        is_elsewhere = self.warehouse_folder is None and scheme != "file"
        if is_elsewhere and is_embedded and not self.metastore and not self.remote:
            yield (
                f"The profile of type sparkcdc has `warehouse: {self.warehouse}` and no metastore: "
                "the embedded one needs a folder on this machine, since it cannot be in an object "
                "store. Add `metastore: <folder>`, or name a metastore that several machines share "
                "as `spark.hadoop.javax.jdo.option.ConnectionURL` or "
                "`spark.hadoop.hive.metastore.uris` in `server_side_parameters`."
            )

    @property
    def warehouse_folder(self) -> Path | None:
        """The warehouse on a disk of this machine; None where it is in an object store."""
        return None if ADDRESS.match(self.warehouse) else Path(self.warehouse)

    @property
    def metastore_folder(self) -> Path | None:
        """The folder of the embedded metastore; None where the profile names another metastore."""
        if not metastores.is_embedded(self.server_side_parameters):
            return None
        if self.metastore:
            return Path(self.metastore)
        folder = self.warehouse_folder
        return None if folder is None else folder / metastores.IN_WAREHOUSE

    @property
    def address(self) -> str:
        """The url that Spark Connect is reached at, with the token: not to be shown."""
        url = self.remote or ""
        if not self.token:
            return url
        # Parameters stand behind a path, which is always empty.
        separator = ";" if "/;" in url else ";" if url.endswith("/") else "/;"
        # PySpark takes it for a parameter of the url: `=` of base64, for one, ends there.
        return f"{url}{separator}token={quote(self.token, safe='')}"

    @property
    def type(self) -> str:
        return "sparkcdc"

    @property
    def unique_field(self) -> str:
        return self.remote or self.warehouse

    def _connection_keys(self) -> tuple[str, ...]:
        return (
            "schema",
            "warehouse",
            "metastore",
            "spark_log",
            "iceberg_catalog",
            "remote",
            "shared_files",
            "method",
        )

    def anchor(self, folder: str | Path) -> None:
        """Makes the paths absolute, so that the working directory no longer matters.

        Args:
            folder: Folder that relative paths start from: the dbt project's root.
        """
        root = Path(folder).resolve()
        if self.warehouse_folder is not None:
            self.warehouse = str(root / self.warehouse_folder.expanduser())
        if self.metastore:
            self.metastore = str(root / Path(self.metastore).expanduser())
        self.spark_log = str(root / Path(self.spark_log).expanduser())
        if self.iceberg_catalog:
            self.server_side_parameters = iceberg.catalog_settings(
                self.iceberg_catalog, self.warehouse, self.server_side_parameters
            )


def _spark_value(value: Any) -> str:
    """Text as Spark writes it: YAML's `true` reaches Python as True."""
    return str(value).lower() if isinstance(value, bool) else str(value)
