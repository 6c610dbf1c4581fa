"""The adapter: dbt-spark's, with sessions, Python models and exact seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnContext
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.impl import log_code_execution
from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.spark.impl import SparkAdapter, SparkConfig
from dbt.adapters.sparkcdc.connections import SparkCdcConnectionManager
from dbt.adapters.sparkcdc.delta_log import local_folder, newest_commits, table_bytes
from dbt.adapters.sparkcdc.listing import list_tables, provider_of
from dbt.adapters.sparkcdc.python_model import run_model
from dbt.adapters.sparkcdc.session import warm_up
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
SEED_VIEW = "__dbt_seed"
# Settings that Delta changes in a session which it writes in.
SET_BY_DELTA = "spark.sql.parquet.fieldId."
SEPARATOR = "\x1e"


@dataclass
class SparkCdcConfig(SparkConfig):
    """Model settings beyond dbt's own."""

    tblproperties: dict[str, str] | None = None


def _as_dict(settings: Any) -> dict[str, str]:
    """A map of Scala in one call; item by item it would take hundreds."""
    pairs = settings.mkString(SEPARATOR).split(SEPARATOR)
    return dict(pair.split(" -> ", 1) for pair in pairs if pair)


def _is_one_model(select: Sequence[str] | None) -> bool:
    """Whether `--select` names one model and nothing around it."""
    return len(select or []) == 1 and str(select[0]).replace("_", "").isalnum()  # type: ignore[index]


class SparkCdcAdapter(SparkAdapter):
    """Child of dbt-spark's adapter; only what a Spark of dbt's own makes different."""

    ConnectionManager = SparkCdcConnectionManager
    AdapterSpecificConfigs = SparkCdcConfig

    def __init__(self, config: Any, mp_context: SpawnContext) -> None:
        super().__init__(config, mp_context)
        self.asking = RLock()
        self.answers: dict[str, Any] = {}
        self.project = Path(getattr(config, "project_root", None) or Path.cwd()).resolve()
        config.credentials.anchor(self.project)
        args = getattr(config, "args", None)
        command = getattr(args, "which", None)
        if command in RUNS_SPARK:
            brief = config.credentials.quick_start
            if brief is None:
                brief = command in LOOKS_ONLY or _is_one_model(getattr(args, "select", None))
            warm_up(config.credentials, record=command == "build" and not brief, brief=brief)

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
        run_model(handle.spark, parsed_model, compiled_code, self.project)
        return AdapterResponse(_message="OK")

    @available.parse_none
    def make_seed_view(self, agate_table: agate.Table) -> str:
        """Shows a seed's rows to SQL as a temp view of texts, exactly as dbt read them.

        Args:
            agate_table: The seed.

        Returns:
            Name of the view.
        """
        spark = self.connections.get_thread_connection().handle.spark
        schema = ", ".join(
            f"`{name.replace('`', '``')}` string" for name in agate_table.column_names
        )
        rows = [tuple(None if v is None else str(v) for v in row) for row in agate_table.rows]
        spark.createDataFrame(rows, schema).createOrReplaceTempView(SEED_VIEW)
        return SEED_VIEW

    @available.parse_none
    def newest_commits(self, table: str, limit: int) -> list[dict[str, Any]] | None:
        """Reads a Delta table's newest commits without a Spark job.

        Args:
            table: Its name in SQL.
            limit: How many at most.

        Returns:
            See `delta_log.newest_commits`; None also where the table is on no disk of this machine.
        """
        folder = self._delta_folder(table)
        return None if folder is None else newest_commits(folder, limit)

    @available.parse_none
    def delta_detail(self, table: str) -> dict[str, Any] | None:
        """Returns `location` and `sizeInBytes` of a Delta table without a Spark job.

        Args:
            table: Its name in SQL.

        Returns:
            None where Spark must be asked.
        """
        folder = self._delta_folder(table)
        commits = None if folder is None else newest_commits(folder, 1)
        if folder is None or not commits:
            return None
        size = table_bytes(folder, commits[0]["version"])
        return None if size is None else {"location": f"file:{folder}", "sizeInBytes": size}

    @available.parse_none
    def view_text(self, view: str) -> str | None:
        """Returns the query that a view was made of.

        Args:
            view: Its name in SQL.

        Returns:
            None where there is no such view, or it was made under other settings than this
            session's: a view keeps those it was made under, its time zone for one.
        """
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
    def once(self, name: str, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Asks once in a run what several nodes want to know; threads wait for the first one.

        Args:
            name: What is asked; the same name is the same answer.
            ask: A macro.
            arguments: Its arguments.

        Returns:
            What the macro returned.
        """
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

    def _delta_folder(self, name: str) -> Path | None:
        folders = self.connections.get_thread_connection().handle.folders
        if name not in folders:
            table = self._catalog_table(name)
            is_delta = table is not None and provider_of(table) == "delta"
            location = table.storage().locationUri() if is_delta else None
            folders[name] = (
                local_folder(location.get().toString())
                if location and location.isDefined()
                else None
            )
        return folders[name]

    def _catalog_table(self, name: str) -> Any:
        """What the session's own catalog tells of a table or view, without reading it."""
        from pyspark.errors import PySparkException

        spark = self.connections.get_thread_connection().handle.spark
        if not hasattr(spark, "_jsparkSession"):
            return None
        state = spark._jsparkSession.sessionState()
        try:
            return state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name))
        except PySparkException:  # none of this name, or in another catalog
            return None

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
        if hasattr(spark, "_jsparkSession") and "." not in schema:
            return [
                self.Relation.create(
                    schema=schema,
                    identifier=table.name,
                    type=RelationType.View if table.is_view else RelationType.Table,
                    is_delta=table.provider == "delta",
                    is_iceberg=table.provider == "iceberg",
                    is_hudi=table.provider == "hudi",
                )
                for table in list_tables(spark, schema)
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
