"""The log store for S3 as the adapter compiles it; `make e2e` has two processes commit by it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

PREPARE = [sys.executable, "-m", "dbt.adapters.sparkcdc.prepare", "--log-store"]


def test_it_is_compiled_for_other_servers(tmp_path: Path) -> None:
    jar = tmp_path / "log-store.jar"
    ran = subprocess.run([*PREPARE, str(jar)], capture_output=True, text=True)
    assert not ran.returncode, ran.stderr
    assert ran.stdout == f"{jar} has dbtsparkcdc.S3ConditionalLogStore\n"
    with zipfile.ZipFile(jar) as archive:
        assert archive.namelist() == ["dbtsparkcdc/S3ConditionalLogStore.class"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    jar = tmp_path / "missing" / "log-store.jar"
    ran = subprocess.run([*PREPARE, str(jar)], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr == f"{jar} cannot be written: No such file or directory.\n"
