"""The adapter on a Spark Connect server: SQL and Python models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.servers import CONNECT, dbt, spark_server

# Reads a table of the package's, tells sessions apart by a temp view, and merges into its own.
PYTHON_MODEL = """
def model(dbt, session):
    dbt.config(
        materialized="incremental",
        incremental_strategy="merge",
        unique_key="status",
        file_format="delta",
    )
    dbt.ref("orders").createOrReplaceTempView("seen")
    counted = session.sql("select status, count(*) as orders from seen group by status")
    if dbt.is_incremental:
        counted = counted.where("status is not null")
    return counted
"""


def test_a_consumer_builds_batch_after_batch(consumer: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="pyspark's Connect client is missing: run `make e2e`")
    from pyspark.sql import SparkSession

    (consumer / "models" / "final" / "order_counts.py").write_text(PYTHON_MODEL)
    with spark_server(CONNECT, tmp_path) as port:
        remote = f"sc://127.0.0.1:{port}"
        for batch in (1, 2, 3):
            arguments = ("build", "--target", "connect", "--vars", f"batch: {batch}")
            output = dbt(consumer, *arguments, CDC_REMOTE=remote)
            assert "order_counts" in output
        assert not (consumer / "warehouse").exists()  # no Spark beside the server's
        spark = SparkSession.builder.remote(remote).create()
        try:
            for table in ("orders", "customers"):
                truth = spark.table(f"app.{table}_truth")
                found = spark.table(f"app.{table}").select(*truth.columns)
                assert truth.exceptAll(found).isEmpty() and found.exceptAll(truth).isEmpty()
            counts = {
                row["status"]: row["orders"] for row in spark.table("app.order_counts").collect()
            }
            rows = spark.table("app.orders").groupBy("status").count().collect()
            assert {row["status"]: row["count"] for row in rows}.items() <= counts.items()
        finally:
            spark.stop()
