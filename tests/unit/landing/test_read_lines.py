"""Change files as they really arrive: whole, cut off, damaged, empty, in a wrong encoding."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbt_spark_cdc import packed as packing
from dbt_spark_cdc.landing import lines as reader

LINES = b'{"a": 1}\n{"a": "\xc3\xa9\xe2\x80\xa8"}\n'


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_lines_keep_their_number(name: str) -> None:
    content = LINES + b"\n" + b'{"a": 3}'
    # U+2028 ends no line, an empty line is none.
    expected = [
        ('{"a": 1}', 1, None),
        ('{"a": "é\u2028"}', 2, None),
        ('{"a": 3}', 4, None),
    ]
    # What gzip has packed is unpacked, whatever its name is.
    assert list(reader.read_lines(name, gzip.compress(content))) == expected
    if not name.endswith(".gz"):
        assert list(reader.read_lines(name, content)) == expected


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
@pytest.mark.parametrize("lines", [b'{"a": 1}\n{"a": 2}\n', b"id,city\n1,Bern\n"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(name: str, lines: bytes) -> None:
    content = b"\xef\xbb\xbf" + lines
    packed = gzip.compress(content) if name.endswith(".gz") else content
    expected = [(line, row, None) for row, line in enumerate(lines.decode().splitlines(), start=1)]
    assert list(reader.read_lines(name, packed)) == expected


def test_a_byte_order_mark_alone_is_an_empty_file() -> None:
    assert list(reader.read_lines("x", b"\xef\xbb\xbf")) == [(None, 0, "empty file")]


def test_lines_that_damage_makes_doubtful_are_counted_without_the_mark() -> None:
    packed = bytearray(gzip.compress(b"\xef\xbb\xbfa\nb\n") + gzip.compress(b"c\n"))
    packed[-8] ^= 1  # of the checksum of the second member
    found = list(reader.read_lines("x.gz", bytes(packed)))
    assert [(line, problem is None) for line, _, problem in found] == [
        ("a", True),
        ("b", True),
        ("c", False),
        (None, False),
    ]


def test_gzip_of_several_members() -> None:
    packed = gzip.compress(b"one\n") + gzip.compress(b"two\n")
    assert [line for line, _, _ in reader.read_lines("x.gz", packed)] == ["one", "two"]


def test_a_cut_gzip_gives_its_whole_lines_and_says_so() -> None:
    content = b"".join(b"line %d of the file\n" % number for number in range(5000))
    packed = gzip.compress(content)
    found = list(reader.read_lines("x.gz", packed[: len(packed) // 2]))
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
    first, *lines, (_, row, problem) = reader.read_lines("x.gz", sound + bytes(packed))
    assert first == ("sound", 1, None)
    assert (row, str(problem)[:20]) == (0, "damaged gzip file (E")
    assert [line for line, _, _ in lines[:24_000]] == content.decode().split("\n")[:24_000]
    assert {doubt for _, _, doubt in lines} <= {problem, "line is not valid UTF-8"} - {None}


def test_a_wrong_checksum_makes_all_lines_of_its_member_doubtful() -> None:
    packed = bytearray(gzip.compress(numbered(3)) + gzip.compress(numbered(6, start=3)))
    packed[-8] ^= 1  # of the checksum of the second member
    found = list(reader.read_lines("x.gz", bytes(packed)))
    problem = "damaged gzip file (Error -3 while decompressing data: incorrect data check)"
    assert found == [
        *((f"line {n} of the file", n + 1, None if n < 3 else problem) for n in range(6)),
        (None, 0, problem),
    ]


@pytest.mark.parametrize("name", ["x.gz", "x.GZ", "x.gzip"])
def test_what_is_no_gzip_is_one_unreadable_line(name: str) -> None:
    [(line, row, problem)] = reader.read_lines(name, b"this is text")
    assert (line, row) == (None, 0)
    assert problem.startswith("damaged gzip file")


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_file_is_reported(content: bytes) -> None:
    assert [found[1:] for found in reader.read_lines("x.jsonl", content)] == [(0, "empty file")]


def test_a_line_in_another_encoding_is_kept_apart() -> None:
    found = list(reader.read_lines("x.jsonl", b"good\n\xff\xfe\ngood\n"))
    assert [problem for _, _, problem in found] == [None, "line is not valid UTF-8", None]


FRAGMENTS = st.sampled_from(
    [
        *(b"\n", b"\n", b" ", b"\t", b"\r", b"\x0b", b"\x1c", b"\0", b"a", b"0123456789" * 3),
        # Valid, valid only together, a separator of lines elsewhere, and half of a surrogate pair.
        *(b"\xc3\xa9", b"\xc3", b"\xa9", b"\xe2\x80\xa8", b"\xed\xa0\x80"),
        b"\xef\xbb\xbf",
    ]
)


@pytest.fixture(scope="module", autouse=True)
def small_chunks() -> Iterator[None]:
    """So that a few lines are several chunks, and some are too long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "ROWS_A_CHUNK", 3)
        patch.setattr(reader, "BYTES_A_CHUNK", 16)
        patch.setattr(reader, "LINE_LIMIT", 40)
        patch.setattr(reader, "SMALL_FILE", 12)
        patch.setattr(packing, "BYTES_UNPACKED", 7)
        yield


