"""A release: what the wheel and the dbt package hold, and that they work elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest

from scripts import package

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ["dbt/adapters/sparkcdc", "dbt/include/sparkcdc", "dbt_spark_cdc"]
BIN = Path(sys.executable).parent
# What the wheel must not bring with it.
SHOP = re.compile(
    r"(^|(?<!dbt_spark_cdc)/)(models|snapshots|seeds|python_models|data|bench|capture|integration_tests)/"
)


@dataclass(frozen=True)
class Built:
    """The files of a release."""

    sources: Path
    wheel: Path
    archive: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    return Built(*package.build_wheel(folder), package.build_archive(folder))


def source_files(folder: Path, base: Path) -> set[str]:
    """The files below a folder, without what Python leaves there."""
    return {
        file.relative_to(base).as_posix()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def wheel_contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist() if not name.endswith("/")}


def test_the_wheel_holds_its_packages_and_nothing_else(built: Built) -> None:
    names = {name for name in wheel_contents(built.wheel) if ".dist-info/" not in name}
    expected = {
        file for part in SHIPPED for file in source_files(ROOT / "src" / part, ROOT / "src")
    }
    assert names == expected
    # Not only Python: what the report, the rules, dbt and Java read.
    assert {
        "dbt/adapters/sparkcdc/jvm/log4j2.properties",
        "dbt/include/sparkcdc/dbt_project.yml",
        "dbt/include/sparkcdc/macros/python_model.sql",
        "dbt/include/sparkcdc/profile_template.yml",
        "dbt_spark_cdc/sqlfluff_rules/defaults.cfg",
        "dbt_spark_cdc/observe/templates/report.html",
    } <= names
    assert [name for name in names if SHOP.search(name) or "test" in name] == []


def test_the_wheel_says_what_it_is_and_needs(built: Built) -> None:
    contents = wheel_contents(built.wheel)
    (folder,) = {name.split("/")[0] for name in contents if ".dist-info/" in name}
    metadata = message_from_bytes(contents[f"{folder}/METADATA"])
    assert (metadata["Name"], metadata["Version"]) == ("dbt-spark-cdc", package.package_version())
    assert f"{folder}/licenses/LICENSE" in contents
    always = {
        re.split(r"[^\w.-]", needed)[0]
        for needed in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in needed
    }
    assert {"dbt-core", "dbt-spark", "delta-spark", "pyspark"} <= always
    assert not always & {"hatchling", "mypy", "pytest", "ruff", "sqlfluff", "uv"}
    assert "sqlfluff" in metadata.get_all("Provides-Extra", [])
    commands = contents[f"{folder}/entry_points.txt"].decode()
    assert "cdc = dbt_spark_cdc.cli:main" in commands
    assert "dbt_spark_cdc = dbt_spark_cdc.sqlfluff_rules" in commands


def test_the_sources_give_the_same_wheel(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sources) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    assert not (folder / "models").exists() and not (folder / "tests").exists()
    _, wheel = package.build_wheel(tmp_path / "dist", folder)
    assert wheel_contents(wheel) == wheel_contents(built.wheel)


def archived(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        return {
            member.name: content.read()
            for member in opened.getmembers()
            if (content := opened.extractfile(member)) is not None
        }


def test_the_archive_holds_what_dbt_reads_of_a_package(built: Built) -> None:
    contents = archived(built.archive)
    top = f"cdc-{package.package_version()}"
    assert {name.split("/")[0] for name in contents} == {top}
    names = {name.removeprefix(f"{top}/") for name in contents}
    macros = source_files(ROOT / "macros", ROOT) | source_files(ROOT / "tests" / "generic", ROOT)
    files = {"CHANGELOG.md", "LICENSE", "README.md", "dbt_project.yml"}
    assert names == macros | files and len(macros) > 50
    assert [name for name in names if SHOP.search(name) or name.endswith(".py")] == []


def test_the_same_files_give_the_same_archive(built: Built, tmp_path: Path) -> None:
    assert package.build_archive(tmp_path).read_bytes() == built.archive.read_bytes()


def test_versions_that_differ_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(package, "wheel_version", "9.9.9")
    with pytest.raises(package.VersionsDiffer, match=r"0\.\d+\.\d+.*has 9\.9\.9\. Make them equal"):
        package.build_archive(tmp_path)
    assert package.main() == 1 and "Make them equal" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command that knows nothing of the repository."""
    outside = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=outside,
        capture_output=True,
        text=True,
    )


