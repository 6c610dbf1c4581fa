"""What becomes of a file is decided by its name, size, time and, where these differ, content."""

from __future__ import annotations

from typing import Any

import pytest

from dbt_spark_cdc.landing.folder import File
from dbt_spark_cdc.landing.plan import Plan, Seen, compare, seen_files

KNOWN = {
    "orders/a": Seen(10, {1000}, "A"),
    "orders/none": Seen(0, {1000}, None, False),
}


def plan(*files: File, seen: dict[str, Seen] = KNOWN, **contents: str) -> Plan:
    """Compares files whose checksum is the name in capital letters, unless it is given."""

    def checksum(file: File) -> str:
        name = file.name.split("/")[1]
        return contents.get(name, name.upper())

    return compare(files, seen, checksum, limit=5000)


@pytest.mark.parametrize(
    "file",
    [
        File("orders/b", 10, 5),  # older than all that was landed
        File("orders/b", 10, 1000),  # of the size and time of one that is still there
        File("other/a", 10, 1000),
        File("orders/none", 3, 1000),  # empty until now
    ],
)
def test_new_files_are_landed(file: File) -> None:
    assert plan(File("orders/a", 10, 1000), file) == Plan([file], [], [])


def test_a_known_file_is_not_read_again() -> None:
    def checksum(file: File) -> str:
        raise AssertionError(file)

    files = [File("orders/a", 10, 1000), File("orders/none", 0, 2000)]
    assert compare(files, KNOWN, checksum) == Plan([], [], [])
    # A former version noted no size: the name has to do.
    assert compare(files[:1], {"orders/a": Seen(None, {None}, None)}, checksum) == Plan([], [], [])


@pytest.mark.parametrize(("size", "was"), [(11, "10 bytes"), (10, "other content")])
def test_a_replaced_file_is_reported(size: int, was: str) -> None:
    file = File("orders/a", size, 2000)
    found = plan(file, a="other")
    assert found == Plan([], [(file, "other", found.reported[0][2])], [])
    assert was in found.reported[0][2] and "another name" in found.reported[0][2]


def test_another_time_alone_is_noted() -> None:
    file = File("orders/a", 10, 2000)
    assert plan(file) == Plan([], [], [(file, "A", None)])


def test_a_renamed_file_is_not_landed_again() -> None:
    file = File("orders/b", 10, 1000)
    found = plan(file, b="A")
    assert found == Plan([], [], [(file, "A", found.noted[0][2])])
    assert "landed from orders/a" in str(found.noted[0][2])
    # Of the same size and time by chance.
    assert plan(file) == Plan([file], [], [])


def test_empty_and_too_large_files_are_reported() -> None:
    files = [File("orders/e", 0, 1), File("orders/f", 5001, 1)]
    found = plan(File("orders/a", 10, 1000), *files)
    assert (found.new, found.noted) == ([], [])
    assert [problem for _, _, problem in found.reported] == [
        "empty file",
        "file is larger than 5,000 bytes: split it, and give the parts names of their own",
    ]


@pytest.mark.parametrize("suffix", [".bz2", ".zst", ".ZIP", ".snappy"])
def test_a_file_that_landing_cannot_unpack_is_reported_once(suffix: str) -> None:
    file = File(f"orders/b.jsonl{suffix}", 10, 2000)
    known = File("orders/a", 10, 1000)
    [(reported, checksum, problem)] = plan(known, file).reported
    assert (reported.name, checksum) == (file.name, None)
    assert problem is not None and f"`{suffix}`" in problem and "gzip" in problem
    assert "ends with `.gz`" in problem
    # The next run says no more of it, and a version that can unpack it lands it.
    log = [row(0, 1000, 10, checksum="A"), row(1, 2000, reported.size, _file=file.name)]
    assert plan(known, file, seen=seen_files(log)) == Plan([], [], [])
    assert not seen_files(log)[file.name].landed


@pytest.mark.parametrize("suffix", [".GZ", ".gzip", ".gz.1", ""])
def test_a_file_of_gzip_is_landed_whatever_its_name_is(suffix: str) -> None:
    file = File(f"orders/b.jsonl{suffix}", 10, 2000)
    assert plan(file) == Plan([file], [], [])
    # A former version has reported it.
    assert plan(file, seen={file.name: Seen(0, {2000}, None, False)}) == Plan([file], [], [])


def test_what_a_former_version_landed_of_such_a_file_stays_landed() -> None:
    file = File("orders/b.bz2", 10, 1000)
    seen = {file.name: Seen(10, {1000}, "B.BZ2")}
    assert plan(file, seen=seen) == Plan([], [], [])
    [(_, _, problem)] = plan(file._replace(size=11), seen=seen, **{"b.bz2": "other"}).reported
    assert problem is not None and problem.startswith("replaced after it was landed")


