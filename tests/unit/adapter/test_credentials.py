from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt_common.exceptions import DbtRuntimeError


def credentials(**given: Any) -> SparkCdcCredentials:
    return SparkCdcCredentials.from_dict({"schema": "shop", **given})


def test_only_a_schema_is_needed() -> None:
    creds = credentials()
    assert (creds.type, creds.database, creds.method) == ("sparkcdc", None, "session")
    assert (creds.warehouse, creds.spark_log) == ("warehouse", "logs/spark.log")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"schema": ""}, "add `schema:"),
        ({"database": "other"}, "Leave `database` out"),
        ({"method": "thrift"}, "use `type: spark`"),
    ],
)
def test_what_cannot_be_is_told_with_the_way_out(given: dict[str, Any], told: str) -> None:
    with pytest.raises(DbtRuntimeError, match=told):
        SparkCdcCredentials(**{"schema": "shop", **given})


def test_paths_start_at_the_project(tmp_path: Path) -> None:
    creds = credentials(spark_log="/var/log/spark.log")
    creds.anchor(tmp_path)
    assert creds.warehouse == str(tmp_path / "warehouse")
    assert creds.spark_log == "/var/log/spark.log"


def test_parameters_are_worded_as_spark_words_them() -> None:
    creds = credentials(server_side_parameters={"a": True, "b": 2, "spark.remote": "sc://x:1"})
    assert creds.server_side_parameters == {"a": "true", "b": "2"}
    assert creds.remote == "sc://x:1"
