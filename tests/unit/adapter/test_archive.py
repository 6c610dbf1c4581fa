"""The class archive: one for all environments with the same Spark, recorded once."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from dbt.adapters.sparkcdc.jvm import archive
from dbt.adapters.sparkcdc.jvm.java import Java

JAVA = Java(Path("/java"), "17.0.1")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DBT_SPARK_CDC_CACHE", str(tmp_path))
    return tmp_path


def test_spark_is_reached_by_a_link_in_the_cache(cache: Path) -> None:
    home = archive.spark_home()
    assert cache in home.parents
    assert home.resolve() == Path(pyspark.__file__).parent.resolve()
    assert archive.spark_home() == home


def test_a_link_to_an_environment_that_is_gone_is_made_anew(cache: Path) -> None:
    home = archive.spark_home()
    home.unlink()
    home.symlink_to(cache / "gone")
    assert archive.spark_home() == home
    assert (home / "jars").is_dir()


def test_without_room_for_a_link_spark_is_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("DBT_SPARK_CDC_CACHE", str(file))
    assert archive.spark_home() == Path(pyspark.__file__).parent


def test_another_class_path_or_java_has_another_archive() -> None:
    spark = Path("/spark")
    first = archive.archive_file(JAVA, spark, [Path("/a.jar")])
    assert first == archive.archive_file(JAVA, spark, [Path("/a.jar")])
    assert first != archive.archive_file(JAVA, spark, [Path("/b.jar")])
    assert first != archive.archive_file(JAVA, Path("/other"), [Path("/a.jar")])
    assert first != archive.archive_file(Java(Path("/java21"), "21.0.1"), spark, [Path("/a.jar")])


def test_a_recording_becomes_the_archive_and_is_made_once() -> None:
    target = archive.archive_file(JAVA, Path("/spark"), [])
    assert archive.use(target) == []
    (option,) = archive.record(target)
    recorded = Path(option.partition("=")[2].strip('"'))
    archive.keep(target)  # a JVM that was killed left no recording
    assert archive.use(target) == []
    recorded.write_bytes(b"classes")
    archive.keep(target)
    assert target.read_bytes() == b"classes"
    assert str(target) in archive.use(target)[0]
    assert archive.record(target) == []
