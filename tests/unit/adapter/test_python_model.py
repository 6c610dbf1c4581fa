from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.nodes.python_model import as_frame, compile_model, run_model
from dbt_common.exceptions import DbtRuntimeError

CODE = """\

import math


def helper(value):
    return math.sqrt(value)


def model(dbt, session):
    return helper(-1)
"""


def run(project: Path, code: str, package: str = "shop") -> str:
    raw = code.strip()
    model = {"raw_code": raw, "original_file_path": "models/m.py", "package_name": package}
    compiled = f"\n\n   \n{raw}\n\n\nclass dbtObj: ...\n\n\nmodel(dbtObj(), spark)\n"
    with pytest.raises(DbtRuntimeError) as error:
        run_model(None, model, compiled, project)  # type: ignore[arg-type]
    return str(error.value.msg)


@pytest.mark.parametrize("place", ["models", "dbt_packages/other/models"])
def test_errors_have_the_line_of_the_file(tmp_path: Path, place: str) -> None:
    file = tmp_path / place / "m.py"
    file.parent.mkdir(parents=True)
    file.write_text(CODE)
    message = run(tmp_path, CODE, "other")
    shown = file.relative_to(tmp_path)
    assert message.splitlines() == [
        f"{shown}, line 10, in model",
        "    return helper(-1)",
        f"{shown}, line 6, in helper",
        "    return math.sqrt(value)",
        "ValueError: math domain error",
    ]


def test_frames_of_the_projects_other_files_are_shown(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    code = "def model(dbt, session):\n    import shop_helpers\n    shop_helpers.fail()\n"
    (tmp_path / "models" / "m.py").write_text(code)
    (tmp_path / "shop_helpers.py").write_text("def fail():\n    raise KeyError('sku')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        message = run(tmp_path, code)
    assert "shop_helpers.py, line 2, in fail" in message
    assert message.endswith("KeyError: 'sku'")


def test_a_syntax_error_has_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    code = "\n\n\n\n\ndef model(dbt, session):\n    return (1\n"
    (tmp_path / "models" / "m.py").write_text(code)
    assert "m.py, line 7)" in run(tmp_path, code)


def test_models_are_compiled_without_a_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that make trees at the same time disturb each other in Python 3.11."""
    with monkeypatch.context() as patch:
        patch.setattr("ast.parse", None)
        compile_model("x = 1", "x = 1", tmp_path)


def test_annotations_of_a_model_are_what_they_say(tmp_path: Path) -> None:
    code = """
from dataclasses import dataclass

@dataclass
class Row:
    number: int

def half(number: int) -> float:
    return number / 2
"""
    scope: dict[str, Any] = {"__name__": "__dbt_model__"}
    exec(compile_model(code, code.strip(), tmp_path / "m.py"), scope)
    assert scope["half"].__annotations__ == {"number": int, "return": float}


@pytest.mark.parametrize("result", [None, [1], "frame"])
def test_what_is_no_frame_is_refused(result: Any) -> None:
    with pytest.raises(TypeError, match="must return a DataFrame"):
        as_frame(None, result)  # type: ignore[arg-type]
