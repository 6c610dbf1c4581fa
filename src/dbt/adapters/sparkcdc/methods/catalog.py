"""What Spark's catalog says of tables, views and schemas."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.sparkcdc.methods.base import BaseMethods
from dbt.adapters.sparkcdc.session import remote
from dbt.adapters.sparkcdc.tables.listing import list_tables

if TYPE_CHECKING:
    import agate
    from dbt.adapters.spark import SparkColumn

# Settings that Delta changes in a session which it writes in.
SET_BY_DELTA = "spark.sql.parquet.fieldId."
SEPARATOR = "\x1e"
# A table of the session's own catalog, as relations are rendered.
PLAIN_NAME = re.compile(r"`?([^`.]+)`?\.`?([^`.]+)`?")


def as_dict(settings: Any) -> dict[str, str]:
    """Returns a map of Scala in one call; item by item it would take hundreds.

    Args:
        settings: The map, of texts.
    """
    pairs = settings.mkString(SEPARATOR).split(SEPARATOR)
    return dict(pair.split(" -> ", 1) for pair in pairs if pair)


class CatalogMethods(BaseMethods):
    """Tables, views and schemas as the catalog has them; dbt's own questions included."""

    @available.parse_none
    def is_there(self, table: str) -> bool:
        """Asks the catalog, and not dbt's cache, whether a table or view is there.

        Args:
            table: Its name in SQL.
        """
        return bool(self._spark.catalog.tableExists(table))

    @available.parse_none
    def view_text(self, view: str) -> str | None:
        """Returns the query that a view was made of.

        Args:
            view: Its name in SQL.

        Returns:
            None where there is no such view, or it was made under other settings than this
            session's: a view keeps those it was made under, its time zone for one.
        """
        return self.connections.known.ask(("view", view), lambda: self._view_text(view))

    def _view_text(self, view: str) -> str | None:
        table = self._catalog_table(view)
        if table is None or not table.viewText().isDefined():
            return None
        spark = self._spark
        now = as_dict(spark._jsparkSession.sessionState().conf().getAllConfs())
        for name, value in as_dict(table.viewSQLConfigs()).items():
            if not name.startswith("spark.sql.") or name.startswith(SET_BY_DELTA):
                continue
            # What is not set has a default.
            if (now[name] if name in now else spark.conf.get(name, None)) != value:
                return None
        return str(table.viewText().get())

    @available.parse_none
    def view_query(self, view: str) -> str | None:
        """Returns the query of a view, or None where there is no such view.

        Args:
            view: Its name in SQL.
        """
        table = self._catalog_table(view)
        text = table.viewText() if table is not None else None
        return str(text.get()) if text is not None and text.isDefined() else None

    @available.parse_none
    def view_property(self, view: str, name: str) -> str | None:
        """Returns a property of a view.

        Args:
            view: Its name in SQL.
            name: The property's.

        Returns:
            None where there is no such view, or the view has no such property.
        """
        table = self._catalog_table(view)
        return None if table is None else as_dict(table.properties()).get(name)

    @available.parse_none
    def note_created(self, relation: BaseRelation) -> None:
        """Has dbt know a table before its materialization ends.

        Args:
            relation: The table.
        """
        for there in self.list_relations_without_caching(relation.without_identifier()):
            # Spark writes names small.
            if str(there.identifier).lower() == str(relation.identifier).lower():
                self.cache_added(there)

    def _catalog_table(self, name: str) -> Any:
        """What the session's own catalog tells of a table or view, without reading it."""
        from pyspark.errors import PySparkException

        spark = self._spark
        if remote.is_remote(spark):
            return None

        def find() -> Any:
            state = spark._jsparkSession.sessionState()
            try:
                return state.catalog().getTableMetadata(
                    state.sqlParser().parseTableIdentifier(name)
                )
            except PySparkException:  # none of this name, or in another catalog
                return None

        # Sessions of several nodes ask; without a schema, a name is the session's own.
        if (parts := PLAIN_NAME.fullmatch(name)) is None:
            return find()
        schema, identifier = (part.lower() for part in parts.groups())
        return self.connections.known.ask(("catalog", schema, identifier), find)

    def get_columns_in_relation(self, relation: BaseRelation) -> list[SparkColumn]:
        # A materialization asks for the same columns up to six times in a row.
        known = self._handle.columns
        name = relation.render()
        if name not in known:
            known[name] = super().get_columns_in_relation(relation)
        return list(known[name])

    def _make_match(
        self, relations_list: list[BaseRelation], database: str, schema: str, identifier: str
    ) -> list[BaseRelation]:
        # dbt compares all parts of all names, for each question of each node: half a second of a
        # build of 65 tables. Most differ in the last part.
        wanted = identifier.lower().strip("`")
        found = [one for one in relations_list if (one.identifier or "").lower() == wanted]
        return super()._make_match(found, database, schema, identifier)

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        spark = self._spark
        schema = schema_relation.schema or ""
        if not remote.is_remote(spark) and "." not in schema:
            note = self.connections.known.notes()
            listed = list_tables(spark, schema)
            for table in listed:
                note(("catalog", schema.lower(), table.name.lower()), table.java)
            return [
                self.Relation.create(
                    schema=schema,
                    identifier=table.name,
                    type=RelationType.View if table.is_view else RelationType.Table,
                    is_delta=table.provider == "delta",
                    is_iceberg=table.provider == "iceberg",
                    is_hudi=table.provider == "hudi",
                )
                for table in listed
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
