"""Tables that an older version of the package built: refused, upgraded, and right from then on."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.functional.consumer import ROOT, copy_project, dbt, invoke, operate

SCHEMA = "upgraded"
# `python -m tests.upgrade.make_warehouse` made it: batch 1 of the project, built by that version.
STORED = ROOT / "tests" / "upgrade" / "warehouse.tar.gz"
HISTORIES = ("customers_history", "orders_history")


@pytest.fixture
def project(tmp_path: Path, warehouse: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of today over the tables of then, which a metastore has to be told about."""
    monkeypatch.setenv("CDC_WAREHOUSE", str(warehouse))
    tables = tmp_path / f"{SCHEMA}.db"
    with tarfile.open(STORED) as packed:
        packed.extractall(tables, filter="data")
    spark.sql(f"create schema {SCHEMA}")
    for table in tables.iterdir():
        spark.sql(f"create table {SCHEMA}.{table.name} using delta location '{table}'")
    return copy_project(tmp_path, SCHEMA)


def rows(spark: Any, table: str) -> list[tuple[Any, ...]]:
    """All versions of a history in one order.

    Without the time of the run, and without the events behind them: an upgrade keeps them as they
    are, while this version leaves out what the version of the row itself says.
    """
    found = spark.table(f"{SCHEMA}.{table}")
    columns = sorted(set(found.columns) - {"dbt_updated_at", "_events", "_event_id"})
    return sorted((tuple(row) for row in found.select(columns).collect()), key=str)


def commits(spark: Any, table: str) -> int:
    return int(spark.sql(f"describe history {SCHEMA}.{table}").count())


@pytest.mark.soak
def test_an_older_warehouse_is_upgraded(project: Path, spark: Any) -> None:
    dbt(project, "deps")
    before = {table: (commits(spark, table), rows(spark, table)) for table in HISTORIES}
    assert all("_cdc_is_latest" not in spark.table(f"{SCHEMA}.{h}").columns for h in HISTORIES)

    # New events, batches 2 and 3, are refused before they are written, with the command that helps.
    build = ["build", "--exclude-resource-type", "unit_test"]
    refused = invoke(project, *build)
    messages = {result.node.name: str(result.message) for result in refused.result.results}
    remedy = "dbt run-operation cdc_upgrade --args '{dry_run: false}'"
    assert not refused.success and all(remedy in messages[table] for table in HISTORIES), messages

    # Without `dry_run: false` it only tells.
    operate(project, "cdc_upgrade")
    assert {table: (commits(spark, table), rows(spark, table)) for table in HISTORIES} == before
    operate(project, "cdc_upgrade", "{dry_run: false}")
    for table, (count, versions) in before.items():
        assert commits(spark, table) == count + 1
        assert len(rows(spark, table)) == len(versions) > 0

    # From here on it is a project like any other: its tests compare the tables with the truth.
    built = dbt(project, *build)
    assert built["customers"] == built["orders"] == "success"
    for table, (_, versions) in before.items():
        assert len(rows(spark, table)) > len(versions)

    # And its histories are those that this version builds from all events.
    upgraded = {table: rows(spark, table) for table in HISTORIES}
    dbt(project, "build", "--full-refresh", "--resource-type", "snapshot")
    assert {table: rows(spark, table) for table in HISTORIES} == upgraded
