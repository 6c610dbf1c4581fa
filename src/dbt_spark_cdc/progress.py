"""Progress of a dbt command that runs in this process: a bar on terminals, else plain lines."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

# Of plain output: after so much silence it says what is running.
SILENCE_SECONDS = 10.0
# Each test would be a line of its own; those that do not pass are. dbt does nothing for exposures.
QUIET_KINDS = frozenset(["test", "unit_test", "operation", "exposure"])
PASSED = frozenset(["success", "pass", "no-op", "skipped"])
RUNNING_SHOWN = 3


class Progress:
    """Shows what dbt does, from its events: hand `listen` to `dbtRunner(callbacks=[...])`."""

    def __init__(self, console: Console, label: str, silence: float = SILENCE_SECONDS) -> None:
        """Makes a progress that is shown while it is used as a context.

        Args:
            console: Where to show it.
            label: What is being done.
            silence: Seconds without a line after which plain output says what is running.
        """
        self._console = console
        self._label = label
        self._silence = silence
        self._lock = threading.RLock()
        self._done = 0
        self._total = 0
        self._running: dict[str, tuple[str, float]] = {}
        self._spoke = time.monotonic()
        self._ended = threading.Event()
        self._bar: Bar | None = None
        self._heartbeat: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[running]}", style="dim"),
                console=self._console,
                transient=True,
            )
            self._bar.add_task(self._label, total=None, running="dbt reads, Spark starts")
            self._bar.start()
        else:
            self._say("dbt reads the project, Spark starts")
            self._heartbeat = threading.Thread(target=self._beat, daemon=True)
            self._heartbeat.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._bar:
            self._bar.stop()
        if self._heartbeat:
            self._heartbeat.join()

    def listen(self, event: Any) -> None:
        """Takes note of one of dbt's events.

        Args:
            event: The event.
        """
        name = event.info.name
        if name == "LogStartLine":
            with self._lock:
                self._total = max(self._total, event.data.total)
                self._update()
        elif name == "NodeStart":
            info = event.data.node_info
            with self._lock:
                self._running[info.unique_id] = (info.node_name, time.monotonic())
                self._update()
        elif name == "NodeFinished":
            self._finished(event.data.node_info, event.data.run_result)

    def _finished(self, info: Any, result: Any) -> None:
        status = str(info.node_status)
        with self._lock:
            self._running.pop(info.unique_id, None)
            self._done += 1
            self._update()
            if self._bar or (info.resource_type in QUIET_KINDS and status in PASSED):
                return
            kind = str(info.resource_type).replace("_", " ")
            seconds = f"{float(result.execution_time or 0):.1f} s"
            self._say(f"{self._count()}  {kind} {info.node_name}  {status}  {seconds}")

    def _update(self) -> None:
        if self._bar:
            names = [name for name, _ in self._running.values()]
            more = len(names) - RUNNING_SHOWN
            running = ", ".join(names[:RUNNING_SHOWN]) + (f" and {more} more" if more > 0 else "")
            task = self._bar.task_ids[0]
            self._bar.update(
                task, completed=self._done, total=self._total or None, running=escape(running)
            )

    def _beat(self) -> None:
        while not self._ended.wait(min(self._silence / 4, 1.0)):
            with self._lock:
                now = time.monotonic()
                if now - self._spoke < self._silence:
                    continue
                running = [f"{n} ({now - began:.0f} s)" for n, began in self._running.values()]
                if running:
                    self._say(f"{self._count()}  running: {', '.join(running)}")
                elif self._done:
                    self._say(f"{self._count()}  between two nodes")
                else:
                    self._say("dbt and Spark are still starting")

    def _count(self) -> str:
        return f"{self._done}/{self._total or '?'}"

    def _say(self, text: str) -> None:
        self._spoke = time.monotonic()
        self._console.print(f"{self._label}  {escape(text)}", soft_wrap=True, highlight=False)
