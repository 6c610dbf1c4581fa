from __future__ import annotations

import pytest
from dbt.adapters.sparkcdc import log_store


@pytest.mark.parametrize(
    ("warehouse", "parameters", "wanted"),
    [
        ("/data/warehouse", {}, False),
        ("s3a://lake/warehouse", {}, True),
        ("abfss://lake@account/warehouse", {}, False),
        ("/data/warehouse", {"spark.hadoop.fs.s3a.endpoint": "http://x"}, True),
        ("/data/warehouse", {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.2"}, True),
        ("/data/warehouse", {"spark.jars": "/jars/hadoop-aws-3.4.2.jar"}, True),
        ("/data/warehouse", {"spark.sql.warehouse.dir": "s3a://lake/warehouse"}, True),
        ("s3a://lake/warehouse", {log_store.OPTIONS[0]: "my.LogStore"}, False),
        ("s3a://lake/warehouse", {"spark.delta.logStore.class": "my.LogStore"}, False),
    ],
)
def test_it_is_used_where_tables_can_be_in_s3(
    warehouse: str, parameters: dict[str, str], wanted: bool
) -> None:
    assert log_store.is_wanted(warehouse, parameters) is wanted
