"""Delta's log, read as plain files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc.delta_log import local_folder, newest_commits, table_bytes


def commit(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    (log / f"{version:020}.json").write_text(text, encoding="utf-8")


def info(**values: Any) -> dict[str, Any]:
    return {"commitInfo": {"timestamp": 5, "operation": "MERGE", **values}}


def test_the_newest_come_first(tmp_path: Path) -> None:
    commit(tmp_path, 8, info(txnId="a"))
    commit(tmp_path, 9, {"add": {}}, info(txnId="b", userMetadata="stamp"))
    commit(tmp_path, 10, info(operation="OPTIMIZE"))
    (tmp_path / "_delta_log" / "_staged_commits").mkdir()
    assert newest_commits(tmp_path, 2) == [
        {"version": 10, "operation": "OPTIMIZE", "userMetadata": None, "id": "10 5"},
        {"version": 9, "operation": "MERGE", "userMetadata": "stamp", "id": "9 b"},
    ]
    found = newest_commits(tmp_path, 20)
    assert found is not None
    assert [one["version"] for one in found] == [10, 9, 8]


def test_a_commit_need_not_tell_of_itself(tmp_path: Path) -> None:
    commit(tmp_path, 0, {"add": {}})
    found = newest_commits(tmp_path, 1)
    assert found == [{"version": 0, "operation": None, "userMetadata": None, "id": None}]


@pytest.mark.parametrize("damage", ["no log", "empty log", "gap", "staged", "half a line"])
def test_spark_is_asked_where_the_files_are_not_all(tmp_path: Path, damage: str) -> None:
    if damage != "no log":
        (tmp_path / "_delta_log").mkdir()
    if damage in ("gap", "staged"):
        commit(tmp_path, 1, info())
    if damage == "gap":
        commit(tmp_path, 3, info())
    if damage == "staged":
        staged = tmp_path / "_delta_log" / "_staged_commits"
        staged.mkdir()
        (staged / f"{2:020}.uuid.json").touch()
    if damage == "half a line":
        (tmp_path / "_delta_log" / f"{0:020}.json").write_text('{"commitInfo":{')
    assert newest_commits(tmp_path, 2) is None


def test_only_files_of_this_machine_are_read() -> None:
    assert local_folder("file:/a/b%20c") == Path("/a/b c")
    assert local_folder("file:///a") == Path("/a")
    assert local_folder("s3a://bucket/a") is None
    assert local_folder("file://server/a") is None


def test_sizes_come_from_checksums(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{3:020}.crc").write_text('{"tableSizeBytes": 70}', encoding="utf-8")
    (log / f"{4:020}.crc").write_text('{"tableSizeBytes":', encoding="utf-8")
    assert [table_bytes(tmp_path, version) for version in (3, 4, 5)] == [70, None, None]
