"""The project of integration_tests/ as tests build it: a copy of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from dbt.cli.main import dbtRunner, dbtRunnerResult

ROOT = Path(__file__).resolve().parents[2]


def copy_project(folder: Path, schema: str = "app") -> Path:
    """Copies the project.

    Args:
        folder: Where to put the copy.
        schema: The schema of its tables, where several copies share a warehouse.

    Returns:
        The folder of the copy.
    """
    project = folder / "integration_tests"
    shutil.copytree(
        ROOT / "integration_tests",
        project,
        ignore=shutil.ignore_patterns("dbt_packages", "target", "logs", "warehouse"),
    )
    (project / "packages.yml").write_text(f"packages:\n  - local: {ROOT}\n")
    # The reference project of the package has a profile and models of the same names.
    _replace(project / "dbt_project.yml", "\nprofile: cdc_integration_tests", "\nprofile: cdc")
    _replace(project / "profiles.yml", "cdc_integration_tests:", "cdc:")
    _replace(project / "profiles.yml", "schema: app", f"schema: {schema}")
    (project / "models" / "landing.sql").write_text("select 1 as landed\n")
    return project


def _replace(file: Path, old: str, new: str) -> None:
    """Replaces the first place where a text stands, which has to be there."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def invoke(folder: Path, *arguments: str) -> dbtRunnerResult:
    """Runs dbt in the folder, however it ends."""
    return dbtRunner().invoke(
        [*arguments, "--project-dir", str(folder), "--profiles-dir", str(folder)]
    )


def dbt(folder: Path, *arguments: str) -> dict[str, str]:
    """Runs dbt in the folder, which must succeed; returns the status of each node by name."""
    ran = invoke(folder, *arguments)
    assert ran.exception is None
    assert ran.success, [r.message for r in ran.result if r.status not in ("success", "pass")]
    return {r.node.name: str(r.status) for r in getattr(ran.result, "results", [])}


def operate(folder: Path, operation: str, arguments: str = "{}") -> None:
    """Runs an operation in the folder, which must succeed.

    Args:
        folder: The project.
        operation: A macro of the package.
        arguments: Its arguments, as YAML.
    """
    ran = invoke(folder, "run-operation", operation, "--args", arguments)
    assert ran.exception is None
    assert ran.success, [result.message for result in ran.result.results]
