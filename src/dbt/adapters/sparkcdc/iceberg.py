"""Tables of Iceberg: their snapshots, and commits that nobody else came before."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc.cursor import literal
from dbt.adapters.sparkcdc.delta_log import LARGE_FILE_BYTES, MOST_SMALL_FILES
from dbt.adapters.sparkcdc.settings_scope import scoped
from dbt_common.exceptions import DbtRuntimeError

# One version for each Spark that is supported: the jar's name has Spark's version, not Iceberg's.
VERSION = "1.12.0"
CATALOG = "org.apache.iceberg.spark.SparkCatalog"
# Where a commit carries its checkpoint, in the summary of its snapshot.
CHECKPOINT = "cdc.checkpoint"
CHECKPOINT_SETTING = f"spark.sql.iceberg.snapshot-property.{CHECKPOINT}"
STAGED_AS = "wap.id"
STAGING = "write.wap.enabled"
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
# A file that has deletes beside it is rewritten without the deleted rows.
COMPACTION = {
    "delete-file-threshold": "1",
    "min-input-files": "2",
    "remove-dangling-deletes": "true",
}
# Commits between two compactions of a table.
FEWEST_COMMITS = 16
ATTEMPTS = 5
# What Iceberg raises where somebody else committed first.
CONFLICTS = ("ValidationException", "CommitFailedException")


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
    _, _, wrote = _last_state(table, maintenance)
    return f"{table.uuid().toString()} {wrote}"


def _last_state(
    table: Any, maintenance: Collection[str] = (REWRITE, NO_ROWS)
) -> tuple[str | None, list[int], str]:
    """The newest checkpoint, and what the next commit without rows would say that it follows."""
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


def compaction_pays(table: Any) -> bool:
    """Returns whether a table has so many small files that putting them together pays.

    A table of many partitions has many small files in any case: some commits have to be there since
    the last time.

    Args:
        table: See `load`.
    """
    known = files(table)
    small = known["data"] - known["bytes"] // LARGE_FILE_BYTES
    if small + known["deletes"] < MOST_SMALL_FILES:
        return False
    latest = newest_commits(table, FEWEST_COMMITS)
    return not any(commit["operation"] == REWRITE for commit in latest)


def compact(spark: Any, execute: Callable[[str], Any], name: str) -> None:
    """Puts the small files of a table together, and applies the deletes that stand beside them.

    The checkpoint is committed once more after it, so that it stays when older snapshots expire.

    Args:
        spark: The session.
        execute: Runs a statement.
        name: The table's name in SQL.
    """
    catalog, _, table = name.replace("`", "").partition(".")
    version = newest_commits(load(spark, name), 1)[0]["version"]
    procedure = f"call {catalog}.system"
    options = ", ".join(map(literal, itertools.chain(*COMPACTION.items())))
    execute(f"{procedure}.rewrite_data_files(table => {literal(table)}, options => map({options}))")
    execute(f"{procedure}.rewrite_manifests({literal(table)})")
    checkpoint, _, _ = _last_state(load(spark, name))
    if checkpoint:
        commit_checkpoint(spark, name, checkpoint, version, repeats=True)


def expire(execute: Callable[[str], Any], name: str, hours: int, dry_run: bool) -> int:
    """Removes snapshots of a table that are older than some time, and files that belong to none.

    Args:
        execute: Runs a statement and returns its rows.
        name: The table's name in SQL.
        hours: The time.
        dry_run: Whether only to look.

    Returns:
        How many files were removed; of a dry run, how many snapshots are older and how many files
        belong to none.
    """
    catalog, _, table = name.replace("`", "").partition(".")
    procedure = f"call {catalog}.system"
    (then,) = execute(f"select string(current_timestamp() - interval {hours} hours)")[0]
    older = f"table => {literal(table)}, older_than => timestamp {literal(then)}"
    if dry_run:
        older_ones = f"select count(*) - 1 from {name}.snapshots where committed_at < timestamp"
        expired = max(0, execute(f"{older_ones} {literal(then)}")[0][0])
    else:
        counts = execute(f"{procedure}.expire_snapshots({older}, retain_last => 1)")[0]
        expired = sum(int(count or 0) for count in counts)
    orphans = execute(f"{procedure}.remove_orphan_files({older}, dry_run => {dry_run})")
    return expired + len(orphans)


def roll_back(table: Any, snapshot: int) -> None:
    """Makes an older snapshot the current one again.

    Args:
        table: See `load`.
        snapshot: Its id.
    """
    table.manageSnapshots().rollbackTo(snapshot).commit()


def commit_checkpoint(
    spark: Any,
    name: str,
    checkpoint: str,
    version: int | None,
    *,
    repeats: bool = False,
    merges: bool = False,
) -> bool:
    """Writes a checkpoint in a commit without rows.

    Args:
        spark: The session.
        name: The table's name in SQL.
        checkpoint: Its text.
        version: The version since which nobody else may have written; None for one that says of
            nothing that it was read.
        repeats: Whether it is the checkpoint that the table has.
        merges: Whether the commit leaves out manifests of which no file is left.

    Returns:
        False if somebody else wrote. Nothing was committed then.
    """
    for _ in range(ATTEMPTS):
        table = load(spark, name)
        if version is not None and not is_alone(table, version, (REWRITE, NO_ROWS)):
            return False
        _, versions, wrote = _last_state(table)
        head = table.currentSnapshot()
        stage = uuid.uuid4().hex
        append = table.newAppend() if merges else table.newFastAppend()
        append.set(CHECKPOINT, checkpoint).set(STAGED_AS, stage)
        append.set(FOLLOWS, " ".join([wrote, *map(str, versions)]))
        append.set(REPEATS, str(repeats).lower()).stageOnly().commit()
        if _publish(spark, table, stage, None if head is None else head.snapshotId()):
            return True
    return False


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
    try:
        with scoped(spark, {f"spark.{STAGED_AS}": stage, CHECKPOINT_SETTING: checkpoint}):
            run()
    except DbtRuntimeError as exc:
        if not is_conflict(exc):
            raise
        _forget(spark, load(spark, name), stage)
        return False
    table = load(spark, name)
    head = table.currentSnapshot()
    if not is_alone(table, version, maintenance):
        _forget(spark, table, stage)
        return False
    return _publish(spark, table, stage, None if head is None else head.snapshotId())


def is_conflict(exc: Exception) -> bool:
    """Returns whether a statement failed because somebody else committed first.

    Args:
        exc: What it raised.
    """
    return any(name in str(exc) for name in CONFLICTS)


def is_alone(table: Any, version: int, maintenance: Collection[str]) -> bool:
    """Returns whether nobody has written rows of a table since a version.

    Args:
        table: See `load`.
        version: The version.
        maintenance: Operations that change no rows.
    """
    later, is_all = commits_since(table, version)
    return is_all and all(
        commit["operation"] in maintenance and (commit["repeats"] or not commit["userMetadata"])
        for commit in later
    )


def _publish(spark: Any, table: Any, stage: str, parent: int | None) -> bool:
    """Makes a staged snapshot the current one, if it and the table follow the same snapshot."""
    metadata = getattr(spark._jvm, "org.apache.iceberg.TableMetadata")
    for _ in range(ATTEMPTS):
        operations = table.operations()
        base = operations.refresh()
        staged = _staged(base, stage)
        if staged is None:
            raise DbtRuntimeError(
                f"cdc: the table property {STAGING} of {table.name()} was turned off during this"
                " build, so that its rows were committed at once. Run it again with --full-refresh."
            )
        head = base.currentSnapshot()
        if not staged.parentId() == parent == (None if head is None else head.snapshotId()):
            break
        changed = metadata.buildFrom(base).setBranchSnapshot(staged.snapshotId(), "main").build()
        # Other metadata, such as a comment, may have changed meanwhile: that is no other writer.
        if _replaced(operations, base, changed):
            return True
    _forget(spark, table, stage)
    return False


def _forget(spark: Any, table: Any, stage: str) -> None:
    """Removes a staged snapshot; `expire` removes its files, which belong to no snapshot then."""
    metadata = getattr(spark._jvm, "org.apache.iceberg.TableMetadata")
    for _ in range(ATTEMPTS):
        operations = table.operations()
        base = operations.refresh()
        staged = _staged(base, stage)
        if staged is None:
            return
        gone = spark._jvm.java.util.ArrayList()
        gone.add(staged)
        if _replaced(operations, base, metadata.buildFrom(base).removeSnapshots(gone).build()):
            return


def _staged(base: Any, stage: str) -> Any:
    """The snapshot that was staged under a name; None where there is none."""
    return next((s for s in base.snapshots() if s.summary().get(STAGED_AS) == stage), None)


def _replaced(operations: Any, base: Any, changed: Any) -> bool:
    """Replaces the metadata of a table, unless somebody else did so first."""
    from py4j.protocol import Py4JJavaError

    try:
        operations.commit(base, changed)
        return True
    except Py4JJavaError as exc:
        if "CommitFailedException" not in str(exc.java_exception.toString()):
            raise
        return False


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
