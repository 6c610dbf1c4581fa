from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dbt.adapters.sparkcdc.jvm import gateways, jars
from dbt_common.exceptions import DbtRuntimeError

WANTED = ["io.delta:delta-spark_4.1_2.13:9.9.9"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DBT_SPARK_CDC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def resolved(tmp_path: Path) -> list[Path]:
    names = ["io.delta_delta-spark_4.1_2.13-9.9.9.jar", "org.slf4j_slf4j-api-1.0.0.jar",
             "commons-logging_commons-logging-1.3.0.jar"]  # fmt: skip
    for name in names:
        (tmp_path / name).write_bytes(b"jar")
    return [tmp_path / name for name in names]


def test_the_profiles_packages_join_deltas() -> None:
    found = jars.packages({"spark.jars.packages": "a:b:1, io.delta:delta-spark_4.1_2.13:1.0"})
    assert found == ["a:b:1", "io.delta:delta-spark_4.1_2.13:1.0"]
    assert jars.packages({"spark.jars.packages": "a:b:1"})[0].startswith("io.delta:delta-spark_")


def test_fetched_once_without_what_spark_ships(resolved: list[Path]) -> None:
    assert jars.cached_jars(WANTED) == []
    jars.fetch_jars(WANTED, lambda _: resolved)
    assert [jar.name for jar in jars.cached_jars(WANTED)] == [resolved[0].name]
    assert jars.cached_jars([*WANTED, "a:b:1"]) == []


def test_many_at_once_download_once(resolved: list[Path], cache: Path) -> None:
    downloads = []

    def download(coordinates: str) -> list[Path]:
        downloads.append(coordinates)
        time.sleep(0.05)
        return resolved

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: jars.fetch_jars(WANTED, download), range(16)))
    assert all([jar.name for jar in each] == [resolved[0].name] for each in found)
    assert downloads == WANTED
    assert len(list((cache / "jars").iterdir())) == 1


def test_an_interrupted_fetch_leaves_nothing(resolved: list[Path], cache: Path) -> None:
    resolved[0].unlink()
    with pytest.raises(FileNotFoundError):
        jars.fetch_jars(WANTED, lambda _: resolved)
    assert list((cache / "jars").iterdir()) == []


def test_offline_the_message_has_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object) -> None:
        raise DbtRuntimeError("Java did not start")

    monkeypatch.setattr(gateways, "launch", no_network)
    with pytest.raises(DbtRuntimeError) as error:
        gateways.resolve(WANTED[0], {}, tmp_path / "log")
    for word in (WANTED[0], "sparkcdc.prepare", "spark.jars.repositories", str(tmp_path)):
        assert word in str(error.value.msg)
