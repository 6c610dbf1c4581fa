"""Java's class-data-sharing archive: Spark's classes parsed once, so that each start is shorter."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from dbt.adapters.sparkcdc.jars import cache_folder
from dbt.adapters.sparkcdc.java import Java


def archive_file(java: Java, jars: Iterable[Path]) -> Path:
    """Returns where the archive of this Java, Spark and class path is kept, made or not.

    Args:
        java: The Java that runs Spark.
        jars: The jars beside Spark's own.
    """
    import pyspark

    parts = [str(java.home), java.version, version("pyspark"), pyspark.__file__, *map(str, jars)]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]
    return cache_folder() / "classes" / f"java{java.version}-spark{version('pyspark')}-{key}.jsa"


def use(archive: Path) -> list[str]:
    """Returns the JVM options that start with an archive, and without it where it has aged.

    Args:
        archive: The archive; there need be none.
    """
    if not archive.is_file():
        return []
    return [f'-XX:SharedArchiveFile="{archive}"', "-Xshare:auto"]


def make(archive: Path) -> list[str]:
    """Returns the JVM options that write an archive when the JVM ends.

    Args:
        archive: File to write.
    """
    return [f'-XX:ArchiveClassesAtExit="{archive}"']
