"""Every macro has its entry in the YAML of its folder, with the arguments that it takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [*sorted(path for path in (ROOT / "macros").iterdir() if path.is_dir())]
MACRO = re.compile(r"\{%-?\s*(macro|test)\s+(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)")
# Bodies that another macro dispatches to: the arguments stand there.
BODY = re.compile(r"(default|sparkcdc)__")
# What users do not call. The lineage pages of their projects leave it out.
PRIVATE = re.compile(r"_|(default|spark|sparkcdc)__")


def macros(*folders: Path) -> dict[str, list[str]]:
    """Arguments by name of the macro, as the SQL files have them."""
    found = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.sql"))):
        for kind, name, text in MACRO.findall(path.read_text(encoding="utf-8")):
            arguments = [part.split("=")[0].strip() for part in _outside(text).split(",")]
            prefix = "test_" if kind == "test" else ""
            found[prefix + name] = [argument for argument in arguments if argument]
    return found


def _outside(text: str) -> str:
    """Arguments without the lists and dictionaries that are their defaults."""
    return re.sub(r"\[[^\]]*\]|\{[^}]*\}", "", text)


def documented(folder: Path) -> dict[str, dict[str, Any]]:
    """Entries by name of the macro."""
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in folder.glob("*.yml")]
    return {entry["name"]: entry for file in files for entry in file["macros"]}


def problems(found: dict[str, list[str]], entries: dict[str, dict[str, Any]]) -> list[str]:
    said = [f"{name} has no entry" for name in found if name not in entries]
    said += [f"{name} is no macro" for name in entries if name not in found]
    for name in found.keys() & entries.keys():
        listed = entries[name].get("arguments") or []
        if not entries[name].get("description"):
            said.append(f"{name} has no description")
        if not BODY.match(name) and [argument["name"] for argument in listed] != found[name]:
            said.append(f"{name} has other arguments than {found[name]}")
        is_shown = entries[name].get("docs", {}).get("show", True)
        if is_shown == bool(PRIVATE.match(name)):
            said.append(f"{name} is {'private, but shown' if is_shown else 'public, but hidden'}")
        said += [
            f"{name}: {argument['name']} has no description"
            for argument in listed
            if not argument.get("description")
        ]
    return sorted(said)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_macro_is_described_with_its_arguments(folder: Path) -> None:
    # The generic tests stand in a folder of their own, which dbt takes no YAML from.
    found = macros(folder, *([ROOT / "tests" / "generic"] if folder.name == "audit" else []))
    assert problems(found, documented(folder)) == []


def test_what_is_missing_is_found() -> None:
    found = {"a": ["x"], "b": [], "default__c": ["x"], "_e": []}
    entries = {
        "a": {"description": "A.", "arguments": [{"name": "y"}], "docs": {"show": False}},
        "default__c": {"description": "C.", "docs": {"show": False}},
        "_e": {"description": "E."},
        "d": {"description": "D."},
    }
    assert problems(found, entries) == [
        "_e is private, but shown",
        "a has other arguments than ['x']",
        "a is public, but hidden",
        "a: y has no description",
        "b has no entry",
        "d is no macro",
    ]
    text = "{%- macro one(a, b=[1, 2], c={}) -%}{% test two(model) %}"
    assert [(name, _outside(args)) for _, name, args in MACRO.findall(text)] == [
        ("one", "a, b=, c="),
        ("two", "model"),
    ]
