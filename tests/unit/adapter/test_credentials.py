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
    ("given", "message"),
    [
        ({"schema": ""}, "add `schema:"),
        ({"database": "other"}, "Leave `database` out"),
        ({"method": "thrift"}, "use `type: spark`"),
        ({"token": "hush"}, "a `token` and no `remote`"),
        ({"shared_files": True}, "`shared_files` and no `remote`"),
        ({"reconnect_seconds": -1}, "a time, 0 or more"),
        ({"warehouse": "s3://lake/w"}, r"Write `warehouse: s3a://lake/w`"),
        ({"warehouse": "s3a:/lake/w"}, "Add `metastore: <folder>`"),
        ({"warehouse": "s3a://key:hush@lake/w", "metastore": "m"}, "of scheme s3a with a key"),
        ({"warehouse": "file://far/w"}, "not on a disk of this machine"),
        ({"warehouse": "s3a://lake/w"}, "Add `metastore: <folder>`"),
        (
            {"metastore": "m", "server_side_parameters": {"spark.hadoop.hive.metastore.uris": "x"}},
            "names another metastore in `server_side_parameters`",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DbtRuntimeError, match=message):
        SparkCdcCredentials(**{"schema": "shop", **given})


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(DbtRuntimeError) as refusal:
        credentials(schema="", warehouse="s3://lake/w", max_rows_per_commit=-1, token="hush")
    lines = refusal.value.msg.splitlines()
    wanted = (
        "add `schema:",
        "no `remote`",
        "`max_rows_per_commit: -1`",
        "s3a://lake/w",
        "Add `meta",
    )
    assert len(lines) == len(wanted)
    assert all(part in line for part, line in zip(wanted, lines, strict=True))
    assert "hush" not in str(refusal.value)


def test_paths_start_at_the_project(tmp_path: Path) -> None:
    creds = credentials(spark_log="/var/log/spark.log")
    creds.anchor(tmp_path)
    assert creds.warehouse == str(tmp_path / "warehouse")
    assert creds.spark_log == "/var/log/spark.log"


def test_parameters_are_worded_as_spark_words_them() -> None:
    creds = credentials(server_side_parameters={"a": True, "b": 2, "spark.remote": "sc://x:1"})
    assert creds.server_side_parameters == {"a": "true", "b": "2"}
    assert creds.remote == "sc://x:1"


@pytest.mark.parametrize(
    ("given", "shown", "address"),
    [
        ({"remote": "sc://x:1"}, "sc://x:1", "sc://x:1"),
        ({"remote": "sc://x:1", "token": "hush"}, "sc://x:1", "sc://x:1/;token=hush"),
        (
            {"remote": "sc://x:1/;token=hush;use_ssl=true"},
            "sc://x:1/;use_ssl=true",
            "sc://x:1/;use_ssl=true;token=hush",
        ),
        ({"remote": "sc://x:1/;token=hush"}, "sc://x:1/", "sc://x:1/;token=hush"),
        # A parameter of the url: PySpark divides it at `;` and `=`, and decodes it.
        (
            {"remote": "sc://x:1", "token": "a;hush/%=="},
            "sc://x:1",
            "sc://x:1/;token=a%3Bhush%2F%25%3D%3D",
        ),
        ({"remote": "sc://x:1/;token=hush%3D"}, "sc://x:1/", "sc://x:1/;token=hush%3D"),
    ],
)
def test_a_token_is_sent_and_not_shown(given: dict[str, Any], shown: str, address: str) -> None:
    creds = credentials(**given)
    assert (creds.remote, creds.address) == (shown, address)
    assert "hush" not in repr(creds) + str(dict(creds.connection_info())) + creds.unique_field


def test_a_warehouse_in_an_object_store_has_its_metastore_here(tmp_path: Path) -> None:
    creds = credentials(warehouse="s3a://lake/warehouse", metastore="m")
    creds.anchor(tmp_path)
    assert (creds.warehouse, creds.warehouse_folder) == ("s3a://lake/warehouse", None)
    assert creds.metastore_folder == tmp_path / "m"
    shared = {"spark.hadoop.hive.metastore.uris": "thrift://x:1"}
    creds = credentials(warehouse="s3a://lake/warehouse", server_side_parameters=shared)
    assert creds.metastore_folder is None


def test_a_warehouse_on_a_disk_holds_its_metastore(tmp_path: Path) -> None:
    for given in ({}, {"warehouse": (tmp_path / "warehouse").as_uri()}):
        creds = credentials(**given)
        creds.anchor(tmp_path)
        assert creds.warehouse_folder == tmp_path / "warehouse"
        assert creds.metastore_folder == tmp_path / "warehouse" / ".metastore"
    creds = credentials(metastore="m")
    creds.anchor(tmp_path)
    assert creds.metastore_folder == tmp_path / "m"