@settings(max_examples=400, deadline=None)
@given(
    members=st.lists(st.lists(FRAGMENTS, max_size=30).map(b"".join), min_size=1, max_size=3),
    is_packed=st.booleans(),
    damage=st.sampled_from(["none", "cut", "flipped", "padded"]),
)
def test_columns_have_the_lines_that_rows_have(
    members: list[bytes], is_packed: bool, damage: str
) -> None:
    """Files of one content after another, alone and beside others."""
    content = b"".join(gzip.compress(part, mtime=0) if is_packed else part for part in members)
    if damage == "cut":
        content = content[: len(content) * 2 // 3]
    elif damage == "padded":
        content += b"\0" * 20
    elif damage == "flipped" and content:
        middle = len(content) // 2
        content = content[:middle] + bytes([content[middle] ^ 64]) + content[middle + 1 :]
    name = "t/x.gz" if is_packed else "t/x"
    expected = list(reader.file_rows(name, content, 7))
    assert tuples(reader.file_batches(name, content, 7)) == expected
    files = [("t/a", b"one\n", 1), (name, content, 7), ("t/b", b"two\n", 2), ("t/c", b"x\n" * 9, 3)]
    every = [row for file in files for row in reader.file_rows(*file)]
    assert tuples(reader.files_batches(files)) == every


def tuples(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    rows = []
    for batch in batches:
        assert batch.schema == reader.ARROW_LINES
        assert batch.num_rows <= 2 * reader.ROWS_A_CHUNK
        rows += [tuple(row.values()) for row in batch.to_pylist()]
    return rows


def test_a_line_that_no_row_can_hold_is_reported() -> None:
    content = b"short\n" + b"x" * 41 + b"\nshort\n"
    found = [row[1:5] for row in tuples(reader.file_batches("t/x", content, 7))]
    assert found == [
        ("short", "t/x", 1, None),
        (None, "t/x", 2, "line is longer than 40 bytes"),
        ("short", "t/x", 3, None),
    ]


def test_zeros_behind_a_member_are_no_damage() -> None:
    packed = gzip.compress(b"a\n") + gzip.compress(b"b") + b"\0" * 512
    assert list(reader.read_lines("x.gz", packed)) == [("a", 1, None), ("b", 2, None)]
    [*_, last] = reader.read_lines("x.gz", packed + b"x")
    assert last[1] == 0 and last[2] and "damaged" in last[2]


def test_small_files_come_in_one_chunk() -> None:
    files = [(f"t/{number}", b"line\n", 7) for number in range(8)]
    assert [batch.num_rows for batch in reader.files_batches(files)] == [3, 3, 2]
