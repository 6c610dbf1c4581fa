"""One Spark for each test process, and dbt projects of their own for each test class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.adapters.sparkcdc.jvm import jars
from dbt.adapters.sparkcdc.prepare import prepare
from dbt.adapters.sparkcdc.session.opening import close_session, open_session
from dbt_common.tests import enable_test_caching

# As in profiles.yml: compiling a query would take longer than running it.
SMALL = {
    "spark.sql.shuffle.partitions": 1,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": False,
}

JAVA_OPTIONS = (
    "-XX:+UseParallelGC",
    "-Dderby.system.durability=test",
)

# A Spark Connect server that `tests/e2e/test_cluster.py` runs some of the tests on.
REMOTE = os.environ.get("CDC_TEST_REMOTE")

# The second table format that raw events come in.
ICEBERG = {"spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"}

# What decodes Avro.
AVRO = {"spark.jars.packages": "org.apache.spark:spark-avro_2.13:4.1.1"}

# The tests' projects install the package, and must not get its reference project with it.
os.environ.pop("CDC_REFERENCE_PROJECT", None)

# Each class of tests has a project of its own with the same 1,500 macros: dbt's own cache for tests
# makes two seconds and a half of its parsing one.
enable_test_caching()

# pandas on Spark warns where it is not set before it is loaded.
os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")

# Java inherits the environment that it starts in, and masked columns take their salt from there.
os.environ["CDC_SECRET_SALT"] = "the salt of all tests"
os.environ["CDC_SECRET_OTHER"] = "another salt for tests"

pytest_plugins = ["dbt.tests.fixtures.project"]

# Modules with a test of some minutes. A process that gets one of them last keeps the other waiting.
LONG = (
    "test_amend",
    "test_bootstrap",
    "test_erase_keys",
    "test_shared_raw_tables",
    "test_erase",
    "test_never_silent",
    "test_erase_landed",
    "test_iceberg",
    "test_identity",
    "test_conformance",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts long modules first."""
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of all tables: a process has one, since it has one JVM."""
    return tmp_path_factory.mktemp("spark") / "warehouse"


@pytest.fixture(scope="session")
def iceberg() -> Path:
    """Iceberg's jar. On the class path it would keep Java from using the archive of classes."""
    prepare(ICEBERG)
    cached = jars.cached_jars(jars.packages(ICEBERG))
    return next(jar for jar in cached if "iceberg" in jar.name)


@pytest.fixture(scope="session")
def avro() -> Path:
    """The jar of Spark's Avro, beside the class path like Iceberg's."""
    prepare(AVRO)
    cached = jars.cached_jars(jars.packages(AVRO))
    return next(jar for jar in cached if "spark-avro" in jar.name)


@pytest.fixture(scope="session")
def credentials(warehouse: Path, iceberg: Path, avro: Path) -> SparkCdcCredentials:
    """What the profiles of all tests say."""
    if REMOTE:
        return SparkCdcCredentials(
            schema="default",
            warehouse=str(warehouse),
            remote=REMOTE,
            token=os.environ.get("CDC_TEST_TOKEN"),
            shared_files=True,
        )
    return SparkCdcCredentials(
        schema="default",
        warehouse=str(warehouse),
        spark_log=str(warehouse.with_name("spark.log")),
        server_side_parameters={
            # Each process of the tests has a Java of its own.
            "spark.driver.memory": "4g",
            "spark.driver.extraJavaOptions": " ".join(JAVA_OPTIONS),
            "spark.jars": f"{iceberg},{avro}",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            # The tests' own session must see what dbt's sessions commit.
            "spark.sql.catalog.ice.cache-enabled": "false",
            "spark.sql.catalog.ice.warehouse": str(warehouse.with_name("iceberg")),
        },
    )


@pytest.fixture(scope="class")
def dbt_profile_target(credentials: SparkCdcCredentials) -> dict[str, Any]:
    """Target of the dbt projects that tests make; dbt's fixtures add a schema for each class."""
    if REMOTE:
        return {
            "type": "sparkcdc",
            "threads": 2,
            "remote": REMOTE,
            "token": credentials.token,
            "shared_files": True,
            "server_side_parameters": SMALL,
        }
    return {
        "type": "sparkcdc",
        "threads": 2,
        "warehouse": credentials.warehouse,
        "spark_log": credentials.spark_log,
        "server_side_parameters": {**credentials.server_side_parameters, **SMALL},
    }


@pytest.fixture(scope="class")
def project_config_update() -> dict[str, Any]:
    """Delta everywhere: the one format of a local Spark that merges and snapshots can use."""
    return {kind: {"+file_format": "delta"} for kind in ("models", "seeds", "snapshots")}


@pytest.fixture
def spark(credentials: SparkCdcCredentials) -> Iterator[Any]:
    """A session of its own in the JVM that dbt uses too."""
    session = open_session(credentials)
    yield session
    close_session(session)
