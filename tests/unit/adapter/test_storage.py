from __future__ import annotations

import pytest
from dbt.adapters.sparkcdc import storage

FILES = {storage.LOCAL_FILES, storage.LOCAL_CONTEXT}
LOCAL = {storage.LOCAL_LOG_STORE} | FILES
S3 = {*storage.S3_LOG_STORES}
S3A = {storage.S3_LOG_STORES[0]}


@pytest.mark.parametrize(
    ("warehouse", "parameters", "wanted"),
    [
        ("/data/warehouse", {}, LOCAL),
        ("/data/warehouse", {"spark.master": "local[4]"}, LOCAL),
        ("/data/warehouse", {"spark.master": "spark://host:7077"}, set()),
        ("/data/warehouse", {storage.LOCAL_LOG_STORE: "my.LogStore"}, FILES),
        ("/data/warehouse", {storage.LOCAL_FILES: "my.Files"}, LOCAL - {storage.LOCAL_FILES}),
        (
            "/data/warehouse",
            {"spark.sql.hive.metastore.jars": "maven"},
            {storage.LOCAL_LOG_STORE},
        ),
        ("s3a://lake/warehouse", {}, LOCAL | S3),
        ("s3a://lake/warehouse", {"spark.master": "spark://host:7077"}, S3),
        ("abfss://lake@account/warehouse", {}, LOCAL),
        ("/data/warehouse", {"spark.hadoop.fs.s3a.endpoint": "http://x"}, LOCAL | S3),
        ("/data", {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.2"}, LOCAL | S3),
        ("/data/warehouse", {"spark.jars": "/jars/hadoop-aws-3.4.2.jar"}, LOCAL | S3),
        ("/data/warehouse", {"spark.sql.warehouse.dir": "s3a://lake/warehouse"}, LOCAL | S3),
        ("/data", {"spark.hadoop.fs.defaultFS": "s3a://lake"}, LOCAL | S3),
        # Another connector for s3:// need not know conditional writes.
        ("s3a://lake", {"spark.hadoop.fs.s3.impl": "com.amazon.EmrFileSystem"}, LOCAL | S3A),
        ("/data", {"spark.hadoop.fs.s3.impl": "com.amazon.EmrFileSystem"}, LOCAL),
        ("/data", {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3A"}, LOCAL | S3),
        ("s3a://lake/warehouse", {storage.S3_LOG_STORES[0]: "my.LogStore"}, LOCAL),
        (
            "s3a://lake/warehouse",
            {"spark.delta.logStore.class": "my.LogStore"},
            FILES,
        ),
    ],
)
def test_classes_are_used_where_they_fit_and_the_profile_names_no_others(
    warehouse: str, parameters: dict[str, str], wanted: set[str]
) -> None:
    assert storage.settings(warehouse, parameters) == {
        name: storage.SETTINGS[name] for name in wanted
    }
