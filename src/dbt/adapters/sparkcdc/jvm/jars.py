"""Jars that Spark needs beside its own, in a cache folder, so that no start asks the network."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from dbt.adapters.sparkcdc import private
from dbt_common.exceptions import DbtRuntimeError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

# Artifacts that Spark ships under another name.
SPARKS_NAMES = {"commons-logging": "jcl-over-slf4j"}

# Marks what is left out, in a list of coordinates.
WITHOUT = "without "

Resolve = Callable[[str], list[Path]]


def cache_folder() -> Path:
    """Returns the folder that jars and class archives are kept in."""
    if own := os.environ.get("DBT_SPARK_CDC_CACHE"):
        return Path(own).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "dbt-spark-cdc"


def packages(parameters: Mapping[str, str]) -> list[str]:
    """Returns the Maven coordinates to put on the class path: Delta's and the profile's own.

    The last one names what is left out, where the profile leaves out anything.

    Args:
        parameters: The profile's Spark settings; `spark.jars.packages` and `spark.jars.excludes`
            are read.
    """
    asked = parameters.get("spark.jars.packages", "").split(",")
    wanted = [package.strip() for package in asked if package.strip()]
    if not any(package.startswith("io.delta:delta-spark") for package in wanted):
        spark = ".".join(version("pyspark").split(".")[:2])
        wanted.insert(0, f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}")
    # Other jars are fetched then: they have a place of their own in the cache.
    excluded = parameters.get("spark.jars.excludes", "").replace(" ", "")
    return [*wanted, f"{WITHOUT}{excluded}"] if excluded else wanted


def cached_jars(wanted: list[str]) -> list[Path]:
    """Returns the cached jars of these packages, or nothing where they were never fetched.

    Args:
        wanted: Maven coordinates.
    """
    return sorted(_home(wanted).glob("*.jar"))


def fetch_jars(wanted: list[str], resolve: Resolve) -> list[Path]:
    """Fills the cache: whole or not at all, however many processes try at once.

    They take turns, since Ivy, with which Spark downloads, fails where two processes download the
    same file.

    Args:
        wanted: Maven coordinates.
        resolve: Turns comma-separated coordinates into jar files.

    Returns:
        The cached jars.

    Raises:
        DbtRuntimeError: Nothing could be resolved.
    """
    home = _home(wanted)
    # Jars are code that later runs: nobody else may put one there.
    home.parent.mkdir(mode=private.FOLDER, parents=True, exist_ok=True)
    with _taking_turns():
        if found := cached_jars(wanted):
            return found
        coordinates = ",".join(name for name in wanted if not name.startswith(WITHOUT))
        found = [jar for jar in resolve(coordinates) if not _spark_has_it(jar)]
        if not found:
            raise DbtRuntimeError(
                f"No jars were found for {', '.join(wanted)}. {how_to_get(wanted)}"
            )
        fresh = Path(tempfile.mkdtemp(dir=home.parent, prefix=f".{home.name}-"))
        try:
            for jar in found:
                shutil.copyfile(jar, fresh / jar.name)
            fresh.rename(home)
        except OSError:
            # A process on another machine was quicker; a rename onto its full folder fails.
            if not cached_jars(wanted):
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return cached_jars(wanted)


@contextlib.contextmanager
def _taking_turns() -> Iterator[None]:
    """Waits until no other process of this user fetches jars, and keeps the others waiting."""
    with open(cache_folder() / "jars.lock", "a", opener=private.opener) as lock:
        # Not every file system in a network has locks.
        with contextlib.suppress(OSError):
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def how_to_get(wanted: list[str]) -> str:
    """Returns what to do when jars are neither cached nor to be had.

    Args:
        wanted: Maven coordinates.
    """
    return (
        "Spark fetches them once from Maven Central: connect to the network and run "
        "`python -m dbt.adapters.sparkcdc.prepare`; behind a mirror, name it in the profile's "
        "server_side_parameters as spark.jars.repositories or spark.jars.ivySettings; or copy "
        f"{_home(wanted)} from a machine that has it."
    )


def _home(wanted: list[str]) -> Path:
    key = hashlib.sha256("\n".join([version("pyspark"), *sorted(wanted)]).encode()).hexdigest()
    artifact = wanted[0].split(":")[1]
    return cache_folder() / "jars" / f"{artifact}-{wanted[0].split(':')[2]}-{key[:10]}"


def _spark_has_it(jar: Path) -> bool:
    """Whether Spark ships this artifact: ahead of it on the class path an older one would win."""
    import pyspark

    # Ivy names files org_artifact-version.jar; Spark's have no org.
    artifact = jar.name.partition("_")[2].rpartition("-")[0]
    artifact = SPARKS_NAMES.get(artifact, artifact)
    shipped = Path(pyspark.__file__).parent / "jars"
    return any(shipped.glob(f"{artifact}-[0-9]*.jar"))
