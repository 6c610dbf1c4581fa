"""What the tests on real servers share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def consumer(tmp_path: Path) -> Path:
    """A copy of integration_tests/, as a user has it, with the package beside it."""
    folder = tmp_path / "project"
    shutil.copytree(
        ROOT / "integration_tests",
        folder,
        ignore=shutil.ignore_patterns("dbt_packages", "target", "logs", "warehouse"),
    )
    (folder / "packages.yml").unlink()  # what `dbt deps` would make of it
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "cdc").symlink_to(ROOT)
    return folder
