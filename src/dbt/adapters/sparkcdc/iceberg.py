"""Tables of Iceberg: their snapshots, and commits that nobody else came before."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version as installed
from itertools import islice
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc.settings_scope import scoped

# One version for each Spark that is supported: the jar's name has Spark's version, not Iceberg's.
VERSION = "1.12.0"
CATALOG = "org.apache.iceberg.spark.SparkCatalog"
# Where a commit carries its checkpoint, in the summary of its snapshot.
CHECKPOINT = "cdc.checkpoint"
CHECKPOINT_SETTING = f"spark.sql.iceberg.snapshot-property.{CHECKPOINT}"
STAGED_AS = "wap.id"
STAGING = "write.wap.enabled"
# What Iceberg calls a commit that writes the same rows into other files.
REWRITE = "replace"
# Iceberg has no shorter integers.
NARROW = re.compile(r"\b(tinyint|smallint)\b", re.IGNORECASE)
UNBOUND_TEXT = re.compile(r"\b(?:var)?char\(\d+\)", re.IGNORECASE)
# Types that Iceberg widens in a table's metadata, beside decimals.
WIDER = {"int": "bigint", "float": "double"}
PUBLISH_ATTEMPTS = 5


def catalog_settings(name: str, warehouse: str, parameters: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that Iceberg's tables need: those of their catalog, and Iceberg's jar.

    Without settings of the profile the catalog is a folder in the warehouse.

    Args:
        name: The catalog.
        warehouse: The warehouse's folder.
        parameters: The profile's Spark settings, which win.
    """
    prefix = f"spark.sql.catalog.{name}"
    settings = {
        prefix: CATALOG,
        # A kept table would not show what other processes commit.
        f"{prefix}.cache-enabled": "false",
    }
    if not {f"{prefix}.type", f"{prefix}.catalog-impl"} & parameters.keys():
        settings[f"{prefix}.type"] = "hadoop"
        settings[f"{prefix}.warehouse"] = Path(warehouse, name).as_uri()
    settings |= parameters
    packages = parameters.get("spark.jars.packages", "")
    if "iceberg-spark-runtime" not in packages + parameters.get("spark.jars", ""):
        spark = ".".join(installed("pyspark").split(".")[:2])
        ours = f"org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:{VERSION}"
        settings["spark.jars.packages"] = f"{packages},{ours}".strip(",")
    return settings


def type_in_table(kind: str) -> str:
    """Returns the type that a column of a declared type has in a table of Iceberg.

    Args:
        kind: The declared type, as SQL writes it.
    """
    return UNBOUND_TEXT.sub("string", NARROW.sub("int", kind))


def is_wider(known: str, wanted: str) -> bool:
    """Returns whether Iceberg changes a type to another in place.

    See https://iceberg.apache.org/spec/#schema-evolution.

    Args:
        known: A type without parts.
        wanted: Another one.
    """
    if WIDER.get(known.lower()) == wanted.lower():
        return True
    digits = [re.fullmatch(r"decimal\((\d+), ?(\d+)\)", text.lower()) for text in (known, wanted)]
    if not (digits[0] and digits[1]):
        return False
    return digits[0][2] == digits[1][2] and int(digits[1][1]) > int(digits[0][1])


def load(spark: Any, name: str) -> Any:
    """Returns Iceberg's own table, as it is now.

    Args:
        spark: The session.
        name: Its name in SQL, with its catalog.

    Returns:
        None where there is no such table.
    """
    if not spark.catalog.tableExists(name):
        return None
    loader = getattr(spark._jvm, "org.apache.iceberg.spark.Spark3Util")
    return loader.loadIcebergTable(spark._jsparkSession, name)


def commits(table: Any) -> Iterator[dict[str, Any]]:
    """Yields the commits that made a table what it is, the newest one first.

    A commit that was rolled back is not among them. What somebody else commits in a session that
    still has a checkpoint for the creation of a table carries it again: it counts once.

    Args:
        table: See `load`.

    Yields:
        `version`: its sequence number, 0 of a table without rows. `operation`: append, overwrite,
        delete or replace. `userMetadata`: its checkpoint. `timestamp`: in milliseconds.
        `id`: that of its snapshot. `is_first`: whether it has none before it.
    """
    snapshot = table.currentSnapshot()
    if snapshot is None:
        yield {
            "version": 0,
            "operation": "CREATE TABLE",
            "userMetadata": None,
            "timestamp": 0,
            "id": None,
            "is_first": True,
        }
        return
    checkpoint = snapshot.summary().get(CHECKPOINT)
    while snapshot is not None:
        parent_id = snapshot.parentId()
        parent = None if parent_id is None else table.snapshot(parent_id)
        before = None if parent is None else parent.summary().get(CHECKPOINT)
        yield {
            "version": int(snapshot.sequenceNumber()),
            "operation": str(snapshot.operation()),
            "userMetadata": None if checkpoint == before else checkpoint,
            "timestamp": int(snapshot.timestampMillis()),
            "id": int(snapshot.snapshotId()),
            "is_first": parent_id is None,
        }
        snapshot, checkpoint = parent, before


