"""The log store that lets several drivers commit to Delta tables in S3, compiled where needed."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc import jars
from dbt_common.exceptions import DbtRuntimeError

# Of the scheme that Spark reaches S3 by, and of one that a profile can have it take as well.
OPTIONS = ("spark.delta.logStore.s3a.impl", "spark.delta.logStore.s3.impl")
CLASS = "dbtsparkcdc.S3ConditionalLogStore"
SOURCE = Path(__file__).with_name("S3ConditionalLogStore.java")


def is_wanted(warehouse: str, parameters: Mapping[str, str]) -> bool:
    """Returns whether tables can be in S3, and the profile names no log store of its own.

    Args:
        warehouse: Folder of the tables, or its address.
        parameters: The profile's Spark settings.
    """
    # Delta refuses to start with one for all schemes beside one for a scheme.
    if any(key in OPTIONS or key.endswith("delta.logStore.class") for key in parameters):
        return False
    return warehouse.startswith("s3a:") or any(
        ".fs.s3" in key or "hadoop-aws" in value or "s3a://" in value
        for key, value in parameters.items()
    )


def compiled(path: Sequence[Path], start: Callable[[], tuple[Any, Callable[[], None]]]) -> Path:
    """Returns the jar of the log store, which is compiled once and then in the cache.

    Args:
        path: The jars beside Spark's own; Delta's are among them.
        start: Starts a JVM with Spark's classes, and returns py4j's gateway to it and what ends it.

    Raises:
        DbtRuntimeError: It cannot be compiled, or the cache not be written.
    """
    try:
        return _compiled(path, start)
    except OSError as exc:
        raise DbtRuntimeError(
            f"{exc.filename} cannot be written, and the log store for S3 has to be compiled: "
            f"{exc.strerror}. Let this user write the cache, or run `python -m "
            "dbt.adapters.sparkcdc.prepare` with the packages of the profile where it can be."
        ) from exc


def _compiled(path: Sequence[Path], start: Callable[[], tuple[Any, Callable[[], None]]]) -> Path:
    import pyspark

    base = [*(Path(pyspark.__file__).parent / "jars").glob("*.jar"), *path]
    names = sorted(jar.name for jar in base if jar.name.startswith(("hadoop-", "io.delta")))
    key = hashlib.sha256(SOURCE.read_bytes() + "\n".join(names).encode()).hexdigest()[:10]
    jar = jars.cache_folder() / "jars" / f"log-store-{key}" / "dbt-spark-cdc-log-store.jar"
    if jar.exists():
        return jar
    jar.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=jar.parent))
    try:
        gateway, end = start()
        try:
            _compile(gateway, base, fresh)
        finally:
            end()
        archive = fresh / jar.name
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
            for file in sorted(fresh.rglob("*.class")):
                out.write(file, file.relative_to(fresh))
        archive.replace(jar)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return jar


def _compile(gateway: Any, path: Sequence[Path], target: Path) -> None:
    from py4j.protocol import Py4JError

    file = gateway.jvm.java.io.File

    def files(paths: Sequence[Path]) -> Any:
        array = gateway.new_array(file, len(paths))
        for place, one in enumerate(paths):
            array[place] = file(str(one))
        return array

    try:
        compiler = gateway.jvm.org.codehaus.janino.Compiler()
        compiler.setDestinationDirectory(file(str(target)), False)
        compiler.setClassPath(files(path))
        compiler.compile(files([SOURCE]))
    except Py4JError as exc:
        raise DbtRuntimeError(
            f"The log store for S3, {SOURCE.name}, cannot be compiled: {exc}\nDelta's own is safe "
            f"where one process commits: name it in the profile's `server_side_parameters`, "
            f"`{OPTIONS[0]}: io.delta.storage.S3SingleDriverLogStore`."
        ) from exc
