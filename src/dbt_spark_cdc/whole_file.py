"""Files that a reader finds whole, the old one or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str, *, durable: bool = False) -> None:
    """Writes a file beside its place and then moves it there.

    Args:
        path: The file; its folder is made where it is missing.
        text: What it holds.
        durable: Whether the file has to survive a power failure from the moment of the return.

    Raises:
        OSError: It cannot be written. What stood there before still does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Collectors take files by their suffix: they must not take the part.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        if durable:
            sync(partial)
        os.replace(partial, path)
        if durable:
            sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Waits until a file's content, or the names in a folder, are on the disk.

    Args:
        path: The file or folder.

    Raises:
        OSError: The disk did not take them.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
