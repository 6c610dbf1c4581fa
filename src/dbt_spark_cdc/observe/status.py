"""Where each table stands, read from Delta's logs and dbt's artifacts."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from dbt.adapters.sparkcdc.delta.log import LARGE_FILE_BYTES

from dbt_spark_cdc import words
from dbt_spark_cdc.observe.delta_table import DataFile, DeltaTable, UnreadableLog, read_table
from dbt_spark_cdc.observe.runs import Run, ledger_rows, runs_of
from dbt_spark_cdc.project import BadProject, CdcTable, Node, Project, Result

# `cdc_optimize` counts as small what is below it.
SMALL_FILE_BYTES = LARGE_FILE_BYTES // 2
# More rows than these are not read to find out which table they are of.
MOST_ROWS_READ = 5_000_000

UP_TO_DATE, BEHIND, FAILED = "up to date", "behind", "failed"
NOT_BUILT, UNKNOWN = "not built", "unknown"
STATES = (UP_TO_DATE, BEHIND, FAILED, NOT_BUILT, UNKNOWN)


@dataclass(frozen=True)
class Unread:
    """Raw rows that a table has not read.

    Attributes:
        rows: How many; None where only Spark can tell.
        exact: Whether there can be no fewer: several tables may share the raw table.
        since: When the oldest of them was written.
        files: The files that hold them.
    """

    rows: int | None
    exact: bool = True
    since: datetime | None = None
    files: tuple[DataFile, ...] = ()


@dataclass
class Stored:
    """The Delta table of a node.

    Attributes:
        node: The node.
        folder: Where it is; None where it is not on a disk of this machine.
        table: What its log says; None where there is no table.
        problem: Why the log could not be read.
    """

    node: Node
    folder: Path | None
    table: DeltaTable | None
    problem: str = ""

    @property
    def may_be_there(self) -> bool:
        """Whether the table is there, or nobody here can know."""
        return self.table is not None or bool(self.problem)

    @property
    def small_files(self) -> int:
        """How many files are small enough to be put together."""
        files = self.table.files.values() if self.table else []
        return sum(file.size < SMALL_FILE_BYTES for file in files)

    def as_json(self) -> dict[str, Any]:
        """Returns the table as `--json` prints it."""
        table = self.table
        return {
            "node": self.node["name"],
            "relation": self.node.get("relation_name"),
            "folder": str(self.folder) if self.folder else None,
            "problem": self.problem or None,
            "version": table.version if table else None,
            "changed_at": table.commits[0].at.isoformat() if table and table.commits else None,
            "rows": table.rows if table else None,
            "files": len(table.files) if table else None,
            "small_files": self.small_files if table else None,
            "bytes": table.size if table else None,
            "deletion_vectors": table.deletion_vectors if table else None,
            "deleted_rows": table.deleted_rows if table else None,
        }


@dataclass
class TableStatus:
    """Where a table stands.

    Attributes:
        table: The table.
        state: One of the states above.
        reason: Why it is in that state.
        unread: Raw rows that are to be read.
        unread_versions: Versions of the history that the final table has not read.
        high_water_mark: The newest arrival that was read.
        newest_event: The time of the newest event in the table.
        runs: The runs that changed it, the oldest first.
        result: What the last run of dbt said of it.
        failed_tests: Its tests that failed then.
        quarantined: Bad events of all time.
        quarantined_exact: Whether there are no more of them: a first build does not count.
        stored: The Delta tables of its nodes.
        raw: The Delta table of its source.
    """

    table: CdcTable
    state: str = UNKNOWN
    reason: str = ""
    unread: Unread = field(default_factory=lambda: Unread(None))
    unread_versions: int | None = None
    high_water_mark: int | None = None
    newest_event: str | None = None
    runs: list[Run] = field(default_factory=list)
    result: Result | None = None
    failed_tests: list[Result] = field(default_factory=list)
    quarantined: int | None = None
    quarantined_exact: bool = False
    stored: list[Stored] = field(default_factory=list)
    raw: Stored | None = None

    def lag(self, now: datetime) -> timedelta | None:
        """Returns how long the oldest unread row has waited; zero where none does.

        Args:
            now: The present.
        """
        if self.unread.since is not None:
            return max(now - self.unread.since, timedelta())
        return timedelta() if self.unread.rows == 0 else None

    def of(self, node: Node) -> Stored:
        """Returns the Delta table of one of the nodes.

        Args:
            node: The node.
        """
        return next(one for one in self.stored if one.node["name"] == node["name"])

    def as_json(self, now: datetime) -> dict[str, Any]:
        """Returns the status as `--json` prints it.

        Args:
            now: The present.
        """
        lag = self.lag(now)
        return {
            "table": self.table.name,
            "source": self.table.source_name or None,
            "state": self.state,
            "reason": self.reason or None,
            "lag_seconds": None if lag is None else round(lag.total_seconds(), 3),
            "unread_rows": self.unread.rows,
            "unread_rows_exact": self.unread.exact,
            "unread_versions": self.unread_versions,
            "high_water_mark": self.high_water_mark,
            "newest_event": self.newest_event,
            "quarantined": self.quarantined,
            "quarantined_exact": self.quarantined_exact,
            "last_result": {
                "status": self.result.status,
                "message": self.result.message or None,
                "seconds": self.result.seconds,
                "finished": self.result.finished.isoformat() if self.result.finished else None,
            }
            if self.result
            else None,
            "failed_tests": [test.node.split(".")[2] for test in self.failed_tests],
            "last_run": self.runs[-1].as_json() if self.runs else None,
            "nodes": [stored.as_json() for stored in self.stored],
        }


class Logs:
    """The Delta tables of a project, each read once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[Path, Stored] = {}

    def of(self, node: Node) -> Stored:
        """Returns the Delta table of a node or source.

        Args:
            node: A node of the manifest.
        """
        if node["config"].get("file_format") == "iceberg":
            reason = "it is an Iceberg table, and this reads Delta's logs: query the ledger"
            return Stored(node, None, None, f"{reason} {self._project.ledger_name} instead")
        folder = self._project.folder(node)
        if folder is None:
            reason = self._project.elsewhere or "its location_root is not on a disk of this machine"
            return Stored(node, None, None, reason)
        if folder not in self._known:
            try:
                self._known[folder] = Stored(node, folder, read_table(folder))
            except UnreadableLog as exc:
                self._known[folder] = Stored(node, folder, None, str(exc))
        return self._known[folder]


