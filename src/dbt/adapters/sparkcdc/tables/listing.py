"""What a schema holds, asked of Spark's catalog in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dbt_common.exceptions import DbtRuntimeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Listed(NamedTuple):
    """A table or view: its name, whether it is a view, the format of a table, and what Java has."""

    name: str
    is_view: bool
    provider: str
    java: Any


def list_tables(spark: SparkSession, schema: str) -> list[Listed]:
    """Returns the tables and views of a schema.

    `show table extended` gives the same, but fetches tables from the metastore one by one, 10 ms
    each, whenever dbt starts.

    Args:
        spark: A session in this process; a session of Connect has no catalog to ask.
        schema: Schema of the session's own catalog.

    Raises:
        DbtRuntimeError: The metastore cannot be read.
    """
    from py4j.protocol import Py4JJavaError

    catalog = spark._jsparkSession.sessionState().catalog()
    converters = getattr(spark._jvm, "scala.jdk.javaapi.CollectionConverters")
    try:
        if not catalog.databaseExists(schema):
            return []
        names = catalog.listTables(schema, "*", False)
        tables = converters.asJava(catalog.getTablesByName(names))
    except Py4JJavaError as exc:
        raise DbtRuntimeError(
            f"Schema {schema} cannot be listed: {exc.java_exception}\nCheck that the metastore of"
            " the profile's target can be reached, and that this user may read it."
        ) from exc
    return [
        Listed(
            table.identifier().table(),
            table.tableType().name() == "VIEW",
            provider_of(table),
            table,
        )
        for table in tables
    ]


def provider_of(table: Any) -> str:
    """Returns the format of a table of Spark's catalog, in lower case; of a view, nothing.

    Args:
        table: Java's `CatalogTable`.
    """
    # Under a Hive catalog Iceberg's tables read `hive`.
    kind = table.properties().get("table_type")
    if kind.isDefined() and kind.get().lower() == "iceberg":
        return "iceberg"
    provider = table.provider()
    return str(provider.get()).lower() if provider.isDefined() else ""
