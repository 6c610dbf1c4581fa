"""How Spark reaches the files of tables: classes for Hadoop and Delta, compiled where needed.

Delta and Hadoop load them by name, so they are in Java. No binary is shipped: Janino, which Spark
compiles its queries with, makes a jar of them once, and the cache keeps it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc.jvm import jars
from dbt_common.exceptions import DbtRuntimeError

LOCAL_LOG_STORE = "spark.delta.logStore.file.impl"
LOCAL_FILES = "spark.hadoop.fs.file.impl"
LOCAL_CONTEXT = "spark.hadoop.fs.AbstractFileSystem.file.impl"
# Of the scheme that Spark reaches S3 by, and of one that a profile can have it take as well.
S3_LOG_STORES = ("spark.delta.logStore.s3a.impl", "spark.delta.logStore.s3.impl")
S3_CONNECTOR = "spark.hadoop.fs.s3.impl"
SETTINGS = {
    LOCAL_LOG_STORE: "dbtsparkcdc.LocalLogStore",
    LOCAL_FILES: "dbtsparkcdc.LocalFiles",
    LOCAL_CONTEXT: "dbtsparkcdc.LocalContext",
    **dict.fromkeys(S3_LOG_STORES, "dbtsparkcdc.S3ConditionalLogStore"),
}
# What Delta and Hadoop take otherwise.
DEFAULTS = {
    LOCAL_LOG_STORE: "io.delta.storage.HDFSLogStore",
    LOCAL_FILES: "org.apache.hadoop.fs.LocalFileSystem",
    LOCAL_CONTEXT: "org.apache.hadoop.fs.local.LocalFs",
    **dict.fromkeys(S3_LOG_STORES, "io.delta.storage.S3SingleDriverLogStore"),
}


def settings(warehouse: str, parameters: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that have Spark use these classes, but for those that are given.

    Args:
        warehouse: Folder of the tables, or its address.
        parameters: Spark's settings so far, those of the profile among them.
    """
    wanted: list[str] = []
    if parameters.get("spark.master", "local").startswith("local"):
        # Executors of a cluster would need the classes as well.
        wanted.append(LOCAL_LOG_STORE)
        # Another Hive has its own classes of Hadoop, and would not find these.
        if parameters.get("spark.sql.hive.metastore.jars", "builtin") == "builtin":
            wanted += [LOCAL_FILES, LOCAL_CONTEXT]
    # Who names one of S3's has chosen for both.
    if _is_in_s3(warehouse, parameters) and not parameters.keys() & {*S3_LOG_STORES}:
        # Another connector for the other scheme need not know conditional writes.
        is_s3a = "s3a" in parameters.get(S3_CONNECTOR, "s3a")
        wanted += S3_LOG_STORES if is_s3a else S3_LOG_STORES[:1]
    if any(name.endswith("delta.logStore.class") for name in parameters):
        # Delta refuses to start with one for all schemes beside one for a scheme.
        wanted = [name for name in wanted if "logStore" not in name]
    return {name: SETTINGS[name] for name in wanted if name not in parameters}


def _is_in_s3(warehouse: str, parameters: Mapping[str, str]) -> bool:
    return warehouse.startswith("s3a:") or any(
        ".fs.s3" in name or "hadoop-aws" in value or "s3a://" in value
        for name, value in parameters.items()
        if name != S3_CONNECTOR or "s3a" in value
    )


def compiled(path: Sequence[Path], start: Callable[[], tuple[Any, Callable[[], None]]]) -> Path:
    """Returns the jar of the classes, which are compiled once and then in the cache.

    Args:
        path: The jars beside Spark's own; Delta's are among them.
        start: Starts a JVM with Spark's classes, and returns py4j's gateway to it and what ends it.

    Raises:
        DbtRuntimeError: They cannot be compiled, or the cache not be written.
    """
    try:
        return _compiled(path, start)
    except OSError as exc:
        raise DbtRuntimeError(
            f"{exc.filename} cannot be written, and the adapter's classes for Spark have to be "
            f"compiled: {exc.strerror}. Let this user write the cache, or run `python -m "
            "dbt.adapters.sparkcdc.prepare` with the packages of the profile where it can be."
        ) from exc


def _compiled(path: Sequence[Path], start: Callable[[], tuple[Any, Callable[[], None]]]) -> Path:
    import pyspark

    base = [*(Path(pyspark.__file__).parent / "jars").glob("*.jar"), *path]
    names = sorted(jar.name for jar in base if jar.name.startswith(("hadoop-", "io.delta")))
    sources = sorted(Path(__file__).parent.glob("*.java"))
    parts = [*(source.read_bytes() for source in sources), *(name.encode() for name in names)]
    key = hashlib.sha256(b"\n".join(parts)).hexdigest()[:10]
    jar = jars.cache_folder() / "jars" / f"storage-{key}" / "dbt-spark-cdc-storage.jar"
    if jar.exists():
        return jar
    jar.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=jar.parent))
    try:
        gateway, end = start()
        try:
            _compile(gateway, sources, base, fresh)
        finally:
            end()
        archive = fresh / jar.name
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
            for file in sorted(fresh.rglob("*.class")):
                out.write(file, file.relative_to(fresh))
        _put_in_place(archive, jar)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return jar


def _put_in_place(archive: Path, jar: Path) -> None:
    """Leaves a jar alone that another process made meanwhile: Java may know its time already."""
    try:
        os.link(archive, jar)
    except FileExistsError:
        return
    except OSError:  # no links here
        archive.replace(jar)


def _compile(gateway: Any, sources: Sequence[Path], path: Sequence[Path], target: Path) -> None:
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
        compiler.compile(files(sources))
    except Py4JError as exc:
        defaults = ", ".join(f"`{name}: {value}`" for name, value in DEFAULTS.items())
        raise DbtRuntimeError(
            f"The adapter's classes for Spark cannot be compiled: {exc}\nWithout them a table is "
            "safe while one process commits to it: name those of Delta and Hadoop in the profile's "
            f"`server_side_parameters`, {defaults}."
        ) from exc
