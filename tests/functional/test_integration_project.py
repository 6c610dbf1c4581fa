"""The project of integration_tests/: what a user who installs the package has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dbt.cli.main import dbtRunner

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def consumer(tmp_path: Path, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project, so that nothing is written into the repository."""
    folder = tmp_path / "integration_tests"
    shutil.copytree(
        ROOT / "integration_tests",
        folder,
        ignore=shutil.ignore_patterns("dbt_packages", "target", "logs", "warehouse"),
    )
    (folder / "packages.yml").write_text(f"packages:\n  - local: {ROOT}\n")
    monkeypatch.setenv("CDC_WAREHOUSE", str(warehouse))
    return folder


def dbt(folder: Path, *arguments: str) -> dict[str, str]:
    """Runs dbt in the folder; returns the status of each node by name."""
    ran = dbtRunner().invoke(
        [*arguments, "--project-dir", str(folder), "--profiles-dir", str(folder)]
    )
    assert ran.exception is None
    assert ran.success, [r.message for r in ran.result if r.status not in ("success", "pass")]
    return {r.node.name: str(r.status) for r in getattr(ran.result, "results", [])}


def test_a_consumer_builds_batch_after_batch(consumer: Path) -> None:
    dbt(consumer, "deps")
    for batch in (1, 2, 3, 3):
        built = dbt(consumer, "build", "--vars", f"batch: {batch}")
        assert built["orders"] == built["customers"] == "success"
        # The reference project's own models stay where they are.
        assert not [name for name in built if "shop" in name or "article" in name]
