"""Iceberg tables: their catalog, their types, their commits and their size."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timezone
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

# One version for each Spark that is supported: the jar's name has Spark's version, not Iceberg's.
VERSION = "1.12.0"
CATALOG = "org.apache.iceberg.spark.SparkCatalog"
# Where a commit carries its checkpoint, in the summary of its snapshot.
CHECKPOINT = "cdc.checkpoint"
CHECKPOINT_SETTING = f"spark.sql.iceberg.snapshot-property.{CHECKPOINT}"
# What a commit without rows carries beside its checkpoint: the id of the last commit with rows,
# whose snapshot may have expired, and the versions from that one on.
FOLLOWS = "cdc.follows"
# Whether its checkpoint is that of before, as compaction commits it again.
REPEATS = "cdc.repeats"
# What Iceberg calls a commit that writes the same rows into other files, and Delta one of metadata.
REWRITE = "replace"
NO_ROWS = "SET TBLPROPERTIES"
# Iceberg has no shorter integers.
NARROW = re.compile(r"\b(tinyint|smallint)\b", re.IGNORECASE)
UNBOUND_TEXT = re.compile(r"\b(?:var)?char\(\d+\)", re.IGNORECASE)
# Types that Iceberg widens in a table's metadata, beside decimals.
WIDER = {"int": "bigint", "float": "double"}
# The catalog of files that are read by themselves: before and after a commit changed them.
IMAGES = "cdc_images"
IMAGES_CATALOG = "org.apache.iceberg.spark.SparkRewriteTableCatalog"


def catalog_settings(name: str, warehouse: str, parameters: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that Iceberg's tables need: those of their catalog, and Iceberg's jar.

    Without settings of the profile the catalog is a folder in the warehouse.

    Args:
        name: The catalog.
        warehouse: The warehouse's folder, or its address in an object store.
        parameters: The profile's Spark settings, which win.
    """
    prefix = f"spark.sql.catalog.{name}"
    settings = {
        prefix: CATALOG,
        # A kept table would not show what other processes commit.
        f"{prefix}.cache-enabled": "false",
        f"spark.sql.catalog.{IMAGES}": IMAGES_CATALOG,
    }
    if not any(key.startswith(f"{prefix}.") for key in parameters.keys() - settings.keys()):
        settings[f"{prefix}.type"] = "hadoop"
        is_address = "://" in warehouse
        place = f"{warehouse.rstrip('/')}/{name}" if is_address else f"file:{Path(warehouse, name)}"
        settings[f"{prefix}.warehouse"] = place
    settings |= parameters
    packages = parameters.get("spark.jars.packages", "")
    if "iceberg-spark-runtime" not in packages + parameters.get("spark.jars", ""):
        spark = ".".join(installed("pyspark").split(".")[:2])
        ours = f"org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:{VERSION}"
        settings["spark.jars.packages"] = f"{packages},{ours}".strip(",")
    return settings