def statuses(
    project: Project, tables: Iterable[CdcTable] | None = None, notes: list[str] | None = None
) -> list[TableStatus]:
    """Returns where tables stand.

    Args:
        project: The project.
        tables: The tables; None: all.
        notes: Gets what the numbers leave open.

    Raises:
        BadProject: The tables are not on this machine.
    """
    if project.credentials is None:
        raise BadProject(
            f"This reads Delta's logs from disk, and {project.elsewhere}. There, query the ledger: "
            "`select * from <schema>.cdc_runs`."
        )
    logs = Logs(project)
    ledger = _ledger(project)
    if ledger and ledger.deleted_rows and notes is not None:
        notes.append(
            f"{ledger.deleted_rows} rows that were deleted from the ledger cdc_runs are counted: "
            "deletion vectors hide them from Spark only. "
            f"`reorg table {project.ledger_name} apply (purge)` removes them."
        )
    recorded = ledger_rows(ledger)
    audited = _audited(project, logs)
    return [
        _status(project, table, logs, recorded, audited)
        for table in (project.tables() if tables is None else tables)
    ]


def _ledger(project: Project) -> DeltaTable | None:
    folder = project.ledger()
    try:
        return read_table(folder) if folder else None
    except UnreadableLog as exc:
        raise BadProject(f"The ledger cdc_runs cannot be read. {exc}") from exc


def _audited(project: Project, logs: Logs) -> dict[str, tuple[int, datetime]]:
    """Quarantined events by table, as the tables on `cdc.audit` have them, and as of when."""
    found: dict[str, tuple[int, datetime]] = {}
    for node in project.audits():
        table = logs.of(node).table
        if table is None or not table.commits:
            continue
        for row in table.read(["table_name", "events_quarantined"]).to_pylist():
            if row["events_quarantined"] is not None:
                found[row["table_name"]] = (row["events_quarantined"], table.commits[0].at)
    return found


def _status(
    project: Project,
    table: CdcTable,
    logs: Logs,
    ledger: Sequence[dict[str, Any]],
    audited: dict[str, tuple[int, datetime]],
) -> TableStatus:
    found = TableStatus(table)
    found.stored = [logs.of(node) for node in table.nodes if _has_log(node)]
    found.raw = logs.of(table.source) if table.source else None
    raw = found.raw.table if found.raw else None
    stored = logs.of(table.reader)
    reader = stored.table
    checkpoint = newest_checkpoint(reader)
    found.runs = runs_of(table, ledger, reader, raw)
    found.high_water_mark = checkpoint.get("read_to")
    files = project.external_folder(table.source) if table.source and raw is None else None
    if files and reader:
        found.unread = _unread_files(files, _read_at(project, table, found.runs))
    elif reader or not stored.may_be_there:
        found.unread = _unread(table, raw, reader, checkpoint, logs)
    found.unread_versions = _unread_versions(table, logs)
    found.newest_event = _newest_event(table, logs)
    last = project.last_run
    found.result = last.results.get((table.final or table.reader)["unique_id"]) if last else None
    for node in table.nodes:
        result = last.results.get(node["unique_id"]) if last else None
        if result and result.failed:
            found.result = result
            break
    found.failed_tests = project.failed_tests(table)
    _count_quarantined(found, audited)
    found.state, found.reason = _state(found)
    return found


