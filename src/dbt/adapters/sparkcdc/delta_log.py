"""The newest commits of a Delta table, read from its log: `describe history` starts a Spark job."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

COMMIT = re.compile(r"(\d{20})\.json")
# Folders of commits that a catalog holds before they are written into the log itself.
STAGED = frozenset(["_commits", "_staged_commits"])


def local_folder(location: str) -> Path | None:
    """Returns the folder that a table's URI names, or None if it is on no disk of this machine.

    Args:
        location: A URI, such as `file:/data/table`.
    """
    parts = urlsplit(location)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return Path(url2pathname(parts.path))


def newest_commits(folder: Path, limit: int) -> list[dict[str, Any]] | None:
    """Returns the newest commits, the last one first, with the columns of `describe history`.

    A commit has `version`, `operation`, `userMetadata` and, as `id`, what tells it from every other
    commit, those of a table that had the same name before included; None where it does not say.

    Args:
        folder: The table's folder.
        limit: How many at most.

    Returns:
        None where Spark must be asked: there is no such log, or it is not all there is.
    """
    try:
        log = folder / "_delta_log"
        names = [path.name for path in log.iterdir()]
        if any(staged in names and any((log / staged).iterdir()) for staged in STAGED):
            return None
        versions = sorted((int(m[1]) for m in map(COMMIT.fullmatch, names) if m), reverse=True)
        newest = versions[:limit]
        if not newest or newest != list(range(newest[0], newest[0] - len(newest), -1)):
            return None
        return [_commit(folder, version) for version in newest]
    except (OSError, ValueError):
        return None


def table_bytes(folder: Path, version: int) -> int | None:
    """Returns the size of a table's files at a version, or None where its checksum does not tell.

    Args:
        folder: The table's folder.
        version: A version that Delta has written.
    """
    try:
        text = (folder / "_delta_log" / f"{version:020}.crc").read_text(encoding="utf-8")
        size = json.loads(text)["tableSizeBytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return size if isinstance(size, int) else None


def _commit(folder: Path, version: int) -> dict[str, Any]:
    info: dict[str, Any] = {}
    with (folder / "_delta_log" / f"{version:020}.json").open(encoding="utf-8") as lines:
        for line in lines:
            # It is the first line of most commits; others can have many thousands.
            if line.startswith('{"commitInfo"'):
                info = json.loads(line)["commitInfo"]
                break
    told = info.get("txnId") or info.get("timestamp")
    return {
        "version": version,
        "operation": info.get("operation"),
        "userMetadata": info.get("userMetadata"),
        "id": told and f"{version} {told}",
    }
