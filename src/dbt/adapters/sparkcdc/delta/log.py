"""The newest commits of a Delta table, read from its log: `describe history` starts a Spark job."""

from __future__ import annotations

import json
import re
from base64 import b85decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import UUID

from dbt.adapters.sparkcdc.tables.places import Place, lines_of, local_folder

COMMIT = re.compile(r"(\d{20})\.json")
CHECKSUM = re.compile(r"(\d{20})\.crc")
# Folders of commits that a catalog holds before they are written into the log itself.
STAGED = frozenset(["_commits", "_staged_commits"])

CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*parquet|(\d{20})\.checkpoint\..*json")
# Delta writes the names of deletion vectors in Z85, Python reads RFC 1924.
FROM_Z85 = str.maketrans(
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)
UUID_CHARS = 20

LARGE_FILE_BYTES = 64 * 1024**2
MOST_SMALL_FILES = 50
# A table of many partitions has many small files in any case: so many commits are made between two
# compactions.
FEWEST_COMMITS = 16
# From this size on a table has deletion vectors, see `vectors_pay`.
LARGE_TABLE_BYTES = 4 * 1024**2
VECTORS = "delta.enableDeletionVectors"
# Delta refuses deletion vectors beside them.
WITHOUT_VECTORS = (
    "delta.compatibility.symlinkFormatManifest.enabled",
    "delta.enableIcebergCompatV1",
    "delta.enableIcebergCompatV2",
)
# Before so many commits of maintenance a write is not looked for.
MOST_MAINTENANCE = 20
# Operations that leave other rows as they are, in other files perhaps.
DELETIONS = frozenset(["DELETE", "TRUNCATE"])
# Takes files away, and brings back others, whose rows count as appended: they may never have been
# read.
RESTORE = "RESTORE"
# Reading more commits than these takes longer than a query.
MOST_COMMITS_READ = 200


def newest_commits(folder: Place, limit: int) -> list[dict[str, Any]] | None:
    """Returns the newest commits, the last one first, with the columns of `describe history`.

    A commit has `version`, `operation`, `userMetadata` and, as `id`, what tells it from every other
    commit, those of a table that had the same name before included; None where it does not say.

    Args:
        folder: The table's folder.
        limit: How many at most.

    Returns:
        None where Spark must be asked: there is no such log, or it is not all there is.
    """
    try:
        log = folder / "_delta_log"
        names = [path.name for path in log.iterdir()]
        if any(staged in names and any((log / staged).iterdir()) for staged in STAGED):
            return None
        newest = sorted(commit_versions(names), reverse=True)[:limit]
        if not newest or newest != list(range(newest[0], newest[0] - len(newest), -1)):
            return None
        return [_commit(folder, version) for version in newest]
    except (OSError, ValueError):
        return None