def newest_checkpoint(table: DeltaTable | None) -> dict[str, Any]:
    """Returns the newest checkpoint of a table; nothing where its log has none.

    Args:
        table: The table.
    """
    for commit in table.commits if table else []:
        if commit.checkpoint:
            return dict(commit.checkpoint)
    return {}


def _unread(
    table: CdcTable,
    raw: DeltaTable | None,
    reader: DeltaTable | None,
    checkpoint: dict[str, Any],
    logs: Logs,
) -> Unread:
    if raw is None:
        return Unread(None)
    read_to = checkpoint.get("read_to")
    if table.resolver:
        # The history counts the runs of the resolver; of arrivals the resolver's table tells.
        resolved = logs.of(table.resolver).table
        read_to = newest_checkpoint(resolved).get("read_to")
        if read_to is None and resolved is not None:
            read_to = resolved.newest("_arrived")
    declaration = table.declaration
    landed = declaration.get("landed")
    arrival = declaration.get("arrival", "_batch" if landed else None)
    if reader is None:
        return unread_rows(raw, None, None, _own_rows(table))
    if arrival is None or not re.fullmatch(r"\w+", str(arrival)) or not isinstance(read_to, int):
        return _unread_commits(raw, reader)
    return unread_rows(raw, arrival, read_to, _own_rows(table))


def _read_at(project: Project, table: CdcTable, runs: Sequence[Run]) -> datetime | None:
    """When the newest run began that has read the source of a table."""
    began = [run.at for run in runs[-1:]]
    last = project.last_run
    result = last.results.get(table.reader["unique_id"]) if last else None
    if last and last.started and result and not result.failed and result.status != "skipped":
        began.append(last.started)
    return max(began, default=None)


def _unread_files(folder: Path, read_at: datetime | None) -> Unread:
    """Files without a log: those that came into the folder after the table was read."""
    if read_at is None:
        return Unread(None)
    # Copies may keep the time at which their content changed, and not this one.
    came = [
        datetime.fromtimestamp(max(found.st_mtime, found.st_ctime), timezone.utc)
        for file in folder.glob("**/*")
        if not file.name.startswith((".", "_")) and stat.S_ISREG((found := file.stat()).st_mode)
    ]
    later = [at for at in came if at > read_at]
    return Unread(None, False, min(later)) if later else Unread(0)


def _own_rows(table: CdcTable) -> tuple[str, str] | bool:
    """How the rows of a table are distinguished from those of others in a shared raw table.

    Returns:
        A column and its value; True where all rows are its own; False where it takes a query.
    """
    declaration = table.declaration
    if declaration.get("landed") and "where" not in declaration:
        return "_table", (table.source or {})["name"]
    return not (declaration.get("where") or declaration.get("source_table"))


def unread_rows(
    raw: DeltaTable, arrival: str | None, read_to: int | None, own: tuple[str, str] | bool
) -> Unread:
    """Returns the rows of a raw table whose arrival is newer than what was read.

    Args:
        raw: The raw table.
        arrival: The column that numbers arrivals; None: all rows count.
        read_to: The newest arrival that was read.
        own: What `_own_rows` says.
    """
    candidates = []
    for file in raw.files.values():
        low, high = _range(raw, file, arrival)
        if read_to is not None and high is not None and high <= read_to:
            continue
        if isinstance(own, tuple) and file.partition.get(own[0], own[1]) != own[1]:
            continue
        is_new = read_to is None or (low is not None and low > read_to)
        is_own = own is True or (isinstance(own, tuple) and own[0] in file.partition)
        candidates.append((file, is_new and (is_own or own is False)))
    rows = 0
    holding = []
    exact = own is not False and not raw.deleted_rows
    to_read = sum(file.rows or 0 for file, known in candidates if not known)
    for file, known in candidates:
        if known or to_read > MOST_ROWS_READ:
            count = file.rows
            exact = exact and known
        else:
            count = _count(raw, file, arrival, read_to, own)
        if count is None:
            return Unread(None, False, _oldest(f for f, _ in candidates))
        if count:
            rows += count
            holding.append(file)
    return Unread(rows, exact, _oldest(holding), tuple(holding))


