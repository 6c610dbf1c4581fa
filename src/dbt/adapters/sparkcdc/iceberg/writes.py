"""Commits to Iceberg tables that nobody else came before, and their maintenance."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Collection, Iterator
from typing import Any

from dbt.adapters.sparkcdc.delta.log import FEWEST_COMMITS, LARGE_FILE_BYTES, MOST_SMALL_FILES
from dbt.adapters.sparkcdc.iceberg.tables import (
    CHECKPOINT,
    CHECKPOINT_SETTING,
    FOLLOWS,
    NO_ROWS,
    REPEATS,
    REWRITE,
    commits_since,
    files,
    last_state,
    load,
    newest_commits,
)
from dbt.adapters.sparkcdc.session.cursor import literal
from dbt.adapters.sparkcdc.session.settings_scope import scoped
from dbt_common.exceptions import DbtRuntimeError

STAGED_AS = "wap.id"
STAGING = "write.wap.enabled"
# A file that has deletes beside it is rewritten without the deleted rows.
COMPACTION = {
    "delete-file-threshold": "1",
    "min-input-files": "2",
    "remove-dangling-deletes": "true",
}
ATTEMPTS = 5
# What Iceberg raises where somebody else committed first.
CONFLICTS = ("ValidationException", "CommitFailedException")


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
        _, versions, wrote = last_state(table)
        head = table.currentSnapshot()
        stage = uuid.uuid4().hex
        append = table.newAppend() if merges else table.newFastAppend()
        append.set(CHECKPOINT, checkpoint).set(STAGED_AS, stage)
        append.set(FOLLOWS, " ".join([wrote, *map(str, versions)]))
        append.set(REPEATS, str(repeats).lower()).stageOnly().commit()
        if _publish(spark, table, stage, None if head is None else head.snapshotId()):
            return True
    return False


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
    for operations, base, staged in _attempts(table, stage):
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
    for operations, base, staged in _attempts(table, stage):
        if staged is None:
            return
        gone = spark._jvm.java.util.ArrayList()
        gone.add(staged)
        if _replaced(operations, base, metadata.buildFrom(base).removeSnapshots(gone).build()):
            return


def _attempts(table: Any, stage: str) -> Iterator[tuple[Any, Any, Any]]:
    """Yields for each attempt a table's operations, its metadata, the staged snapshot or None."""
    for _ in range(ATTEMPTS):
        operations = table.operations()
        base = operations.refresh()
        staged = (s for s in base.snapshots() if s.summary().get(STAGED_AS) == stage)
        yield operations, base, next(staged, None)


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


def compaction_pays(table: Any) -> bool:
    """Returns whether a table has so many small files that putting them together pays.

    A table of many partitions has many small files in any case: some commits have to be there since
    the last time.

    Args:
        table: See `load`.
    """
    known = files(table)
    # By the average: a few large files must not hide the files of deletes as well.
    small = max(known["data"] - known["bytes"] // LARGE_FILE_BYTES, 0)
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
    checkpoint, _, _ = last_state(load(spark, name))
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
