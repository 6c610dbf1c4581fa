"""What nodes of a dbt project are to the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dbt_spark_cdc.project import KINDS, NoProject, kind_of, load_credentials

GRAPH = Path(__file__).resolve().parents[3] / "macros" / "declare" / "_graph.sql"


def node(resource_type: str, *macros: str, language: str = "sql", **config: str) -> dict[str, Any]:
    return {
        "resource_type": resource_type,
        "language": language,
        "config": config,
        "depends_on": {"macros": [f"macro.{macro}" for macro in macros]},
    }


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (node("snapshot", strategy="cdc.scd2"), "history"),
        (node("model", "shop.clean", "cdc.events"), "staging"),
        (node("model", "cdc.current"), "final"),
        (node("model", "cdc.changelog"), "changelog"),
        (node("model", language="python", unique_key="_event_id"), "resolver"),
        (node("model", language="python", unique_key="id"), None),
        (node("model", "cdc.quarantine"), None),
        (node("snapshot", "cdc.current", strategy="check"), None),
        (node("test", "cdc.current"), None),
        ({"resource_type": "source"}, None),
        ({}, None),
    ],
)
def test_kinds(given: dict[str, Any], kind: str | None) -> None:
    assert kind_of(given) == kind


def test_a_profile_is_looked_for_in_a_project_only(tmp_path: Path) -> None:
    with pytest.raises(NoProject, match=r"no dbt_project.yml in .*\. Name its folder: --project"):
        load_credentials(tmp_path, None, None)


def test_macros_tell_the_same_kinds() -> None:
    assert json.dumps(KINDS) in GRAPH.read_text(encoding="utf-8")
