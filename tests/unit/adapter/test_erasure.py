"""What files of a Delta table hold, deleted or not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dbt.adapters.sparkcdc.erasure.table_files import (
    Found,
    data_files,
    forget_log,
    holds_keys,
    holds_text,
    physical_names,
    remove_empty_folders,
    search,
    spellings,
)

SAME = {"id": "id", "line": "line"}


def write(folder: Path, name: str, **columns: object) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file, compression="snappy")
    return file


def test_a_row_is_found_by_its_whole_key(tmp_path: Path) -> None:
    file = write(tmp_path, "a.parquet", id=pa.array([1, 2], pa.int32()), line=["x", "y"])
    for key, there in [((1, "x"), True), ((1, "y"), False), ((3, "x"), False)]:
        keys = pa.table({"id": pa.array([key[0]], pa.int64()), "line": [key[1]]})
        assert holds_keys(file, keys, SAME) is there
    # A column that the file lacks may be a partition: then the others decide.
    assert holds_keys(file, pa.table({"id": [1], "other": [5]}), {"id": "id", "other": "other"})
    assert not holds_keys(file, pa.table({"other": [5]}), {"other": "other"})


def test_files_of_a_mapped_table_have_names_of_their_own(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.physicalName": "col-1"}
    fields = [{"name": "id", "metadata": mapped}, {"name": "line", "metadata": {}}]
    names = physical_names(json.dumps({"fields": fields}))
    assert names == {"id": "col-1", "line": "line"}
    file = write(tmp_path, "a.parquet", **{"col-1": [1]})
    assert holds_keys(file, pa.table({"id": [1]}), names)
    assert not holds_keys(file, pa.table({"id": [2]}), names)


def test_files_of_iceberg_know_columns_by_their_ids(tmp_path: Path) -> None:
    field = pa.field("former name", pa.int32(), metadata={"PARQUET:field_id": "4"})
    pq.write_table(pa.table([[1]], pa.schema([field])), tmp_path / "a.parquet")
    for key, there in ((1, True), (2, False), (2**40, False)):
        keys = pa.table({"id": pa.array([key, key], pa.int64())})
        assert holds_keys(tmp_path / "a.parquet", keys, {"id": 4}) is there
    assert not holds_keys(tmp_path / "a.parquet", pa.table({"id": [1]}), {"id": 5})
    # One that Iceberg did not write has no ids.
    assert holds_keys(write(tmp_path, "b.parquet", id=[1]), pa.table({"id": [1]}), {"id": 5})


def test_a_folder_may_have_a_value_as_its_name(tmp_path: Path) -> None:
    write(tmp_path, "mail=ann%40example.com/a.parquet", id=[1])
    (tmp_path / "mail=bob%40example.com" / "deep").mkdir(parents=True)
    people = ["ann@example.com", "bob@example.com"]
    found = search(tmp_path, people, None, SAME)
    assert found == Found(1, ["mail=ann%40example.com", "mail=bob%40example.com"])
    remove_empty_folders(tmp_path)
    assert search(tmp_path, people, None, SAME) == Found(1, ["mail=ann%40example.com"])


def test_statistics_keep_the_beginnings_of_texts(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "1.json").write_text('{"min": "ann@example.com,"}')
    write(tmp_path, "a.parquet", v=["ann@example.com, as a part of another text"])
    whole = ["ann@example.com, and much more"]
    assert search(tmp_path, whole, None, SAME) == Found(2, [])
    found = search(tmp_path, whole, None, SAME, ["ann@example.com"])
    assert found == Found(2, ["_delta_log/1.json"])


@pytest.mark.parametrize("text", ["ann@example.com", 'say "hi"', "Zoë 😀"])
def test_a_text_is_found_wherever_it_is(tmp_path: Path, text: str) -> None:
    needles = spellings([text])
    nested = pa.array([[{"v": text}]], pa.list_(pa.struct([("v", pa.string())])))
    mapped = pa.array([[("k", text)]], pa.map_(pa.string(), pa.string()))
    coded = pa.array(["b", text]).dictionary_encode()
    files = [
        write(tmp_path, "plain.parquet", v=["before " + text]),
        write(tmp_path, "nested.parquet", v=nested),
        write(tmp_path, "map.parquet", v=mapped),
        write(tmp_path, "coded.parquet", v=coded),
        write(tmp_path, "bytes.parquet", v=[text.encode()]),
        write(tmp_path, "json.parquet", v=[json.dumps({"v": text})]),
    ]
    for name, content in [
        ("a.json", json.dumps({"v": text}).encode()),
        ("a.gz", gzip.compress(b"x\n" + text.encode())),
        ("cut.gz", gzip.compress(text.encode() + b"\n", mtime=0)[:-6]),
        ("a.crc", b"\x00" + text.encode()),
    ]:
        (tmp_path / name).write_bytes(content)
        files.append(tmp_path / name)
    assert [file.name for file in files if not holds_text(file, needles)] == []
    other = write(tmp_path, "other.parquet", v=["somebody else"], n=[5])
    assert not holds_text(other, needles)
    assert not holds_text(files[0], [])


def test_a_search_reads_all_files(tmp_path: Path) -> None:
    write(tmp_path, "part-1.parquet", id=[1], line=["x"])
    write(tmp_path, "_change_data/cdc-1.parquet", id=[7], line=["x"])
    write(tmp_path, "_delta_log/1.checkpoint.parquet", id=[7], line=["person"])
    (tmp_path / "_delta_log" / "1.json").write_text("person")
    keys = pa.table({"id": [7]})
    found = search(tmp_path, ["person"], keys, SAME)
    log = ["_delta_log/1.checkpoint.parquet", "_delta_log/1.json"]
    assert found == Found(4, ["_change_data/cdc-1.parquet", *log])
    assert search(tmp_path, [], None, SAME) == Found(4, [])
    assert data_files(tmp_path) == {"part-1.parquet", "_change_data/cdc-1.parquet"}


def test_the_log_is_forgotten_up_to_a_checkpoint(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    names = ["00000000000000000008.json", ".00000000000000000008.json.crc", "_last_checkpoint"]
    names += ["00000000000000000009.crc", "00000000000000000007.checkpoint.parquet"]
    kept = ["_last_checkpoint", "00000000000000000010.json", "00000000000000000010.crc"]
    for name in [*names, *kept]:
        (log / name).write_text("{}")
    with pytest.raises(FileNotFoundError, match="no checkpoint of version 10"):
        forget_log(tmp_path, 10)
    assert (log / names[0]).exists()
    write(log, "_sidecars/old.parquet", v=[1])
    write(log, "_sidecars/new.parquet", v=[1])
    checkpoint = "00000000000000000010.checkpoint.parquet"
    write(log, checkpoint, sidecar=pa.array([{"path": "new.parquet"}, None]))
    assert forget_log(tmp_path, 10) == 5
    left = {path.name for path in log.rglob("*") if path.is_file()}
    assert left == {*kept, checkpoint, "new.parquet"}
