"""Change files as they really arrive: whole, cut off, damaged, empty, in a wrong encoding."""

from __future__ import annotations

import gzip

import pytest

from dbt_spark_cdc import landing

LINES = b'{"a": 1}\n{"a": "\xc3\xa9\xe2\x80\xa8"}\n'


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_lines_keep_their_number(name: str) -> None:
    content = LINES + b"\n" + b'{"a": 3}'
    packed = gzip.compress(content) if name.endswith(".gz") else content
    # U+2028 ends no line, an empty line is none.
    assert list(landing.read_lines(name, packed)) == [
        ('{"a": 1}', 1, None),
        ('{"a": "é\u2028"}', 2, None),
        ('{"a": 3}', 4, None),
    ]


def test_gzip_of_several_members() -> None:
    packed = gzip.compress(b"one\n") + gzip.compress(b"two\n")
    assert [line for line, _, _ in landing.read_lines("x.gz", packed)] == ["one", "two"]


def test_a_cut_gzip_gives_its_whole_lines_and_says_so() -> None:
    content = b"".join(b"line %d of the file\n" % number for number in range(5000))
    packed = gzip.compress(content)
    found = list(landing.read_lines("x.gz", packed[: len(packed) // 2]))
    *lines, last = found
    assert 100 < len(lines) < 5000
    assert all(problem is None for _, _, problem in lines)
    assert [line for line, _, _ in lines] == content.decode().split("\n")[: len(lines)]
    assert last[1:] == (0, "gzip file is cut off")


def numbered(count: int, start: int = 0) -> bytes:
    return b"".join(b"line %d of the file\n" % number for number in range(start, count))


@pytest.mark.parametrize("damage", [b"\xff" * 64, b"Z" * 64, bytes(range(64)), b"\x07"])
def test_what_is_before_a_damaged_block_is_kept_and_not_trusted(damage: bytes) -> None:
    # Spark would see plausible lines: the garbled ones begin long before anything fails.
    content = numbered(50_000)
    packed = bytearray(gzip.compress(content))
    middle = len(packed) // 2
    packed[middle : middle + len(damage)] = damage
    sound = gzip.compress(b"sound\n")
    first, *lines, (_, row, problem) = landing.read_lines("x.gz", sound + bytes(packed))
    assert first == ("sound", 1, None)
    assert (row, str(problem)[:20]) == (0, "damaged gzip file (E")
    assert [line for line, _, _ in lines[:24_000]] == content.decode().split("\n")[:24_000]
    assert {doubt for _, _, doubt in lines} <= {problem, "line is not valid UTF-8"} - {None}


def test_a_wrong_checksum_makes_all_lines_of_its_member_doubtful() -> None:
    packed = bytearray(gzip.compress(numbered(3)) + gzip.compress(numbered(6, start=3)))
    packed[-8] ^= 1  # of the checksum of the second member
    found = list(landing.read_lines("x.gz", bytes(packed)))
    problem = "damaged gzip file (Error -3 while decompressing data: incorrect data check)"
    assert found == [
        *((f"line {n} of the file", n + 1, None if n < 3 else problem) for n in range(6)),
        (None, 0, problem),
    ]


def test_what_is_no_gzip_is_one_unreadable_line() -> None:
    [(line, row, problem)] = landing.read_lines("x.gz", b"this is text")
    assert (line, row) == (None, 0)
    assert problem.startswith("damaged gzip file")


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_file_is_reported(content: bytes) -> None:
    assert [found[1:] for found in landing.read_lines("x.jsonl", content)] == [(0, "empty file")]


def test_a_line_in_another_encoding_is_kept_apart() -> None:
    found = list(landing.read_lines("x.jsonl", b"good\n\xff\xfe\ngood\n"))
    assert [problem for _, _, problem in found] == [None, "line is not valid UTF-8", None]


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        b"one\n\n \t\ntwo\r\n\x0b\nthree",
        b"\x1c\n\xc2\xa0\n\x00\n",
        b"good\n\xff\xfe\ngood\n",
        b"\xed\xa0\x80\n",
        b"",
        b"\n\n",
        b"line\n" * 25_000,
    ],
    ids=["sound", "blank", "odd", "latin", "surrogate", "empty", "only_blank", "many"],
)
@pytest.mark.parametrize("name", ["t/x.jsonl", "t/x.jsonl.gz"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_columns_have_the_lines_that_rows_have(content: bytes, name: str, is_cut: bool) -> None:
    packed = gzip.compress(content) if name.endswith(".gz") else content
    packed = packed[: len(packed) // 2] if is_cut else packed
    batches = list(landing.file_batches(name, packed, 7))
    assert all(batch.schema == landing.ARROW_LINES for batch in batches)
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert found == list(landing.file_rows(name, packed, 7))


def test_small_files_come_in_one_chunk_and_large_ones_in_several() -> None:
    files = [b"line\n" * rows for rows in (1, 2, 25_000, 3)]
    batches = [
        batch
        for number, content in enumerate(files)
        for batch in landing.file_batches(f"t/{number}", content, 7)
    ]
    chunks = list(landing._in_chunks(batches))
    assert [chunk.num_rows for chunk in chunks] == [10_003, 10_000, 5_003]
    rows = [row for chunk in chunks for row in chunk.to_pylist()]
    assert rows == [row for batch in batches for row in batch.to_pylist()]
