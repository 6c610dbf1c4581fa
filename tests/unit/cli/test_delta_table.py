"""Delta's log replayed as plain files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dbt_spark_cdc.observe.delta_table import UnreadableLog, read_table
from tests.unit.cli.warehouses import DAY, Delta

ROWS = pa.table({"id": [1, 2, 3]})


def vector(rows: int) -> dict:
    return {"storageType": "u", "cardinality": rows}


def removed(path: str, **more: object) -> dict:
    return {"remove": {"path": path, "dataChange": True, **more}}


def test_files_are_those_that_are_left(tmp_path: Path) -> None:
    table = Delta(tmp_path).commit(0, ROWS).commit(1, ROWS)
    table.commit(2, actions=[removed("part%200.parquet")])
    table.commit(3, ROWS, {"read_to": 7})
    found = read_table(tmp_path)
    assert found is not None
    assert (found.version, found.rows, len(found.files)) == (3, 6, 2)
    assert [commit.version for commit in found.commits] == [3, 2, 1, 0]
    assert found.commits[0].checkpoint["read_to"] == 7
    assert not found.commits[1].checkpoint
    assert found.commits[0].at.timestamp() * 1000 == DAY + 3 * 60_000
    assert found.newest("id") == 3
    assert found.read(["id", "later"]).to_pydict() == {
        "id": [1, 2, 3] * 2,
        "later": [None] * 6,
    }


@pytest.mark.parametrize("order", [1, -1])
def test_a_deletion_vector_replaces_its_file(tmp_path: Path, order: int) -> None:
    Delta(tmp_path).commit(0, ROWS).commit(1)
    log = tmp_path / "_delta_log"
    first = json.loads((log / f"{0:020}.json").read_text().splitlines()[-1])["add"]
    pair = [{"add": {**first, "deletionVector": vector(2)}}, removed(first["path"])]
    text = "".join(json.dumps(action) + "\n" for action in pair[::order])
    (log / f"{1:020}.json").write_text(text)
    found = read_table(tmp_path)
    assert found is not None
    assert (found.rows, found.deletion_vectors, found.deleted_rows) == (1, 1, 2)


def checkpoint(log: Path, version: int, name: str = "checkpoint.parquet") -> None:
    """What Delta writes now and then: the state so far, here of one file."""
    add = {
        "path": "part%200.parquet",
        "partitionValues": [],
        "size": 9,
        "modificationTime": DAY,
        "dataChange": False,
        "stats": '{"numRecords": 3}',
        "deletionVector": None,
    }
    kind = pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats", pa.string()),
            ("deletionVector", pa.struct([("cardinality", pa.int64())])),
        ]
    )
    rows = pa.table({"add": pa.array([add, None], kind)})
    parquet.write_table(rows, log / f"{version:020}.{name}")


def test_what_a_checkpoint_holds_needs_no_commits(tmp_path: Path) -> None:
    Delta(tmp_path).commit(0, ROWS).commit(1).commit(2, ROWS)
    log = tmp_path / "_delta_log"
    checkpoint(log, 1)
    (log / f"{0:020}.json").unlink()
    found = read_table(tmp_path)
    assert found is not None
    assert (found.version, found.rows) == (2, 6)
    assert [commit.version for commit in found.commits] == [2, 1]


def test_a_checkpoint_without_all_its_parts_is_not_used(tmp_path: Path) -> None:
    Delta(tmp_path).commit(0, ROWS).commit(1, ROWS)
    checkpoint(tmp_path / "_delta_log", 1, "checkpoint.0000000001.0000000002.parquet")
    found = read_table(tmp_path)
    assert found is not None
    assert found.rows == 6


def test_columns_may_have_other_names_in_files(tmp_path: Path) -> None:
    table = Delta(tmp_path).commit(0, pa.table({"col-1": [5, 6]}))
    field = {
        "name": "n",
        "type": "long",
        "metadata": {"delta.columnMapping.physicalName": "col-1"},
    }
    schema = json.dumps({"type": "struct", "fields": [field]})
    table.commit(1, actions=[{"metaData": {"schemaString": schema, "configuration": {}}}])
    found = read_table(tmp_path)
    assert found is not None
    assert found.newest("N") == 6
    assert found.read(["n"]).to_pydict() == {"n": [5, 6]}


def test_no_log_is_no_table(tmp_path: Path) -> None:
    assert read_table(tmp_path) is None
    assert read_table(tmp_path / "missing") is None


@pytest.mark.parametrize("damage", ["gap", "staged", "half a line", "elsewhere"])
def test_a_log_that_is_not_whole_is_refused(tmp_path: Path, damage: str) -> None:
    table = Delta(tmp_path).commit(0, ROWS).commit(1).commit(2)
    log = tmp_path / "_delta_log"
    if damage == "gap":
        (log / f"{1:020}.json").unlink()
    elif damage == "staged":
        (log / "_staged_commits").mkdir()
        (log / "_staged_commits" / "x.json").touch()
    elif damage == "half a line":
        (log / f"{2:020}.json").write_text('{"commitInfo":{')
    else:
        table.commit(3, ROWS, path="s3a://bucket/file.parquet")
    with pytest.raises(UnreadableLog, match=str(tmp_path) if damage != "elsewhere" else "s3a"):
        read_table(tmp_path)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    Delta(tmp_path).commit(0, ROWS)
    (tmp_path / "part 0.parquet").unlink()
    found = read_table(tmp_path)
    assert found is not None
    with pytest.raises(UnreadableLog, match=r"part 0\.parquet"):
        found.read(["id"])