def _range(raw: DeltaTable, file: DataFile, arrival: str | None) -> tuple[Any, Any]:
    if arrival is None:
        return None, None
    name = raw.physical(arrival)
    if name in file.partition:
        value = file.partition[name]
        return (int(value), int(value)) if value is not None else (None, None)
    low = file.stats.get("minValues", {}).get(name)
    high = file.stats.get("maxValues", {}).get(name)
    return (low, high) if type(low) is int and type(high) is int else (None, None)


def _count(
    raw: DeltaTable,
    file: DataFile,
    arrival: str | None,
    read_to: int | None,
    own: tuple[str, str] | bool,
) -> int | None:
    columns = [arrival] if arrival else []
    if isinstance(own, tuple):
        columns.append(own[0])
    try:
        rows = raw.read(columns, [file])
        if isinstance(own, tuple):
            rows = rows.filter(pc.equal(rows[own[0]], own[1]))
        if arrival and read_to is not None:
            rows = rows.filter(pc.greater(rows[arrival], read_to))
    except (UnreadableLog, ValueError, TypeError, NotImplementedError):
        return None
    return rows.num_rows


def _unread_commits(raw: DeltaTable, reader: DeltaTable) -> Unread:
    """Without a number of arrivals: the raw table's commits since the reader's last one."""
    written = [commit.at for commit in reader.commits if commit.checkpoint]
    if not written or not raw.commits:
        return Unread(None)
    later = [commit.at for commit in raw.commits if commit.changes_rows and commit.at > written[0]]
    return Unread(None, False, min(later)) if later else Unread(0)


def _oldest(files: Iterable[DataFile]) -> datetime | None:
    return min((file.modified for file in files), default=None)


def _has_log(node: Node) -> bool:
    """Whether a node is a table with a log: neither a view nor plain Parquet files."""
    config = node["config"]
    return config["materialized"] != "view" and config.get("file_format") != "parquet"


def _unread_versions(table: CdcTable, logs: Logs) -> int | None:
    """Versions of the history with rows that the final table has not read."""
    if not table.history or not table.final or not _has_log(table.final):
        return None
    history, final = logs.of(table.history).table, logs.of(table.final).table
    read = newest_checkpoint(final).get("version")
    if history is None or not isinstance(read, int):
        return None
    return sum(commit.version > read and commit.changes_rows for commit in history.commits)


def _newest_event(table: CdcTable, logs: Logs) -> str | None:
    for node, column in ((table.final, "_cdc_updated_at"), (table.history, "dbt_updated_at")):
        stored = logs.of(node).table if node else None
        value = stored.newest(column) if stored else None
        # Without event times these columns hold positions.
        if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
            return value
    return None


def _count_quarantined(found: TableStatus, audited: dict[str, tuple[int, datetime]]) -> None:
    counted = [run.counters.get("quarantined") for run in found.runs]
    known = audited.get((found.table.source or {}).get("name", ""))
    if known and not any(run.at > known[1] for run in found.runs):
        found.quarantined, found.quarantined_exact = known[0], True
    elif found.runs:
        found.quarantined = sum(count or 0 for count in counted)
        found.quarantined_exact = None not in counted


def _state(found: TableStatus) -> tuple[str, str]:
    if found.result and found.result.failed:
        lines = found.result.message.splitlines() or [found.result.status]
        return FAILED, " ".join(line.strip() for line in lines if line.strip())
    for stored in [*found.stored, *([found.raw] if found.raw else [])]:
        if stored.problem:
            return UNKNOWN, stored.problem
    missing = [stored.node["name"] for stored in found.stored if stored.table is None]
    if missing and found.failed_tests and found.result and found.result.status == "skipped":
        tests = ", ".join(test.node.split(".")[2] for test in found.failed_tests)
        return NOT_BUILT, (
            f"no table {', '.join(missing)}: the last run skipped it after the failed test {tests}."
            " Correct what it found and run `dbt build`, or leave it out: `dbt build --exclude "
            f"{tests.replace(', ', ' ')}`"
        )
    if missing:
        return NOT_BUILT, f"no table {', '.join(missing)}: run `dbt build`"
    unread = found.unread
    if unread.rows or unread.since:
        if unread.rows is None:
            return BEHIND, "rows not read"
        return (
            BEHIND,
            f"{'' if unread.exact else 'at most '}{words.counted(unread.rows, 'raw row')} not read",
        )
    if found.unread_versions:
        return BEHIND, f"{words.counted(found.unread_versions, 'version')} of the history not read"
    if found.failed_tests:
        return FAILED, f"{words.counted(len(found.failed_tests), 'test')} failed in the last run"
    if unread.rows is None:
        why = found.raw.folder if found.raw and found.raw.folder else "its source"
        return UNKNOWN, f"{why} is not a readable Delta table with numbered arrivals"
    return UP_TO_DATE, ""


def present() -> datetime:
    """Returns the present, in UTC."""
    return datetime.now(timezone.utc)
