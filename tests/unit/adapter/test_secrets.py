"""What dbt prints, logs and writes of a profile with secrets, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
name: shop
profile: shop
models: {shop: {+materialized: view}}
"""
# Both ways to give a token, and a password among Spark's settings. dbt itself hides what begins
# with DBT_ENV_SECRET_, and not everybody names it so.
PROFILE = """
shop:
  target: {target}
  outputs:
    apart:
      type: sparkcdc
      schema: shop
      remote: sc://127.0.0.1:1
      token: "{{{{ env_var('CDC_HUSH') }}}}"
    address:
      type: sparkcdc
      schema: shop
      remote: "sc://127.0.0.1:1/;token={{{{ env_var('CDC_HUSH') }}}}"
    local:
      type: sparkcdc
      schema: shop
      warehouse: warehouse
      server_side_parameters:
        spark.hadoop.javax.jdo.option.ConnectionPassword: "{{{{ env_var('CDC_HUSH') }}}}"
"""
# Nobody answers at the address.
DEBUG = ["--debug", "debug"]
COMPILE = ["--debug", "compile", "--no-populate-cache", "--no-introspect"]
PARSE = ["--debug", "parse"]
SECRET = "hush-7c1d0a5e"


@pytest.mark.parametrize(
    ("target", "commands"),
    [("apart", [DEBUG, COMPILE]), ("address", [DEBUG]), ("local", [PARSE])],
)
def test_a_secret_is_in_no_output_and_no_file(
    tmp_path: Path, target: str, commands: list[list[str]]
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "one.sql").write_text("select 1 as one")
    (tmp_path / "dbt_project.yml").write_text(PROJECT)
    (tmp_path / "profiles.yml").write_text(PROFILE.format(target=target))
    environment = os.environ | {"CDC_HUSH": SECRET, "DO_NOT_TRACK": "1"}
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "dbt.cli.main", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert SECRET not in done.stdout + done.stderr
        # It has read the profile.
        assert command is not DEBUG or "sc://127.0.0.1:1" in done.stdout, done.stdout + done.stderr
        assert command is DEBUG or done.returncode == 0, done.stdout + done.stderr
    written = {file for file in tmp_path.rglob("*") if file.is_file()}
    names = {file.name for file in written}
    assert "dbt.log" in names
    assert commands == [DEBUG] or "manifest.json" in names
    assert [file for file in written if SECRET.encode() in file.read_bytes()] == []
