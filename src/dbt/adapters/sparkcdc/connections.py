"""dbt's connections: each holds one Spark session from open to close."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.spark.connections import SparkConnectionManager
from dbt.adapters.sparkcdc.errors import changes_that_are_gone, message_of
from dbt.adapters.sparkcdc.iceberg import images as iceberg_images
from dbt.adapters.sparkcdc.nodes.progress import Load
from dbt.adapters.sparkcdc.session import remote
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.adapters.sparkcdc.session.opening import close_session, end_of_java, open_session
from dbt.adapters.sparkcdc.tables.known import Known
from dbt.adapters.sparkcdc.tables.places import Place
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

if TYPE_CHECKING:
    import agate
    from dbt.adapters.spark import SparkColumn
    from dbt.adapters.sparkcdc.session.statement_log import StatementLog
    from pyspark.sql import SparkSession


class Handle:
    """One open connection: a Spark session that nothing else uses.

    Attributes:
        spark: The session.
        columns: What `describe` has returned for tables and views since the last other statement.
        places: Where the files of Delta tables are; None where only the server reaches them.
        steps: Temporary views of the node that runs.
        images: What commits of Iceberg's tables changed, for the node that runs.
        shown_to: The last version of these tables whose changes it was shown.
        load: The large load that runs.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.columns: dict[str, list[SparkColumn]] = {}
        self.places: dict[str, Place | None] = {}
        self.steps: list[str] = []
        self.images: list[iceberg_images.Image] = []
        self.shown_to: dict[str, int] = {}
        self.load: Load | None = None

    def cursor(self) -> Cursor:
        return Cursor(self.spark)

    def cancel(self) -> None:
        if remote.is_remote(self.spark):
            remote.interrupt(self.spark)
        else:
            self.spark.interruptAll()

    def rollback(self) -> None:
        """Spark has no transactions; each Delta commit stands by itself."""

    def forget_images(self) -> None:
        """Lets go of the images."""
        found, self.images = self.images, []
        self.shown_to.clear()
        iceberg_images.forget_images(self.spark, found)

    def end_load(self) -> None:
        """Ends the report of the load that runs."""
        if self.load is not None:
            self.load.end()
            self.load = None

    def close(self) -> None:
        self.end_load()
        self.forget_images()
        close_session(self.spark)


class SparkCdcConnectionManager(SparkConnectionManager):
    """Opens sessions, runs statements in them and words their errors.

    Attributes:
        statement_log: Records what statements take; None where nobody asked for it.
        known: What catalog and logs have said since the last statement.
    """

    TYPE = "sparkcdc"
    statement_log: StatementLog | None = None

    def __init__(self, profile: Any, mp_context: Any) -> None:
        super().__init__(profile, mp_context)
        self.known = Known()

    def timed(self, sql: str) -> AbstractContextManager[None]:
        """Records what a statement takes, where this is asked for.

        Args:
            sql: The statement that the block runs.
        """
        return self.statement_log.timed(sql) if self.statement_log else nullcontext()

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        if connection.state != ConnectionState.OPEN:
            connection.handle = Handle(open_session(connection.credentials))
            connection.state = ConnectionState.OPEN
        return connection

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        try:
            yield
        except DbtRuntimeError:
            raise
        except Exception as exc:
            connection = self.get_thread_connection()
            creds = connection.credentials
            if ended := end_of_java(creds, exc) or remote.what_ended(creds, exc):
                raise DbtDatabaseError(ended) from exc
            spark = connection.handle.spark
            raise DbtDatabaseError(changes_that_are_gone(spark, sql) or message_of(exc)) from exc

    @classmethod
    def get_response(cls, cursor: Cursor | None) -> AdapterResponse:
        rows = cursor.rows_affected if cursor else None
        if rows is None:
            return AdapterResponse(_message="OK")
        return AdapterResponse(_message=f"OK {rows}", rows_affected=rows)

    def add_query(self, *arguments: Any, **named: Any) -> tuple[Connection, Any]:
        try:
            return super().add_query(*arguments, **named)
        finally:
            self.known.forget()

    def execute(
        self, sql: str, auto_begin: bool = False, fetch: bool = False, limit: int | None = None
    ) -> tuple[AdapterResponse, agate.Table]:
        """Runs a statement, a query included: Spark alone would leave an unfetched one undone."""
        from dbt_common.clients.agate_helper import empty_table

        if not sql.lstrip().lower().startswith("describe"):
            self.get_thread_connection().handle.columns.clear()
        with self.timed(sql):
            sql = self._add_query_comment(sql)
            _, cursor = self.add_query(sql, auto_begin)
            with self.exception_handler(sql):
                if fetch:
                    table = self.get_result_from_cursor(cursor, limit)
                else:
                    cursor.run()
                    table = empty_table()
        return self.get_response(cursor), table
