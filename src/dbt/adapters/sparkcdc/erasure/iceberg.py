"""What an erasure does with Iceberg tables: files that hold deleted rows, and their metadata.

A row that is deleted stays in data files beside which its deletion is noted, and in the files of
older snapshots. Manifests keep bounds of each column, for files that are gone as well, and former
metadata files keep what older snapshots said of themselves.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc.erasure.table_files import OTHERS_WRITE, remove_empty_folders
from dbt.adapters.sparkcdc.iceberg import tables as iceberg
from dbt.adapters.sparkcdc.iceberg import writes as iceberg_writes
from dbt.adapters.sparkcdc.session.cursor import literal
from dbt.adapters.sparkcdc.tables.places import local_folder
from dbt_common.exceptions import DbtRuntimeError

from dbt_spark_cdc.words import quoted

# Every file that has deletes beside it, and no other.
PURGE = {
    "delete-file-threshold": "1",
    "min-input-files": "1",
    "min-file-size-bytes": "0",
    "max-file-size-bytes": str(2**63 - 1),
    "remove-dangling-deletes": "true",
}
SEARCHED = ("PARQUET", "PUFFIN")
EQUALITY_DELETES = 2
# Where files may be, other than in the table's folder.
OTHER_PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
# The settings that have Iceberg remove former metadata files.
FORGETTING = {
    "write.metadata.previous-versions-max": "1",
    "write.metadata.delete-after-commit.enabled": "true",
}
# What these settings were, while an erasure has changed them.
KEPT_SETTINGS = "cdc.metadata_settings"
TRUNCATION = re.compile(r"truncate\((\d+)\)", re.IGNORECASE)
DAY_MS = 86_400_000


def problems(spark: Any, name: str) -> list[str]:
    """Returns why the rows of a table cannot be removed from its files, each with the remedy.

    Args:
        spark: The session.
        name: The table's name in SQL.
    """
    table = iceberg.load(spark, name)
    if table is None:
        return [f"{name} is not an Iceberg table."]
    found = []
    elsewhere = [place for place in _places(table) if local_folder(_uri(place)) is None]
    if elsewhere:
        found.append(_elsewhere(name, elsewhere))
    if table.properties().get("gc.enabled") == "false":
        found.append(
            f"{name} has the property `gc.enabled` = false: Iceberg removes none of its files,"
            " since another table may use them, as after a `snapshot` of a table. If none does:"
            f" alter table {name} set tblproperties ('gc.enabled' = 'true')"
        )
    kept = {str(ref): str(known.type().name()) for ref, known in table.refs().items()}
    kept.pop("main", None)
    if kept:
        drops = ", ".join(f"drop {kept[ref].lower()} {quoted(ref)}" for ref in sorted(kept))
        found.append(
            f"{name} has branches or tags that keep older snapshots with the person's rows. Drop"
            f" them by ALTER TABLE, in a session with Iceberg's SQL extensions: {drops}"
        )
    formats = spark.sql(f"select distinct file_format from {name}.files").collect()
    others = sorted({str(row[0]) for row in formats} - set(SEARCHED))
    if others:
        found.append(
            f"{name} has files of {', '.join(others)}, which are not searched for keys. Rewrite"
            " them as Parquet: set its property 'write.format.default' to 'parquet', and call"
            " rewrite_data_files with the option 'rewrite-all'."
        )
    return found


def _elsewhere(name: str, places: Sequence[str]) -> str:
    return (
        f"{name} has files in {', '.join(places)}, which is not on a disk of this machine, so that"
        " they can be neither removed nor searched. Delete the person's rows from the table,"
        " rewrite its data files and manifests, expire its snapshots and remove orphan files where"
        " its files are."
    )


def folders(table: Any) -> list[Path]:
    """Returns the folders that a table's files are in; none of them is in another one.

    Args:
        table: See `iceberg.load`.

    Raises:
        DbtRuntimeError: One is not on a disk of this machine.
    """
    found = []
    for place in _places(table):
        folder = local_folder(_uri(place))
        if folder is None:
            raise DbtRuntimeError(f"cdc: {_elsewhere(str(table.name()), [place])}")
        found.append(folder)
    return [
        folder
        for folder in dict.fromkeys(found)
        if not any(other in folder.parents for other in found)
    ]


def key_ids(table: Any, columns: Sequence[str]) -> dict[str, int]:
    """Returns the ids of columns, by which data files know them whatever they were called.

    Args:
        table: See `iceberg.load`.
        columns: The columns.
    """
    schema = table.schema()
    return {name: int(schema.caseInsensitiveFindField(name).fieldId()) for name in columns}


def truncations(table: Any) -> set[int]:
    """Returns to how many characters the manifests of a table shorten texts.

    Args:
        table: See `iceberg.load`.
    """
    settings = [
        str(value)
        for name, value in table.properties().items()
        if str(name).startswith("write.metadata.metrics.")
    ]
    return {int(length) for text in settings for length in TRUNCATION.findall(text)}


def data_files(spark: Any, name: str) -> set[str]:
    """Returns the data files of a table's newest snapshot.

    Args:
        spark: The session.
        name: The table's name in SQL.
    """
    return {row[0] for row in spark.sql(f"select file_path from {name}.data_files").collect()}


def purge(spark: Any, execute: Callable[[str], Any], name: str) -> None:
    """Rewrites the data files that have deletes beside them, without the deleted rows.

    Args:
        spark: The session.
        execute: Runs a statement.
        name: The table's name in SQL.
    """
    kinds = {row[0] for row in spark.sql(f"select content from {name}.delete_files").collect()}
    if not kinds:
        return
    options = dict(PURGE)
    if EQUALITY_DELETES in kinds:
        # One that names a key stays as long as there is an older file, whether it applies or not.
        options["rewrite-all"] = "true"
    _call(execute, name, "rewrite_data_files", options)
    if spark.sql(f"select 1 from {name}.delete_files where content = 1 limit 1").collect():
        _call(execute, name, "rewrite_position_delete_files", {"rewrite-all": "true"})


def forget_past(spark: Any, name: str, checkpoint: str, version: int | None = None) -> int:
    """Removes all files of a table that its newest snapshot does not need.

    Args:
        spark: The session.
        name: The table's name in SQL.
        checkpoint: What the newest snapshot carries.
        version: The version since which nobody else may have written; None where that is all the
            same.

    Returns:
        The table's version.

    Raises:
        DbtRuntimeError: Somebody else writes the table.
    """
    table = iceberg.load(spark, name)
    if table.currentSnapshot() is not None:
        # Manifests keep the bounds of files that are gone until they are written again.
        table.rewriteManifests().clusterBy(_constant(spark, "all")).commit()
    if not iceberg_writes.commit_checkpoint(spark, name, checkpoint, version, merges=True):
        raise DbtRuntimeError(OTHERS_WRITE.format(name=name))
    table = iceberg.load(spark, name)
    head = table.currentSnapshot().snapshotId()
    actions = getattr(spark._jvm, "org.apache.iceberg.spark.actions.SparkActions")
    actions = actions.get(spark._jsparkSession)
    then = int(time.time() * 1000) + DAY_MS
    expiry = actions.expireSnapshots(table).expireOlderThan(then).retainLast(1)
    for snapshot in table.snapshots():
        if snapshot.snapshotId() != head:
            expiry = expiry.expireSnapshotId(snapshot.snapshotId())
    expiry.execute()
    _forget_metadata(spark, name)
    table = iceberg.load(spark, name)
    for folder in folders(table):
        if folder.is_dir():
            orphans = actions.deleteOrphanFiles(table).location(str(folder)).olderThan(then)
            orphans.execute()
            remove_empty_folders(folder)
    return int(table.currentSnapshot().sequenceNumber())


def _constant(spark: Any, value: str) -> Any:
    """A function of Java that gives the same for everything, without a call back into Python."""
    java = spark._jvm.java
    handles = java.lang.invoke.MethodHandles
    anything = java.lang.Class.forName("java.lang.Object")
    arguments = java.util.ArrayList()
    arguments.add(anything)
    handle = handles.dropArguments(handles.constant(anything, value), 0, arguments)
    function = java.lang.Class.forName("java.util.function.Function")
    return java.lang.invoke.MethodHandleProxies.asInterfaceInstance(function, handle)


def _forget_metadata(spark: Any, name: str) -> None:
    """Removes former metadata files. One stays: the one before, which has no older snapshots."""
    known = iceberg.load(spark, name).properties()
    kept = known.get(KEPT_SETTINGS)
    former = json.loads(kept) if kept else {setting: known.get(setting) for setting in FORGETTING}
    change = iceberg.load(spark, name).updateProperties().set(KEPT_SETTINGS, json.dumps(former))
    for setting, value in FORGETTING.items():
        change = change.set(setting, value)
    change.commit()
    change = iceberg.load(spark, name).updateProperties().remove(KEPT_SETTINGS)
    for setting, value in former.items():
        change = change.remove(setting) if value is None else change.set(setting, value)
    change.commit()


def _call(execute: Callable[[str], Any], name: str, procedure: str, options: dict[str, str]) -> Any:
    catalog, _, table = name.replace("`", "").partition(".")
    given = ", ".join(literal(part) for pair in options.items() for part in pair)
    return execute(
        f"call {catalog}.system.{procedure}(table => {literal(table)}, options => map({given}))"
    )


def _places(table: Any) -> Iterator[str]:
    yield str(table.location())
    for name in OTHER_PLACES:
        place = table.properties().get(name)
        if place:
            yield str(place)


def _uri(place: str) -> str:
    """A path without a scheme is one of the local disk, where the session has no other default."""
    return f"file:{place}" if place.startswith("/") else place
