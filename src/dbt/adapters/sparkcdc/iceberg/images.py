"""What commits of Iceberg's tables changed, as tables that can be read."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dbt.adapters.sparkcdc.iceberg.tables import NO_ROWS, REWRITE, commits, load
from dbt_common.exceptions import DbtRuntimeError


@dataclass(frozen=True)
class Image:
    """The rows of the files that a commit changed, as they were before or after it.

    Attributes:
        name: What they are called in the catalog `IMAGES`.
        table: The table that they are of.
        version: The commit's version.
        timestamp: When it was made.
        is_before: Whether these are the rows before it.
    """

    name: str
    table: Any
    version: int
    timestamp: datetime
    is_before: bool


def images(spark: Any, name: str, first: int, last: int) -> list[Image]:
    """Shows what commits of a table changed, as tables of the catalog `IMAGES`.

    Rows that a commit left as they are can be among both images: files are read as a whole.

    Args:
        spark: The session.
        name: The table's name in SQL.
        first: The first version whose changes are wanted; 0 for all there are.
        last: The last one.

    Returns:
        The images, until `forget_images`.

    Raises:
        DbtRuntimeError: Snapshots that are needed have expired.
    """
    table = load(spark, name)
    found: list[Image] = []
    for commit in commits(table):
        follows = commit["follows"]
        if (
            commit["version"] < first
            or commit["id"] is None
            or (follows and int(follows[0]) < first)
        ):
            break
        snapshot = table.snapshot(commit["id"])
        parent = snapshot.parentId()
        if parent is not None and table.snapshot(parent) is None:
            left = found[-1].version if found else commit["version"] + 1
            raise DbtRuntimeError(
                f"The changes of {name} before version {left} are gone: Iceberg snapshots expired."
                f" The first version that is left is {left}, and version {first} was asked for."
                f" Read from there, `from_version={left}`; an incremental model is built again with"
                " --full-refresh then, and its changes do not add up to the whole table any more."
            )
        if commit["version"] > last or commit["operation"] in (REWRITE, NO_ROWS):
            continue
        changed = _changed_files(spark, table, snapshot)
        for is_before, of in ((True, parent), (False, commit["id"])):
            tasks = [] if of is None else _tasks(spark, table, of, changed)
            if tasks:
                own = uuid.uuid4().hex
                _scan_sets(spark).stageTasks(table, own, tasks)
                _table_cache(spark).add(own, table)
                found.append(Image(own, table, commit["version"], commit["timestamp"], is_before))
    return found


def forget_images(spark: Any, found: Iterable[Image]) -> None:
    """Lets go of images.

    Args:
        spark: The session.
        found: See `images`.
    """
    for image in found:
        _scan_sets(spark).removeTasks(image.table, image.name)
        _table_cache(spark).remove(image.name)


def _changed_files(spark: Any, table: Any, snapshot: Any) -> set[str] | None:
    """The data files that a commit added, removed or put deletes beside; None where all may be."""
    util = getattr(spark._jvm, "org.apache.iceberg.util.ContentFileUtil")
    files = table.io()
    changed = {
        str(file.location())
        for of in (snapshot.addedDataFiles(files), snapshot.removedDataFiles(files))
        for file in of
    }
    for of in (snapshot.addedDeleteFiles(files), snapshot.removedDeleteFiles(files)):
        for file in of:
            target = util.referencedDataFileLocation(file)
            if target is None:
                return None
            changed.add(str(target))
    return changed


def _tasks(spark: Any, table: Any, snapshot: int, changed: set[str] | None) -> Any:
    """What reads the changed files as they are in a snapshot."""
    tasks = spark._jvm.java.util.ArrayList()
    planned = table.newScan().useSnapshot(snapshot).planFiles()
    try:
        iterator = planned.iterator()
        while iterator.hasNext():
            task = iterator.next()
            if changed is None or str(task.file().location()) in changed:
                tasks.add(task)
    finally:
        planned.close()
    return tasks


def _scan_sets(spark: Any) -> Any:
    return getattr(spark._jvm, "org.apache.iceberg.spark.ScanTaskSetManager").get()


def _table_cache(spark: Any) -> Any:
    """Iceberg's cache of tables. py4j finds no static method that has a namesake of an object."""
    java = spark._jvm.java.lang
    loader = java.Thread.currentThread().getContextClassLoader()
    kind = java.Class.forName("org.apache.iceberg.spark.SparkTableCache", True, loader)
    gateway = spark.sparkContext._gateway
    get = kind.getMethod("get", gateway.new_array(java.Class, 0))
    return get.invoke(None, gateway.new_array(java.Object, 0))
