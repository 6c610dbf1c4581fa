"""How far a large load is, for the person who waits for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

from dbt.adapters.sparkcdc.session.remote import is_remote
from dbt_common.events.functions import fire_event
from dbt_common.events.types import Note

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How often a line is written: where somebody watches, and in a log.
SECONDS, SECONDS_IN_A_LOG = 10, 60
GROUP = "spark.jobGroup.id"


class Stage(NamedTuple):
    """What Spark says of a stage.

    Attributes:
        rows: Rows that it has read from files.
        tasks: Its tasks.
        done: Those of them that have ended.
    """

    rows: int
    tasks: int
    done: int


def rows_done(rows: int, stages: Iterable[Stage], reads: int = 1, folds: bool = True) -> int:
    """Estimates how many of a part's rows are done: reading is one half, folding and writing one.

    Args:
        rows: Raw rows of the part.
        stages: The stages of its jobs so far.
        reads: How often the rows are read.
        folds: Whether they are folded; otherwise they are written as they are read.
    """
    found = list(stages)
    read = min(sum(stage.rows for stage in found) / reads, rows)
    if not folds:
        return round(read)
    folding = [stage for stage in found if not stage.rows]
    tasks = sum(stage.tasks for stage in folding)
    folded = sum(stage.done for stage in folding) / tasks if tasks and read >= rows else 0
    return round((read + rows * folded) / 2)


def described(table: str, done: int, total: int, seconds: float) -> str:
    """Says how far a load is.

    Args:
        table: The table.
        done: Raw rows that are done.
        total: All of them.
        seconds: How long it has taken.
    """
    line = f"cdc: {table}: {done:,} of {total:,} raw rows"
    if not done or not seconds:
        return line
    rate = done / seconds
    return f"{line}, {round(rate):,} a second, about {duration((total - done) / rate)} left"


def duration(seconds: float) -> str:
    """Returns a time as people say it.

    Args:
        seconds: The time.
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Load:
    """A load that reports from time to time how far it is, until it is ended.

    Attributes:
        table: The table.
    """

    def __init__(
        self, spark: SparkSession, table: str, say: Callable[[str], None] | None = None
    ) -> None:
        """Begins the load.

        Args:
            spark: The session that runs it.
            table: The table.
            say: Shows a line; dbt does, unless another one is given.
        """
        self.table = table
        self._spark = spark
        self._say = say or _note
        self._began = time.monotonic()
        self._done = self._rows = self._total = 0
        self._reads, self._folds = 1, True
        self._group = ""
        self._ended = Event()
        self._thread: Thread | None = None

    def begin_part(self, rows: int, left: int) -> None:
        """Begins a part, and ends the one before it.

        Args:
            rows: Raw rows of the part.
            left: Those of the load that are not done yet, the part's included.
        """
        self._done, self._rows, self._total = self._done + self._rows, rows, left
        self._total += self._done
        self._reads, self._folds = 1, True
        if self._done and self._thread is None:
            self._report(self._done)
        if is_remote(self._spark):  # Spark Connect says nothing of stages
            return
        self._group = f"cdc {self.table} {self._done}"
        self._spark.sparkContext.setLocalProperty(GROUP, self._group)
        if self._thread is None:
            self._thread = Thread(target=self._watch, name=f"load {self.table}", daemon=True)
            self._thread.start()

    def expect(self, reads: int, folds: bool) -> None:
        """Notes what the part does with its rows.

        Args:
            reads: See `rows_done`.
            folds: See `rows_done`.
        """
        self._reads, self._folds = reads, folds

    def end(self) -> None:
        """Ends the load."""
        self._ended.set()
        if self._thread is not None:
            with suppress(Exception):  # Java may be gone, which is said elsewhere
                self._spark.sparkContext.setLocalProperty(GROUP, None)  # type: ignore[arg-type]

    def _watch(self) -> None:
        seconds = SECONDS if sys.stdout.isatty() else SECONDS_IN_A_LOG
        while not self._ended.wait(seconds):
            try:
                done = rows_done(self._rows, self._stages(), self._reads, self._folds)
            except Exception:  # Java is gone: the load itself reports that
                return
            self._report(self._done + done)

    def _report(self, done: int) -> None:
        self._say(described(self.table, done, self._total, time.monotonic() - self._began))

    def _stages(self) -> list[Stage]:
        context = self._spark.sparkContext
        tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
        found: dict[int, Stage] = {}
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for number in info.stageIds if info else ():
                known = tracker.getStageInfo(number)
                if known is None:  # not begun, or skipped
                    continue
                rows = store.lastStageAttempt(number).inputRecords()
                found[number] = Stage(rows, known.numTasks, known.numCompletedTasks)
        return list(found.values())


def _note(message: str) -> None:
    fire_event(Note(msg=message))
