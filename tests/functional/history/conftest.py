"""Projects that install the package, as a user does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="class")
def packages() -> dict[str, Any]:
    """The packages.yml of the project."""
    return {"packages": [{"local": str(ROOT)}]}


@pytest.fixture(scope="class")
def project_config_update() -> dict[str, Any]:
    """Delta tables, written by the package's own hooks."""
    return {
        "models": {"+file_format": "delta"},
        "dispatch": [{"macro_namespace": "dbt", "search_order": ["test", "cdc", "dbt"]}],
    }
