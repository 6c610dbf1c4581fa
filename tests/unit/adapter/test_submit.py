from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from dbt.adapters.sparkcdc import storage
from dbt.adapters.sparkcdc.jvm.submit import (
    ARGUMENTS,
    as_properties,
    given,
    given_to_hadoop,
    submitted,
)


def test_settings_are_in_a_file_of_the_user_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ARGUMENTS, raising=False)
    with submitted({"spark.hadoop.secret.key": "hush"}) as file:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        arguments = os.environ[ARGUMENTS]
        assert str(file) in arguments and arguments.endswith(" pyspark-shell")
        assert "hush" not in arguments
    assert not file.exists() and os.environ[ARGUMENTS] == "pyspark-shell"


def test_who_reads_the_environment_meanwhile_loses_no_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ARGUMENTS, raising=False)
    with submitted({}):
        variables = iter(os.environ.items())
        first = next(variables)
    assert len([first, *variables]) == len(os.environ)


def test_the_users_own_arguments_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ARGUMENTS, "--verbose pyspark-shell")
    with pytest.raises(ZeroDivisionError), submitted({}):
        assert os.environ[ARGUMENTS].endswith(" --verbose pyspark-shell")
        raise ZeroDivisionError
    assert os.environ[ARGUMENTS] == "--verbose pyspark-shell"


def test_what_a_file_of_properties_takes_for_its_own_is_escaped() -> None:
    assert as_properties({"a.b": "x y", "c": "=:#\\\n"}) == "a.b x\\ y\nc \\=\\:\\#\\\\\\n\n"


def test_settings_from_elsewhere_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n\nspark.a   one two\n  spark.b=three\nspark.c : four\nspark.d\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.a=five -c 'spark.e=six seven' shell")
    assert given(tmp_path / "no such folder") == {
        "spark.a": "five",
        "spark.b": "three",
        "spark.c": "four",
        "spark.d": "",
        "spark.e": "six seven",
    }
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    assert given(tmp_path) == {}


PROPERTY = "<property><name>{}</name><value>{}</value></property>"


def site(file: Path, **properties: str) -> None:
    file.parent.mkdir(exist_ok=True)
    found = (PROPERTY.format(name.replace("_", "."), text) for name, text in properties.items())
    file.write_text(f"<?xml version='1.0'?>\n<configuration>{''.join(found)}</configuration>")


@pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"])
def test_an_object_store_that_only_hadoops_files_name_is_noticed(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert given_to_hadoop(tmp_path) == {}
    site(tmp_path / "etc" / "core-site.xml", fs_s3a_endpoint=" http://store ", io_size="1")
    site(tmp_path / "etc" / "hive-site.xml", hive_metastore_uris="thrift://host")
    # A list of folders, as on Java's class path.
    monkeypatch.setenv(variable, os.pathsep.join([str(tmp_path / "none"), str(tmp_path / "etc")]))
    if variable == "SPARK_CONF_DIR":
        monkeypatch.setenv(variable, str(tmp_path / "etc"))
    found = given_to_hadoop(tmp_path)
    assert found == {
        "spark.hadoop.fs.s3a.endpoint": "http://store",
        "spark.hadoop.io.size": "1",
        "spark.hadoop.hive.metastore.uris": "thrift://host",
    }
    assert storage.settings("/data", found).keys() > {*storage.S3_LOG_STORES}


def test_of_two_files_of_hadoop_the_first_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "etc"))
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    site(tmp_path / "conf" / "core-site.xml", a="1")
    site(tmp_path / "etc" / "core-site.xml", a="2", b="2")
    assert given_to_hadoop(tmp_path) == {"spark.hadoop.a": "1"}
    # Java says what is wrong with it.
    (tmp_path / "conf" / "core-site.xml").write_text("<configuration>")
    assert given_to_hadoop(tmp_path) == {}
