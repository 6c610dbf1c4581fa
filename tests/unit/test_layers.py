"""The commands build on the adapter. The adapter imports of them only what needs no adapter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"


def test_the_adapter_and_the_commands_do_not_import_each_other() -> None:
    texts = [file.read_text(encoding="utf-8") for file in (SOURCES / "dbt/adapters").rglob("*.py")]
    shared = sorted(
        {name for text in texts for name in re.findall(r"^\s*from (dbt_spark_cdc\S*) ", text, re.M)}
    )
    assert shared
    code = f"import sys, {', '.join(shared)}; print('dbt.adapters.sparkcdc' in sys.modules)"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout == "False\n"
