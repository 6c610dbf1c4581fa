"""Raw events in, canonical events and quarantine out: what the tests of all formats share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.session.opening import close_session, open_session
from dbt.tests.util import run_dbt

ROOT = Path(__file__).resolve().parents[3]


def line(message: Any) -> str | None:
    """A message as it stands in the raw table."""
    return message if message is None or isinstance(message, str) else json.dumps(message)


def source_yaml(sources: dict[str, dict[str, Any]]) -> str:
    """The YAML of source tables.

    Args:
        sources: By name of the table, `columns` (name to type) and the options of the declaration;
            `raw` names another raw table, `data_tests` its tests.
    """
    tables = []
    for name, options in sources.items():
        options = dict(options)
        columns = options.pop("columns")
        raw = options.pop("raw", name)
        tests = options.pop("data_tests", [])
        tables.append(
            {
                "name": name,
                "identifier": f"raw_{raw}",
                "config": {"meta": {"cdc": options}},
                "data_tests": tests,
                "columns": [
                    {"name": column, "data_type": kind} for column, kind in columns.items()
                ],
            }
        )
    source = {"name": "app", "schema": "{{ target.schema }}", "tables": tables}
    return json.dumps({"version": 2, "sources": [source]})


class Decoding:
    """A dbt project of staging and quarantine views over raw tables, built once a class."""

    sources: ClassVar[dict[str, dict[str, Any]]]
    raw: ClassVar[dict[str, Any]]
    # Macros of which each source gets a model, `<source>_<macro>`.
    views: ClassVar[tuple[str, ...]] = ("quarantine",)

    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        return {"packages": [{"local": str(ROOT)}]}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+materialized": "view"}, "on-run-start": ["{{ cdc.validate() }}"]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": source_yaml(self.sources)}
        for name in self.sources:
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            for view in self.views:
                body = f"{{{{ cdc.{view}(source('app', '{name}')) }}}}"
                models[f"{name}_{view}.sql"] = body
        return models

    @pytest.fixture(scope="class")
    def session(self, credentials: SparkCdcCredentials) -> Any:
        session = open_session(credentials)
        yield session
        close_session(session)

    @pytest.fixture(scope="class")
    def raw_tables(self) -> dict[str, Any]:
        return self.raw

    @pytest.fixture(scope="class")
    def built(self, project: Any, package: None, session: Any, raw_tables: dict[str, Any]) -> Any:
        """Reads a view of the project: `built("stg_orders")` gives its rows."""
        schema = project.test_schema
        for name, rows in raw_tables.items():
            if isinstance(rows, str):  # a SELECT
                frame = session.sql(rows)
            else:  # messages, each with its offset
                lines = [line(row) for row in rows]
                frame = session.createDataFrame(
                    list(enumerate(lines)), "offset bigint, value string"
                )
            frame.write.format("delta").saveAsTable(f"{schema}.raw_{name}")
        run_dbt(["run"])
        return lambda view: session.table(f"{schema}.{view}").collect()


def events(rows: list[Any], *columns: str) -> list[tuple[Any, ...]]:
    """Operation and these columns of canonical events, in order of their position."""
    ordered = sorted(rows, key=lambda row: (row["_seq"], row["_op"] == "D", str(row[columns[0]])))
    return [tuple(row[column] for column in ("_op", *columns)) for row in ordered]


def reasons(rows: list[Any]) -> list[str]:
    """The reasons of a quarantine."""
    return sorted(row["_reason"] for row in rows)
