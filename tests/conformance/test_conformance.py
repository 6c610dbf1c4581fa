"""Other projects' change events, through dbt and Spark to changelog, history and final table.

`CDC_CONFORMANCE_DATA` names the folder that holds them with their expected rows. What the rules of
this project answer differently is listed in docs/conformance.md.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.session.opening import close_session, open_session
from dbt.tests.util import run_dbt

from tests.conformance.cases import DATA, Case, cases

ROOT = Path(__file__).resolve().parents[2]
CASES = cases()

pytestmark = pytest.mark.skipif(
    not DATA.name, reason="CDC_CONFORMANCE_DATA does not name the folder of conformance data"
)

# Views, for no case has a second batch. They have the rows and columns of tables, as
# tests/functional/history/test_current_as_view.py shows.
FINAL = "{{{{ cdc.current(ref('{read}')) }}}}"
# What tells of versions or changes has a history. It costs as much as all else of a case.
WITH_HISTORY = {name: case for name, case in CASES.items() if case.changelog or case.history}


def keys(case: Case) -> list[str]:
    return case.options["keys"] or ["_row_id"]


def raw_name(case: Case) -> str:
    """Cases that read the same files share their raw table."""
    sharing = [c for c in CASES.values() if (c.files, c.lines) == (case.files, case.lines)]
    return next(name for name, other in CASES.items() if other is sharing[0])


def plain(value: Any) -> Any:
    """A value as JSON has it; floating numbers as far as 32 bits hold them."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, bytearray | bytes):
        return value.hex()
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else str(value.normalize())
    if isinstance(value, float):
        value = f"{value:.6g}" if math.isfinite(value) else str(value)
    return value if isinstance(value, list) else str(value)


def expected(row: dict[str, Any], columns: dict[str, str]) -> str:
    """An expected row, its numbers in the declared type."""
    found = {}
    for name, value in row.items():
        kind = columns[name]
        if value is not None and kind in ("float", "double"):
            value = float(value)
        elif value is not None and kind.startswith("decimal"):
            value = Decimal(str(value))
        found[name] = plain(value)
    return json.dumps(found, sort_keys=True)


def actual(row: Any, names: list[str]) -> str:
    return json.dumps({name: plain(row[name]) for name in names}, sort_keys=True)


def changelog(history: list[Any], case: Case) -> list[tuple[str, str]]:
    """The changes of rows that the versions of a history stand for, in order."""
    names = list(case.columns)
    begun = {(tuple(row[key] for key in keys(case)), str(row["_seq"])) for row in history}
    ended = {(tuple(row[key] for key in keys(case)), str(row["_seq_end"])) for row in history}
    changes = []
    for row in history:
        key = tuple(row[name] for name in keys(case))
        is_update = (key, str(row["_seq"])) in ended
        changes.append((row["_seq"], "+U" if is_update else "+I", key, actual(row, names)))
        if row["_seq_end"] is not None:
            kind = "-U" if (key, str(row["_seq_end"])) in begun else "-D"
            changes.append((row["_seq_end"], kind, key, actual(row, names)))
    order = {"-D": 0, "-U": 1, "+U": 2, "+I": 3}
    changes.sort(key=lambda change: (change[0], change[2], order[change[1]]))
    return [(kind, row) for _, kind, _, row in changes]


class TestConformance:
    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        return {"packages": [{"local": str(ROOT)}]}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {
            "models": {"+materialized": "view"},
            "dispatch": [{"macro_namespace": "dbt", "search_order": ["test", "cdc", "dbt"]}],
            "on-run-start": ["{{ cdc.validate() }}"],
        }

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        tables = []
        models = {}
        for name, case in CASES.items():
            columns = [{"name": n, "data_type": kind} for n, kind in case.columns.items()]
            tables.append(
                {
                    "name": name,
                    "identifier": f"raw_{raw_name(case)}",
                    "config": {"meta": {"cdc": {"history": name in WITH_HISTORY, **case.options}}},
                    "columns": columns,
                }
            )
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            models[f"{name}_quarantine.sql"] = f"{{{{ cdc.quarantine(source('app', '{name}')) }}}}"
            read = f"{name}_history" if name in WITH_HISTORY else f"stg_{name}"
            models[f"{name}_final.sql"] = FINAL.format(read=read)
        source = {"name": "app", "schema": "{{ target.schema }}", "tables": tables}
        return {"sources.yml": json.dumps({"version": 2, "sources": [source]}), **models}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        snapshots = [
            {
                "name": f"{name}_history",
                "relation": f"ref('stg_{name}')",
                "config": {
                    "strategy": "cdc.scd2",
                    "unique_key": keys(case),
                    "file_format": "delta",
                },
            }
            for name, case in WITH_HISTORY.items()
        ]
        return {"snapshots.yml": json.dumps({"version": 2, "snapshots": snapshots})}

    @pytest.fixture(scope="class")
    def built(self, request: Any, project: Any, credentials: SparkCdcCredentials) -> Any:
        """The cases that pytest was asked for, in one build; gives the rows of a table."""
        items = [item for item in request.session.items if item.cls is TestConformance]
        asked = [item.callspec.params["name"] for item in items]
        raw = {raw_name(CASES[name]) for name in asked}
        session = open_session(credentials)
        for name, case in CASES.items():
            if name in raw:
                lines = [
                    line
                    for file in case.files
                    for line in (DATA / file).read_text(encoding="utf-8").splitlines()
                    if line.strip()
                ]
                rows = case.lines(lines)
                columns = {column: type(value) for row in rows for column, value in row.items()}
                columns |= {c: type(v) for row in rows for c, v in row.items() if v is not None}
                schema = ", ".join(
                    f"`{column}` {'bigint' if kind is int else 'string'}"
                    for column, kind in columns.items()
                )
                frame = session.createDataFrame(
                    [tuple(row.get(column) for column in columns) for row in rows], schema
                )
                table = f"{project.test_schema}.raw_{name}"
                frame.coalesce(1).write.format("delta").saveAsTable(table)
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        run_dbt(["build", "--select", *[f"source:app.{name}+" for name in asked]])
        yield lambda table: session.table(f"{project.test_schema}.{table}").collect()
        close_session(session)

    @pytest.mark.parametrize("name", CASES)
    def test_case(self, built: Any, name: str) -> None:
        case = CASES[name]
        names = list(case.columns)
        rows = built(f"{name}_final")
        if name not in WITH_HISTORY:
            # Such a table also has rows that were deleted, and marks them.
            rows = [row for row in rows if row["_cdc_deleted_at"] is None]
        final = sorted(actual(row, names) for row in rows)
        wanted = [expected(dict.fromkeys(names) | row, case.columns) for row in case.final()]
        assert final == sorted(wanted)
        quarantined = [row["_reason"] for row in built(f"{name}_quarantine")]
        assert len(quarantined) == case.quarantined, quarantined

        history = built(f"{name}_history") if case.changelog or case.history else []
        if case.changelog:
            found = changelog(history, case)
            given = [(kind, expected(row, case.columns)) for kind, row in case.changelog()]
            assert found == given
        if case.history:
            versions = case.history()
            shown = list(versions[0][0])
            assert sorted(
                (actual(row, shown), str(position(row["_seq"])), str(position(row["_seq_end"])))
                for row in history
            ) == sorted(
                (expected(row, case.columns), str(begin), str(end)) for row, begin, end in versions
            )


def position(seq: Any) -> Any:
    """A position as the cases write it: a struct as a tuple of its parts."""
    return tuple(seq) if isinstance(seq, tuple) else seq