def must(*command: str | Path, folder: Path) -> str:
    """The output of a command that must succeed."""
    ran = run(*command, folder=folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def environment(folder: Path) -> Path:
    """A virtual environment with nothing in it; returns its Python."""
    must(BIN / "uv", "venv", "--quiet", "--python", sys.executable, "venv", folder=folder)
    return folder / "venv" / "bin" / "python"


def check(python: Path, built: Built, folder: Path) -> None:
    """The smoke test: commands, adapter and rules run from the wheel, in a project elsewhere."""
    imported = must(
        python,
        "-c",
        "import dbt.adapters.sparkcdc as a, dbt.include.sparkcdc as i, dbt_spark_cdc as c\n"
        "print(a.Plugin.adapter.type(), a.__file__, i.__file__, c.__file__)",
        folder=folder,
    ).split()
    assert imported[0] == "sparkcdc"
    inside = python.parents[1]
    assert all(Path(file).is_relative_to(inside) for file in imported[1:]), imported

    commands = must(python.with_name("cdc"), "--help", folder=folder)
    assert {"describe", "doctor", "generate", "report", "status", "watch"} <= set(commands.split())
    rules = must(python, "-m", "sqlfluff", "rules", folder=folder)
    assert rules.count("CDC_") >= 9

    project = folder / "project"
    shutil.copytree(
        ROOT / "integration_tests",
        project,
        ignore=shutil.ignore_patterns("dbt_packages", "target", "logs", "warehouse"),
    )
    # As `dbt deps` leaves it; that it does so is tested in tests/functional.
    with tarfile.open(built.archive) as archive:
        archive.extractall(project / "dbt_packages", filter="data")
    (package_folder,) = (project / "dbt_packages").iterdir()
    package_folder.rename(package_folder.with_name("cdc"))
    ran = run(python.with_name("cdc"), "doctor", "--json", folder=project)
    assert ran.returncode in (0, 1), ran.stderr
    checks: dict[str, Mapping[str, str]] = {each["name"]: each for each in json.loads(ran.stdout)}
    assert checks["versions"]["status"] == checks["profile"]["status"] == "ok"
    assert f"dbt-spark-cdc {package.package_version()}," in checks["versions"]["finding"]
    assert checks["declarations"]["status"] == "ok", checks["declarations"]


def test_the_wheel_works_outside_the_repository(built: Built, tmp_path: Path) -> None:
    python = environment(tmp_path)
    install = [BIN / "uv", "pip", "install", "--quiet", "--offline", "--no-deps"]
    must(*install, "--python", python, built.wheel, folder=tmp_path)
    # The dependencies are those of this environment; a path in a .pth file comes after the wheel.
    (site,) = (python.parents[1] / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    check(python, built, tmp_path)


@pytest.mark.soak
def test_the_wheel_installs_with_its_dependencies(built: Built, tmp_path: Path) -> None:
    python = environment(tmp_path)
    pins = re.findall(
        r"^[\w.-]+==[^ \\]+(?: ; [^\\\n]+)?", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    (tmp_path / "pins.txt").write_text("\n".join(pins) + "\n")
    install = [BIN / "uv", "pip", "install", "--quiet", "--constraint", "pins.txt"]
    needed = f"dbt-spark-cdc[sqlfluff] @ {built.wheel.as_uri()}"
    must(*install, "--python", python, needed, folder=tmp_path)
    check(python, built, tmp_path)