def row(batch: int | None, at: int, size: int | None, **more: Any) -> dict[str, Any]:
    names = {"_file": "orders/a", "modified_at": at, "checksum": str(at), "problem": None}
    return {**names, "_batch": batch, "_landed_at": at, "bytes": size, **more}


def test_the_latest_row_of_the_log_counts() -> None:
    assert seen_files([row(2, 5, 7), row(1, 4, 6)]) == {"orders/a": Seen(7, {5}, "5")}
    # Once landed, always landed: a file that is emptied and filled again was replaced.
    assert seen_files([row(1, 4, 6), row(2, 5, 0)]) == {"orders/a": Seen(0, {5}, "5", True)}
    assert seen_files([row(1, 4, 0)]) == {"orders/a": Seen(0, {4}, "4", False)}
    # What a former version booked as empty may have been overlooked.
    assert seen_files([row(None, 4, None)]) == {}
    assert seen_files([row(0, 4, None)]) == {"orders/a": Seen(None, {4}, "4")}


def test_a_clock_that_steps_back_reports_nothing_twice() -> None:
    replaced = File("orders/a", 11, 2000)
    log = [row(0, 1000, 10, _landed_at=9), row(1, 2000, 11, _landed_at=5)]
    for rows in (log, log[::-1]):
        assert plan(replaced, seen=seen_files(rows), a="2000") == Plan([], [], [])
    # Empty at first, and landed since.
    log = [row(0, 1, 0, _landed_at=9, checksum=None), row(1, 1000, 10, _landed_at=5)]
    assert plan(File("orders/a", 10, 1000), seen=seen_files(log)) == Plan([], [], [])
    # Touched since it was replaced, by a clock that is behind that of the server.
    log = [
        row(0, 1000, 10, _landed_at=7),
        row(1, 2000, 11, _landed_at=9),
        row(None, 3000, 11, _landed_at=5, checksum="2000"),
    ]
    assert plan(File("orders/a", 11, 3000), seen=seen_files(log)) == Plan([], [], [])
    # Renamed to what was empty before.
    log = [row(0, 1, 0, _landed_at=9, checksum=None), row(None, 1000, 10, _landed_at=5)]
    assert plan(File("orders/a", 10, 1000), seen=seen_files(log)) == Plan([], [], [])


@pytest.mark.parametrize("clock", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_a_clock_that_steps_back_lands_nothing_twice(clock: tuple[int, int, int]) -> None:
    log = [
        row(batch, modified, 10, _landed_at=at, checksum="A")
        for batch, modified, at in zip((0, None, None), (1000, 2000, 3000), clock, strict=True)
    ]
    # Touched twice, then renamed.
    renamed = File("orders/b", 10, 3000)
    found = plan(renamed, seen=seen_files(log), b="A")
    assert (found.new, found.reported, len(found.noted)) == ([], [], 1)


def test_new_content_is_landed_under_the_name_that_the_report_asks_for() -> None:
    log = [row(0, 1000, 10, checksum="A")]
    [(_, content, problem)] = plan(File("orders/a", 11, 2000), seen=seen_files(log), a="B").reported
    log.append(row(1, 2000, 11, checksum=content, problem=problem))
    # Moved, with its time, and also when it was touched before.
    moved = File("orders/b", 11, 2000)
    assert plan(moved, seen=seen_files(log), b="B") == Plan([moved], [], [])
    log.append(row(None, 3000, 11, checksum="B"))
    touched = moved._replace(modified=3000)
    assert plan(touched, seen=seen_files(log), b="B") == Plan([touched], [], [])
    # What was landed first is back, reported as well, and then renamed: it is known.
    back = File("orders/a", 10, 4000)
    [(_, content, problem)] = plan(back, seen=seen_files(log), a="A").reported
    log.append(row(2, 4000, 10, checksum=content, problem=problem))
    found = plan(File("orders/b", 10, 4000), seen=seen_files(log), b="A")
    assert (found.new, found.reported, len(found.noted)) == ([], [], 1)


def test_a_file_that_cannot_be_read_is_reported_until_it_can() -> None:
    locked = File("orders/b", 10, 5, problem="the file cannot be read")
    found = plan(locked, seen={})
    assert found == Plan([], [(locked._replace(size=0), None, "the file cannot be read")], [])
    reported = {"orders/b": Seen(0, {5}, None, False)}
    assert plan(locked, seen=reported) == Plan([], [], [])
    readable = locked._replace(problem="")
    assert plan(readable, seen=reported) == Plan([readable], [], [])
    # It was landed, and is not looked at any more.
    assert plan(locked, seen={"orders/b": Seen(9, {1}, "B")}) == Plan([], [], [])
