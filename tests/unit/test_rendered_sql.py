"""The SQL that the package's macros render, compared with files that people can read.

`UPDATE_RENDERED=1 .venv/bin/pytest tests/unit/test_rendered_sql.py` writes the files.
"""

from __future__ import annotations

import difflib
import os
import shutil
from pathlib import Path

import pytest
from dbt.cli.main import dbtRunner

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "tests" / "rendered" / "project"
EXPECTED = ROOT / "tests" / "rendered" / "sql"
UPDATES = bool(os.environ.get("UPDATE_RENDERED"))
MOST_LINES_SHOWN = 80


def compiled(folder: Path) -> dict[str, str]:
    """Compiles the project once; no warehouse is there, so that a model which asks one fails.

    Args:
        folder: An empty folder for the project, with the package beside it.

    Returns:
        The SQL of each case by its file.
    """
    project = folder / "project"
    shutil.copytree(PROJECT, project)
    (project / "dbt_packages").mkdir()
    (project / "dbt_packages" / "cdc").symlink_to(ROOT)
    where = ["--project-dir", str(project), "--profiles-dir", str(project)]
    ran = dbtRunner().invoke(["compile", "--no-populate-cache", "--no-introspect", *where])
    assert ran.success, ran.exception or [result.message for result in ran.result]
    found = {}
    for file in (project / "target" / "compiled" / "rendered").rglob("*.sql"):
        is_test = file.parent.suffix == ".yml"
        text = file.read_text(encoding="utf-8")
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        found[f"{'tests' if is_test else file.parent.name}/{file.name}"] = lines + "\n"
    return found


def test_the_rendered_sql_is_what_it_was(tmp_path: Path) -> None:
    rendered = compiled(tmp_path)
    if UPDATES:
        shutil.rmtree(EXPECTED, ignore_errors=True)
        for name, text in rendered.items():
            (EXPECTED / name).parent.mkdir(parents=True, exist_ok=True)
            (EXPECTED / name).write_text(text, encoding="utf-8")
    expected = {
        file.relative_to(EXPECTED).as_posix(): file.read_text(encoding="utf-8")
        for file in EXPECTED.rglob("*.sql")
    }
    changed = sorted(
        name
        for name in rendered.keys() | expected.keys()
        if rendered.get(name) != expected.get(name)
    )
    lines = [
        line
        for name in changed
        for line in difflib.unified_diff(
            expected.get(name, "").splitlines(),
            rendered.get(name, "").splitlines(),
            fromfile=f"tests/rendered/sql/{name}",
            tofile="rendered now",
            lineterm="",
            n=1,
        )
    ]
    if changed:
        more = f"\n.. and {len(lines) - MOST_LINES_SHOWN} more lines" * (
            len(lines) > MOST_LINES_SHOWN
        )
        pytest.fail(
            f"The SQL of {len(changed)} cases has changed: {', '.join(changed)}.\n"
            + "\n".join(lines[:MOST_LINES_SHOWN])
            + more
            + "\nIf that is intended, update the files:"
            " UPDATE_RENDERED=1 .venv/bin/pytest tests/unit/test_rendered_sql.py",
            pytrace=False,
        )
