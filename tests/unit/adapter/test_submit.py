from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from dbt.adapters.sparkcdc.submit import ARGUMENTS, as_properties, given, submitted


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
