"""Files and folders that only their owner can read."""

from __future__ import annotations

from pathlib import Path

import pytest
from dbt.adapters.sparkcdc import private
from dbt.adapters.sparkcdc.jvm import metastore
from dbt.adapters.sparkcdc.session.statement_log import StatementLog


def is_private(path: Path) -> bool:
    return path.stat().st_mode & 0o077 == 0


def test_spark_spills_to_a_folder_of_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = private.local_folder({})
    assert folder is not None
    assert folder.parent == tmp_path and is_private(folder)


def test_a_folder_that_somebody_chose_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert private.local_folder({"spark.local.dir": "/fast"}) is None
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/fast")
    assert private.local_folder({}) is None


def test_statements_and_the_metastore_are_for_their_owner(tmp_path: Path) -> None:
    log = tmp_path / "target" / "statements.jsonl"
    with StatementLog(log).timed("select 1"):
        pass
    metastore.release(metastore.hold(tmp_path / "warehouse" / ".metastore"))
    folder = tmp_path / "warehouse" / ".metastore"
    assert [is_private(path) for path in (log, folder, folder / "lock")] == [True] * 3
