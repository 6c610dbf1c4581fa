"""Columns and their types, and how those of a table follow the declared ones."""

from __future__ import annotations

import json
from typing import Any

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.sparkcdc.iceberg import tables as iceberg
from dbt.adapters.sparkcdc.methods.tables import TableMethods
from dbt.adapters.sparkcdc.tables import types


class ColumnMethods(TableMethods):
    """Types of queries and tables, and their evolution."""

    @available.parse_none
    def query_types(self, sql: str) -> dict[str, str]:
        """Returns the columns of a query with their types as SQL writes them, without running it.

        Args:
            sql: The query.
        """
        return dict(self.connections.known.ask(("types", sql), lambda: self._query_types(sql)))

    def _query_types(self, sql: str) -> dict[str, str]:
        with self.connections.exception_handler(sql):
            fields = self._spark.sql(sql).schema.fields
        return {field.name: types.text_of(field.dataType) for field in fields}

    @available.parse_none
    def table_types(self, table: str) -> dict[str, str]:
        """Returns the columns of a table with their types as SQL writes them.

        Args:
            table: Its name in SQL.
        """
        return dict(
            self.connections.known.ask(("columns", table), lambda: self._table_types(table))
        )

    def _table_types(self, table: str) -> dict[str, str]:
        from pyspark.sql.types import StructType

        # Spark would look the table up in its catalog, and plan to read it.
        with self.connections.exception_handler(table):
            metadata = self._delta_metadata(table) if self._is_delta(table) else None
            schema = None if metadata is None else metadata.schemaString()
        if schema is None:
            return self.query_types(f"select * from {table}")
        fields = StructType.fromJson(json.loads(schema)).fields
        return {field.name: types.text_of(field.dataType) for field in fields}

    def _is_delta(self, table: str) -> bool:
        """Whether the catalog says so now: a name can have become that of another table."""
        if self.config.credentials.remote:
            return False
        return self._known_location(table) is not None

    @available.parse_none
    def evolve(
        self,
        table: BaseRelation,
        columns: dict[str, str],
        images: list[str],
        renames: dict[str, list[str]],
        check: bool = False,
    ) -> dict[str, Any]:
        """Brings a table's columns to the declared ones, in its metadata alone.

        Args:
            table: The table.
            columns: See `types.evolution`, with the other arguments.
            images: Columns that remembered events keep, too.
            renames: Name to former names.
            check: Whether only to look what cannot be done.

        Returns:
            `types`: the table's columns, name to type. `problems`: why nothing was changed.
        """
        name = str(table)
        known = self.table_types(name)
        if self.is_iceberg(name):
            own = {column: iceberg.type_in_table(kind) for column, kind in columns.items()}
            found = types.evolution(known, own, images, renames, iceberg.is_wider)
        else:
            found = types.evolution(known, columns, images, renames)
        if check or found.problems or not found.changes:
            return {"types": known, "problems": found.problems}
        if self.is_iceberg(name):
            for statement in types.plain_statements(name, found.changes):
                self.execute(statement)
            return {"types": self.table_types(name), "problems": []}
        mode = (self.table_properties(name) or {}).get("delta.columnMapping.mode", "none")
        for statement in types.statements(name, found.changes, is_mapped=mode != "none"):
            self.execute(statement)
        return {"types": self.table_types(name), "problems": []}
