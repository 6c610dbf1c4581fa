"""Files are read in few tasks: small ones together, in order, and large ones apart."""

from __future__ import annotations

from dbt_spark_cdc.landing.folder import BYTES_A_TASK, FILES_A_TASK, File, split_by_size


def sizes(*given: int) -> list[list[int]]:
    files = [File(f"t/{number:05}", size, 0) for number, size in enumerate(given)]
    parts = split_by_size(files)
    assert [file for part in parts for file in part] == files
    return [[file.size for file in part] for part in parts]


def test_hundreds_of_small_files_are_one_part() -> None:
    assert len(sizes(*[500] * 900)) == 1


def test_a_part_has_no_more_bytes_than_a_task_reads() -> None:
    half = BYTES_A_TASK // 2
    assert sizes(half, half, 1, half, half) == [[half, half], [1, half], [half]]
    assert sizes(1, 5 * BYTES_A_TASK, 1) == [[1], [5 * BYTES_A_TASK], [1]]


def test_a_part_has_no_more_files_than_a_task_opens() -> None:
    assert [len(part) for part in sizes(*[0] * (2 * FILES_A_TASK + 1))] == [1000, 1000, 1]
