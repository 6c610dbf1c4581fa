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
        ("s3a://lake/warehouse", {log_store.OPTION: "my.LogStore"}, False),
    ],
)
def test_it_is_used_where_tables_can_be_in_s3(
    warehouse: str, parameters: dict[str, str], wanted: bool
) -> None:
    assert log_store.is_wanted(warehouse, parameters) is wanted
