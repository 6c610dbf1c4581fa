"""Landed files lose lines, and nothing else of them changes."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import os
from pathlib import Path

import pytest
from dbt.adapters.sparkcdc.erasure import landed_files
from dbt.adapters.sparkcdc.erasure.landed_files import DamagedFile, plan, take_place, without_lines

from dbt_spark_cdc.landing.folder import LocalFolder
from dbt_spark_cdc.landing.lines import read_lines

MINUTE = 1_234_567_890_123_456_789


def hashes(*lines: str) -> set[str]:
    return {hashlib.sha256(line.encode()).hexdigest() for line in lines}


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_the_other_lines_keep_their_numbers(name: str) -> None:
    content = b"a\r\n\nann\n\xff\nann\nb"
    content = gzip.compress(content[:9]) + gzip.compress(content[9:]) if "gz" in name else content
    before = {row: line for line, row, _ in read_lines(name, content)}
    count, left = without_lines(name, content, hashes("ann", "somebody"))
    after = {row: line for line, row, _ in read_lines(name, left)}
    assert count == 2
    assert after == {row: line for row, line in before.items() if line != "ann"}
    assert without_lines(name, content, hashes("bob")) == (0, content)
    # A line is the whole line, with the carriage return.
    assert without_lines(name, content, hashes("a"))[0] == 0
    assert without_lines(name, content, hashes("a\r", "ann"))[0] == 3


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_a_first_line_is_found_behind_a_byte_order_mark(name: str) -> None:
    def packed(content: bytes) -> bytes:
        return gzip.compress(content, mtime=0) if name.endswith(".gz") else content

    content = packed(b"\xef\xbb\xbfann\nbob\n")
    assert without_lines(name, content, hashes("ann")) == (1, packed(b"\nbob\n"))
    # So a former version landed it.
    assert without_lines(name, content, hashes("\ufeffann")) == (1, packed(b"\nbob\n"))
    assert without_lines(name, content, hashes("bob")) == (1, packed(b"\xef\xbb\xbfann\n\n"))
    assert without_lines(name, content, hashes("ann", "bob")) == (2, b"")
    assert without_lines(name, packed(b"\xef\xbb\xbf\nann\n"), hashes("ann")) == (1, b"")


def test_a_file_that_nobody_can_search_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    file = tmp_path / "t" / "x.jsonl.bz2"
    file.write_bytes(bz2.compress(b"ann\n"))
    (tmp_path / "t" / "_hidden.bz2").write_bytes(b"")
    files, problems = plan(tmp_path, {"t": hashes("ann")})
    assert files == [] and len(problems) == 1
    assert str(file) in problems[0] and "`.bz2`" in problems[0] and "gzip" in problems[0]
    # Nor where what has been landed has no line of the person.
    assert plan(tmp_path, {"t": ()}) == (files, problems)
    # Other tables of the folder have nothing to do with the person.
    assert plan(tmp_path, {"u": hashes("ann")}) == ([], [])


def test_a_file_of_gzip_stays_one_whatever_its_name_is(tmp_path: Path) -> None:
    count, left = without_lines("x.jsonl", gzip.compress(b"ann\nbob\n"), hashes("ann"))
    assert (count, gzip.decompress(left)) == (1, b"\nbob\n")


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_nothing_is_left_of_a_file_without_other_lines(name: str) -> None:
    content = b"\nann\n \n"
    packed = gzip.compress(content) if "gz" in name else content
    assert without_lines(name, packed, hashes("ann")) == (1, b"")


def test_a_damaged_file_is_left_alone(tmp_path: Path) -> None:
    cut = gzip.compress(b"ann\nbob\n")[:-8]
    with pytest.raises(DamagedFile, match="gzip file is cut off"):
        without_lines("x.gz", cut, hashes("ann"))
    assert without_lines("x.gz", cut, hashes("carl")) == (0, cut)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "x.gz").write_bytes(cut)
    (tmp_path / "t" / "y.gz").write_bytes(b"no gzip")
    files, problems = plan(tmp_path, {"t": hashes("ann")})
    assert files == [] and len(problems) == 1 and str(tmp_path / "t" / "x.gz") in problems[0]


def test_a_line_is_one_of_its_table(tmp_path: Path) -> None:
    for table in ("people", "visits"):
        (tmp_path / table).mkdir()
        (tmp_path / table / "a").write_text("ann\nbob\n")
    (tmp_path / "people" / "_hidden").write_text("ann\n")
    files, problems = plan(tmp_path, {"people": hashes("ann")})
    assert [(file.file.parent.name, file.file.name, file.lines) for file in files] == [
        ("people", "a", 1)
    ]
    assert problems == []
    [file] = files
    assert file.before == hashlib.sha256(b"ann\nbob\n").hexdigest()
    assert (file.checksum, file.size) == (hashlib.sha256(b"\nbob\n").hexdigest(), 5)


def test_the_content_is_written_beside_and_takes_the_place(tmp_path: Path) -> None:
    table = tmp_path / "people"
    table.mkdir()
    for name, text in (("a", "ann\nbob\n"), ("only", "ann\n"), ("other", "carl\n")):
        (table / name).write_text(text)
        (table / name).chmod(0o640)
        os.utime(table / name, ns=(MINUTE, MINUTE))
    (table / ".a.cdc_writing").write_text("half")
    wanted = {"people": hashes("ann")}
    files, _ = plan(tmp_path, wanted)
    for file in files:
        landed_files.write_beside(file.file, wanted["people"])
    # Until then the files are what they were, and landing leaves them alone.
    assert (table / "a").read_text() == "ann\nbob\n"
    assert [file.name for file in LocalFolder(None, tmp_path).files()] == ["people/other"]
    # An erasure that died is known by what it wrote; another one goes on from there.
    again, _ = plan(tmp_path, {})
    assert [(f.file, f.before, f.checksum, f.size) for f in again] == [
        (f.file, f.before, f.checksum, f.size) for f in files
    ]
    more, _ = plan(tmp_path, {"people": hashes("bob")})
    assert [(file.file.name, file.lines, file.size) for file in more] == [
        ("a", 1, 0),
        ("only", 0, 0),
    ]
    assert take_place(tmp_path) == 1
    assert sorted(path.name for path in table.iterdir()) == ["a", "other"]
    stat = (table / "a").stat()
    assert (table / "a").read_text() == "\nbob\n"
    assert (stat.st_mtime_ns, stat.st_mode & 0o777) == (MINUTE, 0o640)
    # One that died between the file and what stood beside it.
    (table / f".gone{landed_files.BESIDE}").write_text("bob\n")
    assert take_place(tmp_path) == 0
    assert sorted(path.name for path in table.iterdir()) == ["a", "other"]
