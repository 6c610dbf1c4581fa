"""Java's class-data-sharing archive: Spark's classes parsed once, so that each start is shorter.

The first build on a machine records the classes that it used; all later starts map them.
An archive holds the paths of its jars. So that every virtual environment can use the same one,
Spark is started by way of a link in the cache, not by the environment's own path.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from dbt.adapters.sparkcdc.jvm.jars import cache_folder
from dbt.adapters.sparkcdc.jvm.java import Java


def spark_home() -> Path:
    """Returns a path to Spark that is the same for all environments that hold the same files.

    Where the cache or the system has no room for a link, it is Spark's own path.
    """
    import pyspark

    own = Path(pyspark.__file__).parent
    # Java compares the jars' times with those that it recorded.
    time = int(max((jar.stat().st_mtime for jar in own.glob("jars/spark-core_*.jar")), default=0))
    link = cache_folder() / "spark" / f"{version('pyspark')}-{time}"
    if link.is_dir():
        return link
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    try:
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.symlink_to(own, target_is_directory=True)
        fresh.replace(link)  # the environment that it led to may be gone
    except OSError:
        return own
    return link


def archive_file(java: Java, spark: Path, jars: Iterable[Path]) -> Path:
    """Returns where the archive of this Java, Spark and class path is kept, made or not.

    Args:
        java: The Java that runs Spark.
        spark: Where Spark lies.
        jars: The jars beside Spark's own.
    """
    parts = [str(java.home), java.version, str(spark), *map(str, jars)]
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


def record(archive: Path) -> list[str]:
    """Returns the JVM options that write an archive when the JVM ends.

    Args:
        archive: The archive; where it is there already, or cannot be written, nothing is recorded.
    """
    if archive.is_file():
        return []
    try:
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return []
    if not os.access(archive.parent, os.W_OK):
        return []
    return [f'-XX:ArchiveClassesAtExit="{_recorded(archive)}"']


def keep(archive: Path) -> None:
    """Puts what this process's JVM recorded in place, once the JVM has ended.

    Args:
        archive: The archive; without a recording, nothing happens.
    """
    with contextlib.suppress(OSError):
        _recorded(archive).replace(archive)


def _recorded(archive: Path) -> Path:
    return archive.with_name(f"{archive.stem}.{os.getpid()}.recorded")
