"""Files that a reader finds whole, the old one or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Writes a file beside its place and then moves it there.

    Args:
        path: The file; its folder is made where it is missing.
        text: What it holds.

    Raises:
        OSError: It cannot be written. What stood there before still does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Collectors take files by their suffix: they must not take the part.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