def table_id(folder: Place, version: int) -> str | None:
    """Returns Delta's identifier of a table, or None where a version's checksum does not tell.

    Args:
        folder: The table's folder.
        version: A version that Delta has written.
    """
    try:
        return str(_checksum(folder, version)["metadata"]["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def table_bytes(folder: Place, version: int) -> int | None:
    """Returns the size of a table's files at a version, or None where its checksum does not tell.

    Args:
        folder: The table's folder.
        version: A version that Delta has written.
    """
    try:
        size = _checksum(folder, version)["tableSizeBytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return size if isinstance(size, int) else None


def commit_versions(names: Iterable[str]) -> list[int]:
    """Returns the versions whose commits are among the files of a log, in no order.

    Args:
        names: Names of files.
    """
    return [int(found[1]) for found in map(COMMIT.fullmatch, names) if found]


def _checksum(folder: Place, version: int) -> Any:
    """What Delta wrote about a version beside its commit."""
    return json.loads((folder / "_delta_log" / f"{version:020}.crc").read_text(encoding="utf-8"))


def written_alone(
    commits: Iterable[Mapping[str, Any]], version: int, checkpoint: str, maintenance: Iterable[str]
) -> tuple[bool, bool]:
    """Returns whether a commit of ours is there, and whether somebody else wrote as well.

    What counts is rows, and that `cdc_replay` has set the table back: what our rows were computed
    from is not what is to be read then.

    Args:
        commits: The newest commits, as of `newest_commits`.
        version: The version that the rows were computed from.
        checkpoint: The user metadata of our commit.
        maintenance: Operations that change no rows.
    """
    later = [commit for commit in commits if commit["version"] > version]
    ours = [commit for commit in later if commit["userMetadata"] == checkpoint]
    others = [
        commit
        for commit in later
        if commit["userMetadata"] != checkpoint
        and (commit["operation"] not in set(maintenance) or sets_back(commit))
    ]
    return bool(ours), bool(others)


def sets_back(commit: Mapping[str, Any]) -> bool:
    """Returns whether a commit has the next build read again what was read before.

    Args:
        commit: One of `newest_commits`.
    """
    try:
        checkpoint = json.loads(commit["userMetadata"] or "{}")
    except ValueError:  # the words of another program
        return False
    return isinstance(checkpoint, dict) and bool(checkpoint.get("set_back"))


def last_write(folder: Place, maintenance: Collection[str]) -> str | None:
    """Returns what tells the newest commit that wrote rows from every other commit.

    Args:
        folder: The table's folder.
        maintenance: Operations that change no rows.

    Returns:
        See `newest_commits`, `id`; None where Spark must be asked.
    """
    for limit in (1, MOST_MAINTENANCE):
        commits = newest_commits(folder, limit)
        for commit in commits or []:
            if commit["operation"] not in maintenance:
                return commit["id"]
    return commits[0]["id"] if commits else None


def _commit(folder: Place, version: int) -> dict[str, Any]:
    info: dict[str, Any] = {}
    for line in lines_of(folder / "_delta_log" / f"{version:020}.json"):
        # It is the first line of most commits; others can have many thousands.
        if line.startswith('{"commitInfo"'):
            info = json.loads(line)["commitInfo"]
            break
    mark = info.get("txnId") or info.get("timestamp")
    return {
        "version": version,
        "operation": info.get("operation"),
        "userMetadata": info.get("userMetadata"),
        "id": mark and f"{version} {mark}",
    }


def compaction_pays(folder: Place, version: int) -> bool:
    """Returns whether a table has so many small files that putting them together pays.

    Delta's own auto compaction counts the commits of a process, and so starts with the first commit
    of each. The log tells the same whoever asks.

    Args:
        folder: The table's folder.
        version: A version that Delta has written.
    """
    try:
        small = _small_files(_checksum(folder, version))
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if small < MOST_SMALL_FILES:
        return False
    latest = newest_commits(folder, FEWEST_COMMITS) or []
    return not any(commit["operation"] == "OPTIMIZE" for commit in latest)


def vectors_pay(folder: Place, version: int) -> bool:
    """Returns whether a table without deletion vectors has grown so large that it should have them.

    Spark lists the files of a table with vectors twice for each read. The files of a small table
    are written again in less time than that takes.

    Args:
        folder: The table's folder.
        version: A version that Delta has written.

    Returns:
        False where the table says something of deletion vectors, or is kept for readers that do not
        know them.
    """
    try:
        known = _checksum(folder, version)
        properties = known["metadata"]["configuration"]
        if known["tableSizeBytes"] <= LARGE_TABLE_BYTES or VECTORS in properties:
            return False
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return not any(properties.get(name) == "true" for name in WITHOUT_VECTORS)


def _small_files(known: Any) -> int:
    """The small files of a version, by its checksum."""
    if sizes := known.get("fileSizeHistogram"):
        counts = zip(sizes["sortedBinBoundaries"], sizes["fileCounts"], strict=True)
        return sum(count for least, count in counts if least < LARGE_FILE_BYTES)
    # Other writers leave the histogram out. Then the average has to do.
    return int(known["numFiles"] - known["tableSizeBytes"] // LARGE_FILE_BYTES)


class Appended(NamedTuple):
    """What was appended to a table since a version.

    Attributes:
        highest: The largest value of the column among the new rows; None without one.
        rows: The number of new rows. Where some lie behind, neither of the two counts them. None
            where nobody knows more than that some lie behind.
        version: The version that this was read at.
        lowest: A value that none of what was appended lies below, the smallest one unless rows were
            deleted since; None where nothing was appended.
    """

    highest: int | None
    rows: int | None
    version: int
    lowest: int | None

    def is_behind(self, position: int) -> bool:
        """Returns whether something was appended that does not lie after a position.

        Args:
            position: The largest value that has been read.
        """
        return self.lowest is not None and self.lowest <= position


def appended(
    folder: Place,
    version: int,
    column: str,
    after: int,
    partition: Sequence[str] = (),
    table: str | None = None,
) -> Appended | None:
    """Returns what was appended to a table since a version, from the statistics of its files.

    Args:
        folder: The table's folder.
        version: The version to start after.
        column: A column of whole numbers.
        after: Rows count only where the column is larger.
        partition: A partition column and its value as the log writes it; only the rows of this
            partition count. Without one all rows do.
        table: Delta's identifier of the table, whose commits are read once in a process; None:
            where nobody knows it, they are read each time.

    Returns:
        None where only a query can tell: rows were changed or new ones deleted, a file has no
        statistics, or the log ends before the version. If some rows lie behind `after` all the
        same, this is returned: a query for larger values would not find them.
    """
    try:
        log = folder / "_delta_log"
        names = [path.name for path in log.iterdir()]
        newest = max(commit_versions(names))
        if not 0 <= newest - version <= MOST_COMMITS_READ:
            return None
        column, *cut_by = _physical_names(folder, names, [column, *partition[:1]])
        read = _appends if table is not None else _appends.__wrapped__
        largest, smallest, rows, are_all = None, None, 0, True
        for number in range(version + 1, newest + 1):
            file = log / f"{number:020}.json"
            commit = read(file, column, cut_by[0] if cut_by else None, table)
            # Rows of this window can be among those taken away where some were appended already.
            if commit.takes and smallest is not None:
                are_all = False
            are_all = are_all and commit.are_all
            for value, least, most, records in commit.files:
                if partition and value != partition[1]:
                    continue
                smallest = least if smallest is None else min(smallest, least)
                if least > after:
                    largest = most if largest is None else max(largest, most)
                    rows += records
        if are_all:
            return Appended(largest, rows, newest, smallest)
        is_behind = smallest is not None and smallest <= after
        return Appended(None, None, newest, smallest) if is_behind else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _physical_names(folder: Place, names: Iterable[str], columns: list[str]) -> list[str]:
    """The names that columns have in the log, which tells upper from lower case.

    With column mapping they keep the first one. Another column may have had the present name of one
    of them before.
    """
    checksums = [int(found[1]) for found in map(CHECKSUM.fullmatch, names) if found]
    # Only other writers leave all of them out, and those do not rename columns.
    if not checksums:
        return columns
    metadata = _checksum(folder, max(checksums))["metadata"]
    fields = json.loads(metadata["schemaString"])["fields"]
    known = {field["name"].lower(): field for field in fields}
    found = [known[column.lower()] for column in columns]
    if metadata.get("configuration", {}).get("delta.columnMapping.mode", "none") == "none":
        return [field["name"] for field in found]
    return [field["metadata"]["delta.columnMapping.physicalName"] for field in found]


class _Appends(NamedTuple):
    """What a commit appended.

    Attributes:
        takes: Whether it is one that takes rows away, as deletions do.
        files: Of each new file the value of the partition column, the smallest and the largest
            value of the column, and the number of rows.
        are_all: Whether these are all rows that it appended, and it did nothing else.
    """

    takes: bool
    files: tuple[tuple[str | None, int, int, int], ...]
    are_all: bool


# All tables that read a raw table ask for the same commits.
@lru_cache(maxsize=4 * MOST_COMMITS_READ)
def _appends(file: Place, column: str, partition: str | None, table: str | None) -> _Appends:
    text = file.read_text(encoding="utf-8")
    actions = [json.loads(line) for line in text.split("\n") if line]
    operations = [action.get("commitInfo", {}).get("operation") for action in actions]
    # What is left of a file whose rows were deleted was there before.
    if DELETIONS.intersection(operations):
        return _Appends(True, (), True)
    restores = RESTORE in operations
    # Rows that were changed are in files with others that were not.
    if not restores and any(action.get("remove", {}).get("dataChange") for action in actions):
        return _Appends(False, (), False)
    are_all = not any("metaData" in action for action in actions)
    files: list[tuple[str | None, int, int, int]] = []
    for added in (action["add"] for action in actions if "add" in action):
        if not added["dataChange"]:
            continue
        try:
            known = json.loads(added["stats"])
            least, most = known["minValues"][column], known["maxValues"][column]
            rows, nulls = known["numRecords"], known["nullCount"][column]
            value = None if partition is None else added["partitionValues"][partition]
        except (ValueError, KeyError, TypeError):  # a file without statistics
            are_all = False
            continue
        if type(least) is not int or type(most) is not int:
            are_all = False
            continue
        # Statistics are of all rows that the file ever had.
        are_all = are_all and not nulls and not added.get("deletionVector")
        files.append((value, least, most, rows))
    return _Appends(restores, tuple(files), are_all)


def first_change(folder: Place, wanted: int) -> int | None:
    """Returns the first version from which on all changes of a table can be read.

    VACUUM removes the files that older changes are read from, and Delta's retention the commits.

    Args:
        folder: The table's folder.
        wanted: The version that somebody wants to read from.

    Returns:
        The wanted version where nothing is missing; one after the newest where all is; None where
        the log does not tell.
    """
    try:
        names = [path.name for path in (folder / "_delta_log").iterdir()]
        newest = max(commit_versions(names))
        first = 0
        if f"{0:020}.json" not in names:
            # Changes are read on top of a version that a checkpoint gives.
            found = [m[1] or m[2] for m in map(CHECKPOINT.fullmatch, names) if m]
            first = min(map(int, found), default=newest + 1)
        for number in range(newest, max(wanted, first) - 1, -1):
            if not _has_changes(folder, number):
                return number + 1
        return max(wanted, first)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _has_changes(folder: Place, version: int) -> bool:
    """Whether all files are there that the changes of a commit are read from."""
    path = folder / "_delta_log" / f"{version:020}.json"
    if not path.exists():
        return False
    written: list[Any] = []
    files: list[Any] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        action = json.loads(line) if line else {}
        if "cdc" in action:
            written.append(action["cdc"])
        file = action.get("add") or action.get("remove")
        if file and file["dataChange"]:
            files.append(file)
    # Where a commit has change-data files, they are all that is read.
    return all(file.exists() for action in written or files for file in _files_of(folder, action))


def _files_of(folder: Place, action: Mapping[str, Any]) -> list[Place]:
    def located(path: str) -> Place:
        if ":/" in path:
            found = local_folder(path)
            if found is None:
                raise ValueError(path)
            return found
        return folder / unquote(path)

    files: list[Place] = [located(action["path"])]
    vector = action.get("deletionVector")
    if vector and vector["storageType"] == "p":
        files.append(located(vector["pathOrInlineDv"]))
    elif vector and vector["storageType"] == "u":
        name = vector["pathOrInlineDv"]
        uuid = UUID(bytes=b85decode(name[-UUID_CHARS:].translate(FROM_Z85)))
        files.append(folder / name[:-UUID_CHARS] / f"deletion_vector_{uuid}.bin")
    return files
