"""Files and folders that may hold values of tables: for the user who runs dbt alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

FOLDER = 0o700
FILE = 0o600


def opener(path: str, flags: int) -> int:
    """Opens a file for `open`; a new one can be read by its owner alone.

    Args:
        path: The file.
        flags: How to open it.
    """
    return os.open(path, flags, FILE)


def local_folder(parameters: Mapping[str, str]) -> Path | None:
    """Makes the folder that Spark spills to: its own choice could be read by every local user.

    Args:
        parameters: The profile's Spark settings.

    Returns:
        A folder to remove in the end; None where profile or environment name another one.
    """
    if "spark.local.dir" in parameters or os.environ.get("SPARK_LOCAL_DIRS"):
        return None
    return Path(tempfile.mkdtemp(prefix="dbt-spark-cdc-"))
