from __future__ import annotations

from pathlib import Path

import pytest
from dbt.adapters.sparkcdc.impl import _is_one_model
from dbt.adapters.sparkcdc.jvm import settings


def launch(tmp_path: Path, **parameters: str) -> dict[str, str]:
    given = {key.replace("__", "."): value for key, value in parameters.items()}
    return settings.launch_settings(
        given,
        warehouse=tmp_path / "warehouse",
        spark_log=tmp_path / "logs" / "spark.log",
        jars=[Path("/jars/a.jar"), Path("/jars/b.jar")],
    )


def test_defaults_fit_a_small_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "cpu_cores", lambda: 2)
    found = launch(tmp_path)
    assert found["spark.sql.shuffle.partitions"] == "2"
    assert found["spark.databricks.delta.snapshotPartitions"] == "1"
    assert found["spark.sql.sources.parallelPartitionDiscovery.parallelism"] == "8"
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert found["spark.sql.warehouse.dir"] == str(tmp_path / "warehouse")
    assert found["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    # Java's own limit of bytes in a method, and what is longer all the same is compiled, too.
    assert found["spark.sql.codegen.hugeMethodLimit"] == "8000"
    assert "-XX:-DontCompileHugeMethods" in found["spark.driver.extraJavaOptions"].split()


def test_the_profile_wins(tmp_path: Path) -> None:
    found = launch(
        tmp_path,
        spark__master="spark://far:7077",
        spark__driver__memory="3g",
        spark__driver__extraClassPath="/mine.jar",
    )
    assert found["spark.driver.memory"] == "3g"
    # Executors decode messages, too.
    for process in ("driver", "executor"):
        options = found[f"spark.{process}.extraJavaOptions"].split()
        assert set(settings.AVRO_LIMITS) <= set(options)
    assert found["spark.driver.extraClassPath"].endswith(":/mine.jar")
    assert "spark.driver.bindAddress" not in found  # executors elsewhere have to reach the driver


def test_the_profiles_garbage_collector_is_the_only_one(tmp_path: Path) -> None:
    for given in ("-Dx=y", "-XX:+UseG1GC -Dx=y"):
        found = settings.launch_settings(
            {"spark.driver.extraJavaOptions": given},
            warehouse=tmp_path,
            spark_log=tmp_path / "spark.log",
            jars=[],
            java_options=settings.BRIEF_RUN,
        )
        options = found["spark.driver.extraJavaOptions"].split()
        assert set(given.split()) <= set(options)
        assert len([option for option in options if option.endswith("GC")]) == 1


@pytest.mark.parametrize(
    ("machine", "cores", "driver"),
    [(1, 2, 1), (6, 2, 3), (24, 1, 2), (24, 2, 4), (24, 4, 8), (64, 16, 8), (12, 8, 6)],
)
def test_the_heap_follows_cores_and_machine(
    machine: int, cores: int, driver: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "machine_memory", lambda: machine * settings.GIB)
    monkeypatch.setattr(settings, "cpu_cores", lambda: cores)
    assert settings.driver_memory() == driver * settings.GIB


@pytest.mark.parametrize(
    ("memory", "region"),
    [
        ("4096m", 2),
        ("4G", 2),
        (str(4 * settings.GIB), 2),
        ("3g", 2),
        ("1g", 1),
        ("64g", 32),
        ("100m", 1),
        ("1t", 32),
    ],
)
def test_a_page_fills_a_region_of_the_heap(memory: str, region: int, tmp_path: Path) -> None:
    found = launch(tmp_path, spark__driver__memory=memory)
    assert found["spark.buffer.pageSize"] == f"{region * 1024**2 - 16}b"


def test_pages_are_those_of_spark_where_the_heap_is_elsewhere(tmp_path: Path) -> None:
    assert "spark.buffer.pageSize" not in launch(tmp_path, spark__master="spark://far:7077")
    for master in ("local-cluster[2,1,1024]", "k8s://far"):
        assert "spark.buffer.pageSize" not in launch(tmp_path, spark__master=master)
    assert "spark.buffer.pageSize" not in launch(tmp_path, spark__memory__offHeap__enabled="true")
    assert "spark.buffer.pageSize" not in launch(tmp_path, spark__driver__memory="much")
    assert launch(tmp_path, spark__buffer__pageSize="2m")["spark.buffer.pageSize"] == "2m"


def test_a_containers_limit_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("2147483648\n")
    assert set(settings._cgroup_limits(tmp_path)) == {2 * settings.GIB}
    (tmp_path / "memory.max").write_text("max\n")
    assert settings._cgroup_limits(tmp_path) == []


@pytest.mark.parametrize(
    ("select", "one"),
    [(None, False), ([], False), (["orders"], True), (["orders", "customers"], False)]
    + [([chosen], False) for chosen in ["+orders", "orders+", "tag:hourly", "models/final"]],
)
def test_quick_start_is_for_one_model(select: list[str] | None, one: bool) -> None:
    assert _is_one_model(select) is one
