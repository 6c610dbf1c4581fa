"""The package on plain dbt-spark: a Thrift server, without the adapter of this repository."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.servers import THRIFT, dbt, spark_server

COLUMNS = {"orders": "order_id, line, status, amount", "customers": "id, name"}


def test_a_consumer_builds_batch_after_batch(consumer: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyhive.hive", reason="PyHive is missing: run `make e2e`")
    from pyhive import hive

    with spark_server(THRIFT, tmp_path) as port:
        # The project's own tests compare history and tables with what they must be.
        for batch in (1, 2, 3, 3):
            dbt(
                consumer,
                *("build", "--target", "thrift", "--vars", f"batch: {batch}"),
                CDC_THRIFT_HOST="127.0.0.1",
                CDC_THRIFT_PORT=str(port),
            )
        with hive.connect("127.0.0.1", port=port, database="app") as connection:
            cursor = connection.cursor()
            for table, columns in COLUMNS.items():
                found, truth = (
                    f"select {columns} from {name}" for name in (table, f"{table}_truth")
                )
                cursor.execute(
                    f"({found} except all {truth}) union all ({truth} except all {found})"
                )
                assert not cursor.fetchall()
                cursor.execute(f"describe history {table}")
                written = len(cursor.fetchall())
                assert written == 3  # nothing new, nothing written
            cursor.execute("select sum(events_read) from app_audit")
            assert cursor.fetchone()[0] > 0


def test_two_builds_at_once(consumer: Path, tmp_path: Path) -> None:
    """Each ends in the right tables or in an error; what is left, the next build completes."""
    pytest.importorskip("pyhive.hive", reason="PyHive is missing: run `make e2e`")
    other = tmp_path / "other"
    shutil.copytree(consumer, other, symlinks=True)

    with spark_server(THRIFT, tmp_path) as port:

        def build(project: Path, batch: int, *options: str) -> str:
            return dbt(
                project,
                *("build", "--target", "thrift", "--vars", f"batch: {batch}", *options),
                CDC_THRIFT_HOST="127.0.0.1",
                CDC_THRIFT_PORT=str(port),
            )

        def build_beside(project: Path, batch: int) -> str:
            try:
                return build(project, batch, "--exclude", "raw", "app_audit")
            except AssertionError as exc:
                return str(exc)

        build(consumer, 1)
        for batch in (2, 3):
            build(consumer, batch, "--select", "raw")
            with ThreadPoolExecutor() as pool:
                said = list(pool.map(build_beside, (consumer, other), (batch, batch)))
            assert any("ERROR=0" in text for text in said), said
            build(consumer, batch)  # its tests compare all tables with the truth
