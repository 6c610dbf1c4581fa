"""The landing folder of a capture: a crash at any disk operation loses and doubles nothing."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dbt_spark_cdc import whole_file
from dbt_spark_cdc.capture import folder as folders
from dbt_spark_cdc.capture.folder import Batch, CaptureFolder, State
from dbt_spark_cdc.capture.problems import Misconfigured

NEW = State("shop", "7", "app", ("shop.*",), 0)
MOST = 1 << 20


def lines(path: Path, table: str) -> list[bytes]:
    """The lines of the visible files, in the order of their names."""
    return [
        line
        for file in sorted((path / table).glob("[!_]*"))
        for line in file.read_bytes().splitlines()
    ]


class Crash(Exception):
    """The process dies."""


class Disk:
    """Counts what is asked of the disk, and dies at one of the requests, before or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dies_at: int, after: bool) -> None:
        self.count, self.dies_at, self.after = 0, dies_at, after
        for place, name in ((os, "rename"), (os, "replace"), (os, "fsync"), (os, "mkdir")):
            monkeypatch.setattr(place, name, self._counted(getattr(place, name)))
        monkeypatch.setattr(Path, "open", self._counted(Path.open))
        monkeypatch.setattr(Path, "unlink", self._counted(Path.unlink))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.dies_at and not self.after:
                raise Crash
            result = real(*arguments, **named)
            if self.count == self.dies_at:
                raise Crash
            return result

        return call


def capture(path: Path, transactions: int, most: int) -> None:
    """Lands a transaction a position, of two tables, in batches of some, from where it was."""
    folder = CaptureFolder(path)
    state, _ = folder.recover()
    if state is None:
        state = NEW
        path.mkdir(exist_ok=True)
        folder.save(state)
    assert state.position is not None
    while state.position < transactions:
        start = state.position
        batch = Batch(folder, start, MOST)
        for number in range(start + 1, min(start + most, transactions) + 1):
            for table in ("carts", "orders"):
                batch.add(table, b"%d" % number)
        state = batch.commit(state, min(start + most, transactions))


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_disk_operation_loses_and_doubles_nothing(
    tmp_path: Path, after: bool
) -> None:
    expected = [b"%d" % number for number in range(1, 6)]
    dies_at, reached = 0, True
    while reached:
        dies_at += 1
        path = tmp_path / str(dies_at)
        with pytest.MonkeyPatch.context() as monkeypatch:
            disk = Disk(monkeypatch, dies_at, after)
            with contextlib.suppress(Crash):
                capture(path, 5, 2)
            reached = disk.count >= dies_at
        for table in ("carts", "orders"):
            # What a build has landed by now stays true.
            seen = lines(path, table)
            assert seen == expected[: len(seen)]
        # Time decides where batches end: the next process cuts elsewhere.
        capture(path, 5, 3)
        for table in ("carts", "orders"):
            assert lines(path, table) == expected, f"{table}, dead at operation {dies_at}"
        assert not list(path.glob("*/_*.part"))
    assert dies_at > 30


def test_names_sort_as_the_log_does_and_say_what_they_hold(tmp_path: Path) -> None:
    folder = CaptureFolder(tmp_path)
    batch = Batch(folder, 0xFF, MOST)
    batch.add("orders", b"a")
    state = batch.commit(NEW, 0x1_0000_0001)
    batch = Batch(folder, 0x1_0000_0001, MOST)
    batch.add("orders", b"b")
    batch.commit(state, 0x1_0000_0002)
    assert sorted(path.name for path in (tmp_path / "orders").iterdir()) == [
        "00000000000000FF-0000000100000001-0001.jsonl",
        "0000000100000001-0000000100000002-0001.jsonl",
    ]
    assert lines(tmp_path, "orders") == [b"a", b"b"]


def test_a_large_batch_is_several_files_that_appear_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MEMORY", 10)
    batch = Batch(CaptureFolder(tmp_path), 0, 25)
    for number in range(30):
        batch.add("orders", b"%04d" % number)
    assert lines(tmp_path, "orders") == []
    batch.commit(NEW, 9)
    sizes = [path.stat().st_size for path in sorted((tmp_path / "orders").iterdir())]
    assert len(sizes) == 5 and max(sizes) < 25 + 10
    assert lines(tmp_path, "orders") == [b"%04d" % number for number in range(30)]


def test_files_are_compressed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MEMORY", 10)
    batch = Batch(CaptureFolder(tmp_path, compressed=True), 0, MOST)
    for number in range(9):
        batch.add("orders", b"%04d" % number)
    batch.commit(NEW, 9)
    [file] = (tmp_path / "orders").iterdir()
    assert file.name.endswith("-0001.jsonl.gz")
    assert gzip.decompress(file.read_bytes()) == b"".join(b"%04d\n" % n for n in range(9))


def test_a_batch_without_lines_moves_the_position_alone(tmp_path: Path) -> None:
    folder = CaptureFolder(tmp_path)
    Batch(folder, 0, MOST).commit(NEW, 7)
    state = folder.state()
    assert state and state.position == 7 and state.files == {}
    assert [path.name for path in tmp_path.iterdir()] == ["_capture"]


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = CaptureFolder(tmp_path)
    assert folder.state() is None
    for position in (None, 0x1A_3C00_28F0):
        state = State("shop", "7", "app", ("shop.*", "a.b"), position, {"a/b": "a/_b.part"})
        folder.save(state)
        assert folder.state() == state
    assert json.loads((tmp_path / "_capture" / "state.json").read_text())["position"] == (
        "1A/3C0028F0"
    )


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"slot": 1', '{"position": "x"}'])
def test_a_damaged_state_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "_capture").mkdir()
    (tmp_path / "_capture" / "state.json").write_text(text)
    with pytest.raises(Misconfigured, match="was changed by hand or damaged"):
        CaptureFolder(tmp_path).state()


def test_landed_files_may_be_moved_away_and_are_reported_once_at_most(tmp_path: Path) -> None:
    capture(tmp_path, 2, 2)
    [file] = (tmp_path / "orders").iterdir()
    file.unlink()
    _, gone = CaptureFolder(tmp_path).recover()
    assert gone == [f"orders/{file.name}"]


def test_one_capture_fills_a_folder(tmp_path: Path) -> None:
    with (
        CaptureFolder(tmp_path).locked(),
        pytest.raises(Misconfigured, match="Another process captures into"),
        CaptureFolder(tmp_path).locked(),
    ):
        pass
    with CaptureFolder(tmp_path).locked():
        pass


def test_a_durable_file_is_synced_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    real = os.replace
    monkeypatch.setattr(whole_file, "sync", lambda path: done.append(f"sync {path.name}"))
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("replace"), real(a, b)))
    whole_file.write_whole(tmp_path / "state", "x", durable=True)
    assert done == [f"sync .state.{os.getpid()}.partial", "replace", f"sync {tmp_path.name}"]
