"""The package on plain dbt-spark: a Thrift server, without the adapter of this repository."""

from __future__ import annotations

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
