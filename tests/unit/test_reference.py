"""The reference lists every public name, and is what its sources say."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml

from scripts import reference

ROOT = Path(__file__).resolve().parents[2]


def headings(text: str) -> list[str]:
    return re.findall(r"^### `(.+?)`$", text, re.MULTILINE)


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / reference.PAGE).read_text(encoding="utf-8") == reference.page()


def test_an_outdated_page_is_reported_and_written_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "reference.md"
    assert reference.main({"check": True}, file) == 1
    assert "is out of date: run `python scripts/reference.py`" in capsys.readouterr().err
    assert not file.exists()
    assert reference.main({"check": False}, file) == 0
    assert reference.main({"check": True}, file) == 0
    file.write_text(file.read_text(encoding="utf-8") + "by hand\n", encoding="utf-8")
    assert reference.main({"check": True}, file) == 1


def test_every_public_macro_has_its_heading() -> None:
    """Found by the dispatch that each public macro begins with, not by the YAML."""
    files = [*ROOT.glob("macros/*/*.sql")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    defined = set(re.findall(r"{% macro ([a-z]\w*)\(", text))
    dispatched = defined & set(re.findall(r'adapter\.dispatch\("([a-z]\w*)", "cdc"\)', text))
    tests = {file.stem for file in ROOT.glob("tests/generic/*.sql")}
    expected = {
        reference.STRATEGIES.get(name, name if name.startswith("cdc_") else f"cdc.{name}")
        for name in dispatched | tests
    }
    found = set(headings(reference.page()))
    assert len(expected) > 15 and expected - found == set()


def test_every_command_and_option_is_listed() -> None:
    from dbt_spark_cdc import cli

    text = reference.page()
    for name, command in cli.main.commands.items():
        assert any(heading.split()[1:2] == [name] for heading in headings(text))
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert all(f"`{word}`" in text for word in parameter.opts)
                assert parameter.help, f"cdc {name} {parameter.opts[0]} has no help"


def test_columns_are_those_that_the_reference_project_has() -> None:
    """The project's YAML gives a column the same docs block as the reference."""
    listed = {
        (name, block) for columns in reference.COLUMNS.values() for name, block in columns.items()
    }
    found = set()
    for file in [*ROOT.glob("models/**/*.yml"), *ROOT.glob("snapshots/*.yml")]:
        for entry in _with_columns(yaml.safe_load(file.read_text(encoding="utf-8"))):
            block = re.search(r"doc\('(cdc_\w+)'\)", entry.get("description") or "")
            if block:
                name = "_old_<key>" if entry["name"].startswith("_old_") else entry["name"]
                found.add((name, block[1]))
    assert len(found) > 15 and found - listed == set()


def _with_columns(parsed: object) -> list[dict[str, str]]:
    """The columns of all models and snapshots of a file."""
    entries = parsed if isinstance(parsed, dict) else {}
    nodes = [*(entries.get("models") or []), *(entries.get("snapshots") or [])]
    return [column for node in nodes for column in node.get("columns") or []]


def test_what_contradicts_itself_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "VARIABLES", {"cdc_gone": "nothing reads it"})
    monkeypatch.setitem(reference.MODEL_OPTIONS, "Other", {"no_such_option": "?"})
    monkeypatch.setitem(reference.COLUMNS, "Other", {"_x": "cdc_no_such_block"})
    monkeypatch.setattr(reference, "OPTION_PAGES", ("docs/declaration.md",))
    assert reference.main({"check": True}) == 2
    said = capsys.readouterr().err
    for problem in (
        "option `message_key`: no table of docs/declaration.md explains it.",
        "model option `no_such_option`: no macro reads it.",
        "variable `cdc_gone`: it stands in macros or in VARIABLES, and not in both.",
        "variable `cdc_rebuild`: it stands in macros or in VARIABLES, and not in both.",
        "docs block `cdc_no_such_block`: it stands in macros/columns.md or in COLUMNS",
    ):
        assert problem in said


def test_links_of_other_pages_lead_to_the_same_place() -> None:
    text = "[a](#x) [b](keys.md) [c](../keys.md#y) [d](https://example.org/z)"
    assert reference._rebased(text, "docs/declaration.md") == (
        "[a](declaration.md#x) [b](keys.md) [c](../keys.md#y) [d](https://example.org/z)"
    )
    assert reference._rebased("[a](#x)", "docs/formats/debezium.md") == (
        "[a](formats/debezium.md#x)"
    )


def test_defaults_are_those_of_the_sql() -> None:
    assert reference._defaults("a, b=none, c=[1, 2], d={'x': 1}") == {
        "b": "none",
        "c": "[1, 2]",
        "d": "{'x': 1}",
    }
    assert [
        reference._default(kind, value)
        for kind, value in (("string", None), ("string", "none"), ("optional[int]", "none"))
    ] == ["required", "required", "none"]


def test_defaults_of_the_profile_are_those_of_yaml() -> None:
    rows = {name: default for name, default, _ in reference._profile_rows()}
    assert rows["`schema`"] == "required" and rows["`warehouse`"] == "`warehouse`"
    assert rows["`shared_files`"] == "`false`" and rows["`interpret_small`"] == "`true`"
    assert rows["`reconnect_seconds`"] == "`60`"
    assert rows["`quick_start`"] == rows["`server_side_parameters`"] == ""
