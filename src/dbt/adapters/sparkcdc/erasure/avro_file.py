"""Files of Avro, as far as a search for bytes needs them: their blocks, decompressed."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Iterator
from typing import cast

import pyarrow as pa

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
CHECKSUM_BYTES = 4
# Snappy makes nothing smaller than by a factor of about 21.
MOST_SNAPPED = 32


def blocks(content: bytes) -> Iterator[bytes]:
    """Yields the blocks of a file, decompressed.

    Args:
        content: The bytes of the file.

    Raises:
        ValueError: The file is damaged, or compressed in a way that is not known.
    """
    try:
        at = len(MAGIC)
        codec = b"null"
        count, at = _long(content, at)
        while count:
            if count < 0:  # the size of the block follows
                _, at = _long(content, at)
            for _ in range(abs(count)):
                name, at = _bytes(content, at)
                value, at = _bytes(content, at)
                codec = value if name == b"avro.codec" else codec
            count, at = _long(content, at)
        at += SYNC_BYTES
        while at < len(content):
            _, at = _long(content, at)
            block, at = _bytes(content, at)
            at += SYNC_BYTES
            yield _decompressed(block, codec.decode("latin-1"))
    except (IndexError, OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowInvalid) as exc:
        raise ValueError(f"damaged Avro file: {exc}") from exc


def _long(content: bytes, at: int) -> tuple[int, int]:
    """A number of Avro, and where what follows it begins."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _bytes(content: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(content, at)
    if size < 0 or at + size > len(content):
        raise IndexError("it is cut off")
    return content[at : at + size], at + size


def _decompressed(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec == "deflate":
        return zlib.decompress(block, wbits=-15)
    if codec == "bzip2":
        return bz2.decompress(block)
    if codec == "xz":
        return lzma.decompress(block)
    if codec == "snappy":
        return _unsnapped(block[:-CHECKSUM_BYTES])
    if codec == "zstandard":
        with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
            return cast(bytes, stream.read())
    raise ValueError(f"Avro file with the codec {codec}, which cannot be searched")


def _unsnapped(block: bytes) -> bytes:
    """Snappy's raw format begins with the size of what it holds."""
    size = shift = 0
    for byte in block:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MOST_SNAPPED * len(block):  # a damaged size must not take all memory
        raise ValueError("damaged Avro file: a block has a wrong size")
    return cast(bytes, pa.Codec("snappy").decompress(block, size, asbytes=True))
