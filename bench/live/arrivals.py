"""When changes are in a table, from its log and its files alone.

A second Spark that asked for new rows would take processor time from the one that is measured. So
nothing reads a table while changes are committed. Afterwards its Delta log says which files each
commit added, and these have the keys and versions of their rows. A change is in the table with the
first commit that shows its version of the row or a later one: where several changes of a row arrive
together, only the last is ever written. The time of a commit is that at which its file was written.

Deletes are left out, for they leave no row that carries their version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

COLUMNS = ("id", "version")
# A backlog grows where the last third of the changes waits longer than the first one, by this
# factor and by these seconds.
GROWTH, GROWN_SECONDS = 1.5, 2.0


class Log:
    """A Delta table that is read without Spark; read again, it reads what is new."""

    def __init__(self, folder: Path, columns: tuple[str, ...] = COLUMNS) -> None:
        """Reads nothing yet.

        Args:
            folder: The table's.
            columns: Columns to read.
        """
        self.folder, self.columns = folder, columns
        self._next = 0
        self._known: set[str] = set()
        self._physical = {name: name for name in columns}
        self._frames: list[pd.DataFrame] = []

    def rows(self) -> pd.DataFrame:
        """Returns all rows that were ever written: the columns, and the time `at` of the commit."""
        while (commit := self.folder / "_delta_log" / f"{self._next:020}.json").exists():
            written_at = commit.stat().st_mtime
            for line in commit.read_text(encoding="utf-8").splitlines():
                self._take(json.loads(line), written_at)
            self._next += 1
        if not self._frames:
            return pd.DataFrame({name: [] for name in (*self.columns, "at")})
        if len(self._frames) > 1:
            self._frames = [pd.concat(self._frames, ignore_index=True)]
        return self._frames[0]

    def _take(self, action: Mapping[str, Any], written_at: float) -> None:
        if "metaData" in action:
            fields = json.loads(action["metaData"]["schemaString"])["fields"]
            names = {
                field["name"]: field["metadata"].get(
                    "delta.columnMapping.physicalName", field["name"]
                )
                for field in fields
            }
            self._physical = {name: names[name] for name in self.columns}
        added = action.get("add")
        # A file with rows that are marked as deleted is added again, and a compaction adds rows
        # that are there already.
        if not added or not added["dataChange"] or added["path"] in self._known:
            return
        self._known.add(added["path"])
        file = pq.ParquetFile(self.folder / unquote(added["path"]))
        table = file.read(columns=list(self._physical.values()))
        frame = table.to_pandas().set_axis(list(self.columns), axis=1)
        # A deleted row that a table keeps has no values but its key.
        self._frames.append(frame.dropna().assign(at=written_at))


def landed(folder: Path) -> pd.DataFrame:
    """Returns the rows of the landed files of a table: `id`, `version`, time `at`, and `file`.

    Args:
        folder: The table's folder below the landing folder.
    """
    found: list[tuple[int, int, float, str]] = []
    for file in folder.glob("[!_]*.jsonl"):
        written_at = file.stat().st_mtime
        for line in file.read_bytes().splitlines():
            values = {one["name"]: one["value"] for one in json.loads(line).get("columns", ())}
            if values:
                name = f"{folder.name}/{file.name}"
                found.append((values["id"], values["version"], written_at, name))
    return pd.DataFrame(found, columns=["id", "version", "at", "file"])


def latencies(committed: pd.DataFrame, arrived: pd.DataFrame) -> pd.Series:
    """Returns the seconds from commit to arrival of each change; infinite where it has not arrived.

    Args:
        committed: `id`, `version` and time `at` of changes, whose order is kept.
        arrived: `id`, `version` and time `at` of rows.
    """
    newest_first = arrived.astype({"at": "float64"}).sort_values("version", ascending=False)
    # A version is there as soon as a later one is.
    first = newest_first.assign(arrived_at=newest_first.groupby("id")["at"].cummin())
    kinds = {"id": "int64", "version": "int64"}
    matched = pd.merge_asof(
        committed.astype(kinds).reset_index(drop=True).reset_index().sort_values("version"),
        first[["id", "version", "arrived_at"]].astype(kinds).sort_values("version"),
        on="version",
        by="id",
        direction="forward",
    ).sort_values("index")
    return (matched["arrived_at"] - matched["at"]).fillna(np.inf).reset_index(drop=True)


def percentile(values: np.ndarray, share: float) -> float | None:
    """Returns the value that a share of all values does not exceed; None where it is infinite.

    Args:
        values: At least one.
        share: From 0 to 1.
    """
    found = float(np.quantile(values, share, method="inverted_cdf"))
    return round(found, 3) if np.isfinite(found) else None


@dataclass(frozen=True)
class Latency:
    """The seconds from commit to arrival of some changes.

    Attributes:
        changes: How many.
        missing: How many have not arrived.
        p50: Median; None where so many have not arrived.
        p95: Of 95 in 100.
        p99: Of 99 in 100.
        grows: Whether the last third waited clearly longer than the first: a backlog.
    """

    changes: int
    missing: int
    p50: float | None
    p95: float | None
    p99: float | None
    grows: bool

    @classmethod
    def of(cls, committed_at: pd.Series, seconds: pd.Series) -> Latency:
        """Returns what latencies come to.

        Args:
            committed_at: When each change was committed.
            seconds: Its latency.
        """
        ordered = seconds.to_numpy()[np.argsort(committed_at.to_numpy(), kind="stable")]
        third = max(1, len(ordered) // 3)
        first, last = np.median(ordered[:third]), np.median(ordered[-third:])
        return cls(
            len(ordered),
            int(np.isinf(ordered).sum()),
            percentile(ordered, 0.5),
            percentile(ordered, 0.95),
            percentile(ordered, 0.99),
            bool(last > GROWTH * first and last > first + GROWN_SECONDS),
        )
