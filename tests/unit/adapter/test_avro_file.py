"""Blocks of Avro files, in every way that they are compressed."""

from __future__ import annotations

import bz2
import lzma
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from dbt.adapters.sparkcdc.erasure.avro_file import MAGIC, blocks
from dbt.adapters.sparkcdc.erasure.table_files import holds_text, spellings

TEXT = b"ann@example.com " * 40


def number(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def zstd(block: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(block, asbytes=True))


def raw_deflate(block: bytes) -> bytes:
    packed = zlib.compressobj(wbits=-15)
    return packed.compress(block) + packed.flush()


def snappy(block: bytes) -> bytes:
    return bytes(pa.Codec("snappy").compress(block, asbytes=True)) + zlib.crc32(block).to_bytes(
        4, "big"
    )


PACKED = {
    "null": bytes,
    "deflate": raw_deflate,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": zstd,
    "snappy": snappy,
}


def written(codec: str, *contents: bytes, packed: bool = True) -> bytes:
    sync = bytes(range(16))
    # A map may be in several parts; a part of which the size is given has a negative count.
    name = text(b"avro.codec") + text(codec.encode())
    schema = text(b"avro.schema") + text(b'"string"')
    head = MAGIC + number(-1) + number(len(schema)) + schema + number(1) + name + number(0) + sync
    parts = [PACKED[codec](content) if packed else content for content in contents]
    return head + b"".join(number(1) + text(part) + sync for part in parts)


@pytest.mark.parametrize("codec", PACKED)
def test_every_codec(codec: str, tmp_path: Path) -> None:
    content = written(codec, b"first" * 9, TEXT)
    assert list(blocks(content)) == [b"first" * 9, TEXT]
    file = tmp_path / "m0.avro"
    file.write_bytes(content)
    assert holds_text(file, spellings(["ann@example.com ann"]))
    assert not holds_text(file, spellings(["bob@example.com"]))


@pytest.mark.parametrize("codec", sorted(PACKED.keys() - {"null"}))
def test_what_is_damaged_may_hold_anything(codec: str, tmp_path: Path) -> None:
    damaged = written(codec, b"\xff" * 60, packed=False)
    with pytest.raises(ValueError, match="damaged Avro file"):
        list(blocks(damaged))
    file = tmp_path / "m0.avro"
    file.write_bytes(damaged)
    assert holds_text(file, [b"anything"])


def test_what_is_cut_off_or_unknown() -> None:
    with pytest.raises(ValueError, match="cut off"):
        list(blocks(written("null", TEXT)[:-60]))
    with pytest.raises(ValueError, match="damaged"):
        list(blocks(MAGIC))
    other = written("null", TEXT).replace(text(b"null"), text(b"lzo4"))
    with pytest.raises(ValueError, match="codec lzo4"):
        list(blocks(other))
