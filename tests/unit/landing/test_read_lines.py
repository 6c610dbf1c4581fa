"""Change files as they really arrive: whole, cut off, damaged, empty, in a wrong encoding."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).resolve().parents[3] / "python_models" / "landing.py"
LINES = b'{"a": 1}\n{"a": "\xc3\xa9\xe2\x80\xa8"}\n'


@pytest.fixture(scope="module")
def landing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("landing", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_lines_keep_their_number(landing: ModuleType, name: str) -> None:
    content = LINES + b"\n" + b'{"a": 3}'
    packed = gzip.compress(content) if name.endswith(".gz") else content
    # U+2028 ends no line, an empty line is none.
    assert list(landing.read_lines(name, packed)) == [
        ('{"a": 1}', 1, None),
        ('{"a": "é\u2028"}', 2, None),
        ('{"a": 3}', 4, None),
    ]


def test_gzip_of_several_members(landing: ModuleType) -> None:
    packed = gzip.compress(b"one\n") + gzip.compress(b"two\n")
    assert [line for line, _, _ in landing.read_lines("x.gz", packed)] == ["one", "two"]


def test_a_cut_gzip_gives_its_whole_lines_and_says_so(landing: ModuleType) -> None:
    content = b"".join(b"line %d of the file\n" % number for number in range(5000))
    packed = gzip.compress(content)
    found = list(landing.read_lines("x.gz", packed[: len(packed) // 2]))
    *lines, last = found
    assert 100 < len(lines) < 5000
    assert all(problem is None for _, _, problem in lines)
    assert [line for line, _, _ in lines] == content.decode().split("\n")[: len(lines)]
    assert last[1:] == (0, "gzip file is cut off")


def test_what_is_no_gzip_is_one_unreadable_line(landing: ModuleType) -> None:
    [(line, row, problem)] = landing.read_lines("x.gz", b"this is text")
    assert (line, row) == (None, 0)
    assert problem.startswith("damaged gzip file")


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_file_is_reported(landing: ModuleType, content: bytes) -> None:
    assert [found[1:] for found in landing.read_lines("x.jsonl", content)] == [(0, "empty file")]


def test_a_line_in_another_encoding_is_kept_apart(landing: ModuleType) -> None:
    found = list(landing.read_lines("x.jsonl", b"good\n\xff\xfe\ngood\n"))
    assert [problem for _, _, problem in found] == [None, "line is not valid UTF-8", None]