def type_in_table(kind: str) -> str:
    """Returns the type that a column of a declared type has in an Iceberg table.

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


def properties(table: Any) -> dict[str, str]:
    """Returns the properties of a table, with the version of its format.

    Args:
        table: See `load`.
    """
    found = {str(name): str(value) for name, value in table.properties().items()}
    return found | {"format-version": str(table.operations().current().formatVersion())}


def commits(table: Any) -> Iterator[dict[str, Any]]:
    """Yields the commits that made a table what it is, the newest one first.

    A commit that was rolled back is not among them. What somebody else commits in a session that
    still has a checkpoint for the creation of a table carries it again: it counts once.

    Args:
        table: See `load`.

    Yields:
        `version`: its sequence number, 0 of a table without rows. `operation`: append, overwrite,
        delete or replace; that of Delta for a commit which only carries a checkpoint.
        `userMetadata`: its checkpoint. `timestamp`: when it was made. `id`: that of its snapshot.
        `is_first`: whether it has none before it. `follows`: of a commit without rows the versions
        since the last one with rows, that one first, and `wrote` its id; empty for others.
        `repeats`: whether it only has the checkpoint of before once more.
    """
    snapshot = table.currentSnapshot()
    if snapshot is None:
        yield {
            "version": 0,
            "operation": "CREATE TABLE",
            "userMetadata": None,
            "timestamp": datetime.fromtimestamp(0, timezone.utc),
            "id": None,
            "is_first": True,
            "follows": [],
            "wrote": "none",
            "repeats": False,
        }
        return
    checkpoint = snapshot.summary().get(CHECKPOINT)
    while snapshot is not None:
        parent_id = snapshot.parentId()
        parent = None if parent_id is None else table.snapshot(parent_id)
        before = None if parent is None else parent.summary().get(CHECKPOINT)
        wrote, *follows = str(snapshot.summary().get(FOLLOWS) or snapshot.snapshotId()).split(" ")
        yield {
            "version": int(snapshot.sequenceNumber()),
            "operation": NO_ROWS if follows else str(snapshot.operation()),
            "userMetadata": checkpoint if follows or checkpoint != before else None,
            "timestamp": datetime.fromtimestamp(snapshot.timestampMillis() / 1000, timezone.utc),
            "id": int(snapshot.snapshotId()),
            "is_first": parent_id is None,
            "follows": [int(version) for version in follows],
            "wrote": wrote,
            "repeats": snapshot.summary().get(REPEATS) == "true",
        }
        snapshot, checkpoint = parent, before


def newest_commits(table: Any, limit: int | None) -> list[dict[str, Any]]:
    """Returns the newest commits of a table.

    Args:
        table: See `load`.
        limit: How many at most; None for all.
    """
    return list(itertools.islice(commits(table), limit))


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
        if version in commit["follows"]:
            return found, True
    return found, version == 0 and bool(found) and found[-1]["is_first"]


def last_write(table: Any, maintenance: list[str]) -> str:
    """Returns what tells the last commit of rows from all others.

    Args:
        table: See `load`.
        maintenance: Operations that change no rows.
    """
    _, _, wrote = last_state(table, maintenance)
    return f"{table.uuid().toString()} {wrote}"


def last_state(
    table: Any, maintenance: Collection[str] = (REWRITE, NO_ROWS)
) -> tuple[str | None, list[int], str]:
    """Returns the newest checkpoint, and what the next commit without rows says that it follows.

    Args:
        table: See `load`.
        maintenance: Operations that change no rows.

    Returns:
        The checkpoint, the versions since the last commit with rows, that one included, and the id
        of its snapshot.
    """
    checkpoint, wrote = None, "none"
    versions: list[int] = []
    for commit in commits(table):
        checkpoint = checkpoint or commit["userMetadata"]
        versions += [commit["version"], *commit["follows"]]
        wrote = commit["wrote"]
        if commit["follows"] or commit["operation"] not in maintenance:
            break
    return checkpoint, sorted(set(versions)), wrote


def table_bytes(table: Any) -> int | None:
    """Returns the size of a table's data files; None where its newest snapshot does not say it.

    Args:
        table: See `load`.
    """
    snapshot = table.currentSnapshot()
    size = 0 if snapshot is None else snapshot.summary().get("total-files-size")
    return None if size is None else int(size)


def files(table: Any) -> dict[str, int]:
    """Returns how many files a table has, with what its newest snapshot counts.

    Args:
        table: See `load`.

    Returns:
        `data`, `deletes` (files that mark rows of data files as deleted) and `bytes`.
    """
    snapshot = table.currentSnapshot()
    summary = {} if snapshot is None else snapshot.summary()
    return {
        name: int(summary.get(f"total-{counted}") or 0)
        for name, counted in (
            ("data", "data-files"),
            ("deletes", "delete-files"),
            ("bytes", "files-size"),
        )
    }
