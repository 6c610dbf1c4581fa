"""What gzip has packed, unpacked as far as it can be read."""

from __future__ import annotations

import zlib
from typing import Any

GZIP_BEGINS = b"\x1f\x8b"
BYTES_UNPACKED = 64 * 1024


def is_packed(name: str, content: bytes) -> bool:
    """Returns whether a file is one of gzip: by its name, or as no text begins.

    Args:
        name: File name; `.gz` and `.gzip` mark gzip, damaged files included.
        content: The file's bytes.
    """
    return name.lower().endswith((".gz", ".gzip")) or content.startswith(GZIP_BEGINS)


def decompress(name: str, content: bytes) -> tuple[bytes, int, str | None]:
    """Unpacks a file as far as it can be read.

    Args:
        name: File name, see `is_packed`.
        content: The file's bytes.

    Returns:
        The readable bytes, how many of them are certain, and what is wrong with the file.
    """
    if not is_packed(name, content):
        return content, len(content), None
    unpacked, view, at = bytearray(), memoryview(content), 0
    while at < len(view):  # a gzip file may hold several members
        if at and not view[at] and not content[at:].strip(b"\0"):
            break  # filled up to the size of a block
        begin = len(unpacked)
        member = zlib.decompressobj(wbits=31)
        for start in range(at, len(view), BYTES_UNPACKED):
            chunk = view[start : start + BYTES_UNPACKED]
            before = member.copy()
            try:
                unpacked += member.decompress(chunk)
            except zlib.error as error:
                _decompress_bytewise(before, chunk, unpacked)
                # Damage is noticed late, often by the checksum alone: nothing shows where it began.
                return bytes(unpacked), begin, f"damaged gzip file ({error})"
            if member.eof:
                at = start + len(chunk) - len(member.unused_data)
                break
        else:
            return bytes(unpacked), len(unpacked), "gzip file is cut off"
    return bytes(unpacked), len(unpacked), None


def _decompress_bytewise(member: Any, chunk: memoryview, unpacked: bytearray) -> None:
    """Takes what a chunk holds before its damage."""
    for at in range(len(chunk)):
        try:
            unpacked += member.decompress(chunk[at : at + 1])
        except zlib.error:
            return
