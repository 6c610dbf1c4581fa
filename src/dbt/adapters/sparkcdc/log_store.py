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

OPTION = "spark.delta.logStore.s3a.impl"
CLASS = "dbtsparkcdc.S3ConditionalLogStore"
SOURCE = Path(__file__).with_name("S3ConditionalLogStore.java")


def is_wanted(warehouse: str, parameters: Mapping[str, str]) -> bool:
    """Returns whether tables can be in S3, and the profile names no log store of its own.

    Args:
        warehouse: Folder of the tables, or its address.
        parameters: The profile's Spark settings.
    """
    if OPTION in parameters:
        return False
    return (
        warehouse.startswith("s3a://")
        or "hadoop-aws" in parameters.get("spark.jars.packages", "")
        or any(key.startswith("spark.hadoop.fs.s3a.") for key in parameters)
    )


def compiled(path: Sequence[Path], start: Callable[[], tuple[Any, Callable[[], None]]]) -> Path:
    """Returns the jar of the log store, which is compiled once and then in the cache.

    Args:
        path: The jars beside Spark's own; Delta's are among them.
        start: Starts a JVM with Spark's classes, and returns py4j's gateway to it and what ends it.

    Raises:
        DbtRuntimeError: It cannot be compiled.
    """
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
            f"`{OPTION}: io.delta.storage.S3SingleDriverLogStore`."
        ) from exc
