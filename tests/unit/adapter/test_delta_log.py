"""Delta's log, read as plain files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.sparkcdc import SparkCdcAdapter
from dbt.adapters.sparkcdc.delta.log import (
    appended,
    compaction_pays,
    first_change,
    last_write,
    local_folder,
    newest_commits,
    table_bytes,
    table_id,
    vectors_pay,
    written_alone,
)


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


def test_the_last_write_is_before_what_maintenance_did(tmp_path: Path) -> None:
    assert last_write(tmp_path, ["OPTIMIZE"]) is None
    commit(tmp_path, 0, info(txnId="a"))
    assert last_write(tmp_path, ["OPTIMIZE"]) == "0 a"
    for version in range(1, 15):
        commit(tmp_path, version, info(operation="OPTIMIZE"))
    assert last_write(tmp_path, ["OPTIMIZE"]) == "0 a"
    # Where nobody would find it, the last commit of any kind.
    for version in range(15, 30):
        commit(tmp_path, version, info(operation="OPTIMIZE"))
    assert last_write(tmp_path, ["OPTIMIZE"]) == "29 5"


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


def added(least: Any, most: Any, rows: int = 2, **more: Any) -> dict[str, Any]:
    stats = {
        "numRecords": rows,
        "minValues": {"batch": least},
        "maxValues": {"batch": most},
        "nullCount": {"batch": 0},
    }
    return {"add": {"dataChange": True, "stats": json.dumps(stats), **more}}


def test_what_was_appended_is_in_the_statistics(tmp_path: Path) -> None:
    commit(tmp_path, 0, added(1, 1))
    commit(tmp_path, 1, info(), added(2, 2), added(3, 4, rows=5))
    # Compaction moves rows.
    commit(
        tmp_path, 2, {"remove": {"dataChange": False}}, added(1, 4) | {"add": {"dataChange": False}}
    )
    commit(tmp_path, 3, added(1, 1))
    assert appended(tmp_path, 0, "batch", 1) == (4, 7, 3, 1)
    assert appended(tmp_path, 0, "batch", 3) == (None, 0, 3, 1)
    assert appended(tmp_path, 2, "batch", 4) == (None, 0, 3, 1)
    assert appended(tmp_path, 3, "batch", 4) == (None, 0, 3, None)


def test_the_checksum_tells_which_table_it_is(tmp_path: Path) -> None:
    assert table_id(tmp_path, 8) is None
    commit(tmp_path, 8, info())
    assert table_id(tmp_path, 8) is None
    log = tmp_path / "_delta_log"
    (log / f"{8:020}.crc").write_text(json.dumps({"metadata": {"id": "an id"}}))
    assert table_id(tmp_path, 8) == "an id"


def test_what_was_appended_to_a_partition(tmp_path: Path) -> None:
    a, b = ({"partitionValues": {"_table": name}} for name in ("a", "b"))
    commit(tmp_path, 0, added(1, 1, **a))
    commit(tmp_path, 1, info(), added(2, 2, **a), added(2, 2, rows=5, **b))
    commit(
        tmp_path, 2, added(3, 3, **b), added(4, 4, rows=2, **{"partitionValues": {"_table": None}})
    )
    assert appended(tmp_path, 0, "batch", 1, ["_table", "a"]) == (2, 2, 2, 2)
    assert appended(tmp_path, 0, "batch", 1, ["_table", "b"]) == (3, 7, 2, 2)
    assert appended(tmp_path, 1, "batch", 1, ["_table", "a"]) == (None, 0, 2, None)
    assert appended(tmp_path, 0, "batch", 1) == (4, 11, 2, 2)
    # Whoever asks next for a table that is known finds its commits read.
    assert appended(tmp_path, 1, "batch", 1, ["_table", "b"], "an id") == (3, 2, 2, 3)
    (tmp_path / "_delta_log" / f"{2:020}.json").write_text("")
    assert appended(tmp_path, 1, "batch", 2, ["_table", "b"], "an id") == (3, 2, 2, 3)
    assert appended(tmp_path, 1, "batch", 2, ["_table", "b"], "another") == (None, 0, 2, None)
    # The log of another table, or of an older state, ends before.
    assert appended(tmp_path, 3, "batch", 1, ["_table", "a"]) is None
    # The table is not cut like that.
    assert appended(tmp_path, 0, "batch", 1, ["city", "a"]) is None


@pytest.mark.parametrize(
    "actions",
    [
        [{"remove": {"dataChange": True}}],
        [{"metaData": {}}],
        [{"add": {"dataChange": True}}],
        [added("a", "b")],
        [added(2, 3, deletionVector={"storageType": "u"})],
    ],
    ids=["rows changed", "columns changed", "no statistics", "text", "deleted rows"],
)
def test_a_query_has_to_tell(tmp_path: Path, actions: list[dict[str, Any]]) -> None:
    commit(tmp_path, 0, info())
    commit(tmp_path, 1, *actions)
    assert appended(tmp_path, 0, "batch", 1) is None


def test_deleted_rows_are_none_that_were_appended(tmp_path: Path) -> None:
    deletion = {"commitInfo": {"operation": "DELETE", "txnId": "x"}}
    rest = [{"remove": {"dataChange": True}}, added(1, 1, deletionVector={"storageType": "u"})]
    commit(tmp_path, 0, added(1, 4))
    commit(tmp_path, 1, deletion, *rest)
    assert appended(tmp_path, 0, "batch", 4) == (None, 0, 1, None)
    commit(tmp_path, 2, {"commitInfo": {"operation": "TRUNCATE"}}, {"remove": {"dataChange": True}})
    commit(tmp_path, 3, added(4, 4))
    assert appended(tmp_path, 0, "batch", 4) == (None, 0, 3, 4)
    # Among them may be the one that was appended, which lies behind if it is still there.
    commit(tmp_path, 4, deletion, *rest)
    assert appended(tmp_path, 0, "batch", 4) == (None, None, 4, 4)
    assert appended(tmp_path, 0, "batch", 3) is None
    assert appended(tmp_path, 3, "batch", 4) == (None, 0, 4, None)


@pytest.mark.parametrize(
    "other",
    [
        [{"remove": {"dataChange": True}}, added(1, 9)],
        [{"metaData": {}}],
        [{"add": {"dataChange": True}}],
        [added("a", "b")],
    ],
    ids=["rows changed", "columns changed", "no statistics", "text"],
)
@pytest.mark.parametrize("other_first", [True, False])
def test_another_commit_does_not_hide_what_lies_behind(
    tmp_path: Path, other: list[dict[str, Any]], other_first: bool
) -> None:
    commit(tmp_path, 0, info())
    commit(tmp_path, 1 if other_first else 2, info(), *other)
    commit(tmp_path, 2 if other_first else 1, info(), added(5, 7))
    assert appended(tmp_path, 0, "batch", 6) == (None, None, 2, 5)
    assert appended(tmp_path, 0, "batch", 4) is None


def test_restored_files_are_appended(tmp_path: Path) -> None:
    restored = {"commitInfo": {"operation": "RESTORE", "txnId": "x"}}
    removed = {"remove": {"dataChange": True}}
    commit(tmp_path, 0, added(1, 4))
    commit(tmp_path, 1, restored, removed)
    assert appended(tmp_path, 0, "batch", 4) == (None, 0, 1, None)
    commit(tmp_path, 2, added(4, 4, rows=1))
    assert appended(tmp_path, 0, "batch", 4) == (None, 0, 2, 4)
    # It takes away what was appended before.
    commit(tmp_path, 3, restored, removed, added(2, 5))
    assert appended(tmp_path, 2, "batch", 1) == (5, 2, 3, 2)
    assert appended(tmp_path, 0, "batch", 4) == (None, None, 3, 2)
    assert appended(tmp_path, 0, "batch", 1) is None
    # Of a file whose rows were deleted partly nobody knows the number.
    commit(tmp_path, 4, restored, {"metaData": {}}, added(2, 5, deletionVector={}))
    commit(tmp_path, 5, restored, added(2, 5, deletionVector={"storageType": "u"}))
    assert appended(tmp_path, 3, "batch", 2) == (None, None, 5, 2)
    assert appended(tmp_path, 4, "batch", 2) == (None, None, 5, 2)
    assert appended(tmp_path, 4, "batch", 1) is None


def test_columns_keep_their_first_names_in_the_log(tmp_path: Path) -> None:
    """A column was renamed, and another one got its name."""

    def field(name: str, physical: str) -> dict[str, Any]:
        return {"name": name, "metadata": {"delta.columnMapping.physicalName": physical}}

    fields = [field("loaded", "batch"), field("batch", "col-1"), field("_table", "col-2")]
    metadata = {
        "configuration": {"delta.columnMapping.mode": "name"},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
    }
    commit(tmp_path, 0, info())
    (tmp_path / "_delta_log" / f"{0:020}.crc").write_text(json.dumps({"metadata": metadata}))
    stats = {
        "numRecords": 2,
        "minValues": {"batch": 80, "col-1": 3},
        "maxValues": {"batch": 90, "col-1": 4},
        "nullCount": {"batch": 0, "col-1": 0},
    }
    add = {"dataChange": True, "stats": json.dumps(stats), "partitionValues": {"col-2": "a"}}
    commit(tmp_path, 1, {"add": add})
    assert appended(tmp_path, 0, "batch", 2) == (4, 2, 1, 3)
    assert appended(tmp_path, 0, "batch", 2, ["_table", "a"]) == (4, 2, 1, 3)
    assert appended(tmp_path, 0, "batch", 2, ["_table", "b"]) == (None, 0, 1, None)
    assert appended(tmp_path, 0, "missing", 2) is None
    assert appended(tmp_path, 0, "BATCH", 2, ["_TABLE", "a"]) == (4, 2, 1, 3)
    metadata["configuration"] = {}
    (tmp_path / "_delta_log" / f"{0:020}.crc").write_text(json.dumps({"metadata": metadata}))
    assert appended(tmp_path, 0, "batch", 2) == (90, 2, 1, 80)
    assert appended(tmp_path, 0, "Batch", 85) == (None, 0, 1, 80)


def test_a_gap_in_the_log_has_to_be_asked_for(tmp_path: Path) -> None:
    commit(tmp_path, 0, info())
    commit(tmp_path, 2, added(2, 2))
    assert appended(tmp_path, 0, "batch", 1) is None


def test_who_wrote() -> None:
    commits = [
        {"version": 4, "operation": "OPTIMIZE", "userMetadata": None},
        {"version": 3, "operation": "WRITE", "userMetadata": "ours"},
        {"version": 2, "operation": "MERGE", "userMetadata": "theirs"},
    ]
    assert written_alone(commits, 2, "ours", ["OPTIMIZE"]) == (True, False)
    assert written_alone(commits, 1, "ours", ["OPTIMIZE"]) == (True, True)
    assert written_alone(commits, 3, "ours", ["OPTIMIZE"]) == (False, False)
    assert written_alone(commits, 3, "ours", []) == (False, True)


@pytest.mark.parametrize(
    ("metadata", "sets_back"),
    [
        (None, False),
        ("by hand", False),
        ("[]", False),
        ('{"read_to": 3}', False),
        ('{"read_to": 0, "set_back": true}', True),
    ],
)
def test_a_replay_counts_as_a_write(metadata: str | None, sets_back: bool) -> None:
    commit = {"version": 2, "operation": "SET TBLPROPERTIES", "userMetadata": metadata}
    assert written_alone([commit], 1, "ours", ["SET TBLPROPERTIES"]) == (False, sets_back)


@pytest.mark.parametrize(
    ("files", "size", "pays"), [(50, 5_000_000, True), (49, 5_000_000, False), (90, 2**32, False)]
)
def test_small_files_are_compacted(tmp_path: Path, files: int, size: int, pays: bool) -> None:
    commit(tmp_path, 3, info())
    known = json.dumps({"numFiles": files, "tableSizeBytes": size})
    (tmp_path / "_delta_log" / f"{3:020}.crc").write_text(known)
    assert compaction_pays(tmp_path, 3) is pays
    assert not compaction_pays(tmp_path, 4)


VECTORS = "delta.enableDeletionVectors"


@pytest.mark.parametrize(
    ("size", "properties", "pays"),
    [
        (2**22 + 1, {}, True),
        (2**22, {}, False),
        (2**30, {VECTORS: "false"}, False),
        (2**30, {VECTORS: "true"}, False),
        (2**30, {"delta.compatibility.symlinkFormatManifest.enabled": "true"}, False),
        (2**30, {"delta.enableIcebergCompatV2": "true"}, False),
        (2**30, {"delta.enableIcebergCompatV2": "false"}, True),
    ],
)
def test_large_tables_get_vectors_unless_somebody_decided(
    tmp_path: Path, size: int, properties: dict[str, str], pays: bool
) -> None:
    commit(tmp_path, 3, info())
    known = {"tableSizeBytes": size, "metadata": {"configuration": properties}}
    (tmp_path / "_delta_log" / f"{3:020}.crc").write_text(json.dumps(known))
    assert vectors_pay(tmp_path, 3) is pays
    assert not vectors_pay(tmp_path, 4)


def test_large_files_do_not_hide_small_ones(tmp_path: Path) -> None:
    """With the average alone, small files of a table of terabytes were never put together."""

    def known(version: int, small: int, operation: str = "WRITE") -> None:
        commit(tmp_path, version, {"commitInfo": {"operation": operation, "txnId": str(version)}})
        counts = {"sortedBinBoundaries": [0, 2**25, 2**26, 2**30], "fileCounts": [1, small, 9, 900]}
        files = {"numFiles": small + 910, "tableSizeBytes": 900 * 2**30}
        text = json.dumps(files | {"fileSizeHistogram": counts})
        (tmp_path / "_delta_log" / f"{version:020}.crc").write_text(text)

    for version, small, pays in ((0, 48, False), (1, 49, True)):
        known(version, small)
        assert compaction_pays(tmp_path, version) is pays
    # As many partitions have: OPTIMIZE leaves one small file in each.
    known(2, 60, "OPTIMIZE")
    for version in range(3, 19):
        assert not compaction_pays(tmp_path, version - 1)
        known(version, 60)
    assert compaction_pays(tmp_path, 18)


def file(path: str, vector: str | None = None, kept: bool = False) -> dict[str, Any]:
    """A file of a commit; `kept` where the commit changes no row."""
    found: dict[str, Any] = {"path": path, "dataChange": not kept}
    if vector:
        found["deletionVector"] = {"storageType": "u", "pathOrInlineDv": vector}
    return found


def test_changes_are_read_as_long_as_their_files_are_there(tmp_path: Path) -> None:
    # Deletion vectors are named by a UUID in Z85.
    vector = "deletion_vector_0ebd5087-76ac-450b-967c-26d7fa9ef655.bin"
    commit(tmp_path, 0, info())
    commit(tmp_path, 1, {"add": file("part%20=1/a")})
    commit(tmp_path, 2, {"remove": file("part%20=1/a")}, {"cdc": file("_change_data/c")})
    commit(tmp_path, 3, {"remove": file("b")}, {"add": file("b", "4.UX]Cc1auMv74h}KWyX")})
    commit(tmp_path, 4, {"remove": file("gone", kept=True)}, {"add": file("b2", kept=True)})
    files = ["part =1/a", "_change_data/c", "b", vector]
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [first_change(tmp_path, wanted) for wanted in (0, 3, 5)] == [0, 3, 5]
    (tmp_path / files[0]).unlink()  # change-data files are all that is read of version 2
    assert first_change(tmp_path, 0) == 2
    assert first_change(tmp_path, 3) == 3
    (tmp_path / files[3]).unlink()
    assert first_change(tmp_path, 0) == 4


def test_changes_are_read_on_top_of_a_checkpoint(tmp_path: Path) -> None:
    for version in (5, 6, 7):
        commit(tmp_path, version, info())
    assert first_change(tmp_path, 5) == 8
    (tmp_path / "_delta_log" / f"{6:020}.checkpoint.parquet").touch()
    assert first_change(tmp_path, 5) == 6
    assert first_change(tmp_path / "none", 5) is None


def test_commits_since_a_version_are_of_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody commits between the look at the newest version and the one at the commits."""
    adapter = SparkCdcAdapter.__new__(SparkCdcAdapter)
    newest = iter([6, 7, 7])

    def looked(table: str, limit: int) -> list[dict[str, int]]:
        first = next(newest)
        return [{"version": version} for version in range(first, first - limit, -1)]

    monkeypatch.setattr(adapter, "_iceberg", lambda table: None)
    monkeypatch.setattr(adapter, "logged_version", lambda table: 6)
    monkeypatch.setattr(adapter, "newest_commits", looked)
    found = adapter.commits_since("app.orders", 4)
    assert found == {"commits": [{"version": n} for n in (7, 6, 5)], "are_all": True}
