from __future__ import annotations

from pathlib import Path

import pytest
from dbt.adapters.sparkcdc.jvm.java import find_java
from dbt_common.exceptions import DbtRuntimeError


def fake_java(home: Path, version: str, release: bool = True) -> Path:
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    binary.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: _which(tmp_path / "path" / "bin" / name))


def _which(binary: Path) -> str | None:
    return str(binary) if binary.exists() else None


def test_without_java_the_message_says_how_to_get_it() -> None:
    with pytest.raises(DbtRuntimeError) as error:
        find_java()
    for word in ("Java 17 or 21", "apt-get", "dnf", "brew", "winget", "JAVA_HOME"):
        assert word in str(error.value.msg)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "21.0.2", release=False)))
    assert find_java().version == "21.0.2"


def test_an_unfit_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "1.8.0_402")))
    fake_java(tmp_path / "path", "17.0.1")
    assert find_java().major == 17


def test_an_unfit_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", "11.0.9")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(
        DbtRuntimeError, match=r"holds no working Java; PATH .* holds Java 11\.0\.9"
    ):
        find_java()
