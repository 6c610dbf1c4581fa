"""Small Delta tables have their files written again, large ones mark rows in deletion vectors."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from dbt.tests.util import run_dbt

from tests.functional.history.tables import FINAL, append, histories, rows

SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config: {meta: {cdc: {format: flagged, keys: [id], sequence_by: seq, operation: op}}}
    tables:
      - name: papers
        columns:
          - {name: id, data_type: int}
          - {name: body, data_type: string}
"""
EVENT = "id int, body string, op string, seq int"
# Tables beyond 4 MiB, of text that no file format makes smaller by much.
MANY, LONG = 80, 60_000
# Each with whether it says something of vectors before it has grown.
UNDECIDED = ("documents_history", "documents")
TABLES = (*UNDECIDED, "copied")


class TestGrownTables:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        final = FINAL.format(read="documents_history")
        return {
            "sources.yml": SOURCES,
            "stg_documents.sql": "{{ cdc.events(source('app', 'papers')) }}",
            "documents.sql": final,
            "copied.sql": final.replace("unique_key", "write_mode='copy-on-write', unique_key"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(documents_history="stg_documents")

    def vectors(self, project: Any) -> dict[str, str | None]:
        """What each table says of deletion vectors."""
        found = {}
        for table in TABLES:
            properties = dict(rows(project, f"show tblproperties {{s}}.{table}"))
            found[table] = properties.get("delta.enableDeletionVectors")
        return found

    def marked(self, project: Any, spark: Any, table: str) -> int:
        """How many files with a vector the last commit of a table added."""
        detail = spark.sql(f"describe detail {project.test_schema}.{table}")
        [(location,)] = detail.select("location").collect()
        log = Path(unquote(urlsplit(location).path)) / "_delta_log"
        newest = max(log.glob("*.json"))
        actions = [json.loads(line) for line in newest.read_text().splitlines()]
        return sum("deletionVector" in action.get("add", {}) for action in actions)

    def arrive(self, project: Any, spark: Any, *events: tuple[Any, ...]) -> None:
        append(spark, f"{project.test_schema}.papers", events, EVENT)
        run_dbt(["build"])

    def bodies(self, project: Any, table: str) -> dict[int, str]:
        return dict(rows(project, f"select id, body from {{s}}.{table} order by id"))

    def test_vectors_begin_with_the_size(self, project: Any, spark: Any, package: None) -> None:
        first = {number: secrets.token_hex(LONG // 2) for number in range(MANY)}
        self.arrive(project, spark, (0, "short", "I", 1))
        small = {"documents_history": None, "documents": None, "copied": "false"}
        assert self.vectors(project) == small
        assert [self.marked(project, spark, table) for table in TABLES] == [0, 0, 0]

        self.arrive(project, spark, *((n, body, "U", 10 + n) for n, body in first.items()))
        # A batch finds them as large as the one before left them.
        assert self.vectors(project) == small
        self.arrive(project, spark, (3, "third", "U", 200))
        assert self.vectors(project) == {**dict.fromkeys(UNDECIDED, "true"), "copied": "false"}
        assert [self.marked(project, spark, table) for table in TABLES] == [1, 1, 0]
        expected = {**first, 3: "third"}
        for table in ("documents", "copied"):
            assert self.bodies(project, table) == expected

        # Somebody has decided otherwise.
        off = "set tblproperties ('delta.enableDeletionVectors' = 'false')"
        for table in UNDECIDED:
            project.run_sql(f"alter table {{schema}}.{table} {off}")
        self.arrive(project, spark, (4, "fourth", "U", 201))
        assert self.vectors(project) == dict.fromkeys(TABLES, "false")
        assert [self.marked(project, spark, table) for table in TABLES] == [0, 0, 0]
        for table in ("documents", "copied"):
            assert self.bodies(project, table) == {**expected, 4: "fourth"}