def newest_commits(table: Any, limit: int | None) -> list[dict[str, Any]]:
    """Returns the newest commits of a table.

    Args:
        table: See `load`.
        limit: How many at most; None for all.
    """
    return list(islice(commits(table), limit))


def commits_since(table: Any, version: int) -> tuple[list[dict[str, Any]], bool]:
    """Returns the commits of a table after a version.

    Args:
        table: See `load`.
        version: The version.

    Returns:
        The commits, the newest one first, and whether these are all: not where snapshots between
        them expired, or the table was rolled back behind the version and written again.
    """
    found: list[dict[str, Any]] = []
    for commit in commits(table):
        if commit["version"] <= version:
            return found, commit["version"] == version
        found.append(commit)
    return found, version == 0 and bool(found) and found[-1]["is_first"]


def last_write(table: Any, maintenance: list[str]) -> str:
    """Returns what tells the last commit of rows from all others.

    Args:
        table: See `load`.
        maintenance: Operations that change no rows.
    """
    named = str(table.uuid().toString())
    for commit in commits(table):
        if commit["operation"] not in maintenance or commit["userMetadata"]:
            return f"{named} {commit['id']}"
    return f"{named} unknown"


def table_bytes(table: Any) -> int | None:
    """Returns the size of a table's data files; None where its newest snapshot does not say it.

    Args:
        table: See `load`.
    """
    snapshot = table.currentSnapshot()
    size = 0 if snapshot is None else snapshot.summary().get("total-files-size")
    return None if size is None else int(size)


def commit_checkpoint(table: Any, checkpoint: str) -> None:
    """Writes a checkpoint in a commit without rows.

    Args:
        table: See `load`.
        checkpoint: Its text.
    """
    table.newFastAppend().set(CHECKPOINT, checkpoint).commit()


def write_alone(
    spark: Any,
    name: str,
    run: Callable[[], None],
    version: int,
    checkpoint: str,
    maintenance: list[str],
) -> bool:
    """Runs a statement that writes a table if the table is still what the rows were computed from.

    The statement only stages its snapshot. It becomes the table's current one by a change of the
    table's metadata that the catalog refuses if anything else changed them in between.

    Args:
        spark: The session.
        name: The table's name in SQL.
        run: Runs the statement.
        version: The version of the table that the rows were computed from.
        checkpoint: What the commit carries.
        maintenance: Operations that change no rows.

    Returns:
        False if somebody else wrote since that version. Nothing was written then.
    """
    table = load(spark, name)
    if not is_alone(table, version, maintenance):
        return False
    if table.properties().get(STAGING) != "true":
        table.updateProperties().set(STAGING, "true").commit()
    stage = uuid.uuid4().hex
    with scoped(spark, {f"spark.{STAGED_AS}": stage, CHECKPOINT_SETTING: checkpoint}):
        run()
    return _publish(spark, load(spark, name), stage, version, maintenance)


def is_alone(table: Any, version: int, maintenance: list[str]) -> bool:
    """Returns whether nobody has written rows of a table since a version.

    Args:
        table: See `load`.
        version: The version.
        maintenance: Operations that change no rows.
    """
    later, is_all = commits_since(table, version)
    return is_all and all(
        commit["operation"] in maintenance and not commit["userMetadata"] for commit in later
    )


def _publish(spark: Any, table: Any, stage: str, version: int, maintenance: list[str]) -> bool:
    """Makes a staged snapshot the current one, unless somebody wrote after what it was made of."""
    from py4j.protocol import Py4JJavaError

    metadata = getattr(spark._jvm, "org.apache.iceberg.TableMetadata")
    for _ in range(PUBLISH_ATTEMPTS):
        operations = table.operations()
        base = operations.refresh()
        table.refresh()
        staged = next(s for s in base.snapshots() if s.summary().get(STAGED_AS) == stage)
        head = base.currentSnapshot()
        follows = staged.parentId() == (None if head is None else head.snapshotId())
        if not follows or not is_alone(table, version, maintenance):
            break
        changed = metadata.buildFrom(base).setBranchSnapshot(staged.snapshotId(), "main").build()
        try:
            operations.commit(base, changed)
            return True
        except Py4JJavaError as exc:
            # Other metadata, such as a comment, may have changed: that is no other writer.
            if "CommitFailedException" not in str(exc.java_exception.toString()):
                raise
    table.expireSnapshots().expireSnapshotId(staged.snapshotId()).commit()
    return False
