"""What each statement of a build took, for those who look for the slow ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock
from time import perf_counter

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sparkcdc import private
from dbt_common.events.contextvars import get_node_info
from dbt_common.invocation import get_invocation_id

FILE = "cdc_statements.jsonl"
# Statements that list keys are long, and their ends alike.
MOST_CHARS = 10_000

_logger = AdapterLogger("sparkcdc")


class StatementLog:
    """A file with a line of JSON for each statement of one build.

    A file that cannot be written is reported once and does not stop the build.
    """

    def __init__(self, path: Path) -> None:
        """Names the file; the first statement replaces what an earlier build left there.

        Args:
            path: The file.
        """
        self._path = path
        self._mode = "w"
        self._lock = Lock()
        self._is_writable = True

    @contextmanager
    def timed(self, sql: str) -> Iterator[None]:
        """Records what a statement takes, and whether it fails.

        Args:
            sql: The statement that the block runs.
        """
        started, begin = datetime.now(timezone.utc), perf_counter()
        failed = True
        try:
            yield
            failed = False
        finally:
            seconds = perf_counter() - begin
            self._append(
                {
                    "run_id": get_invocation_id(),
                    "node": get_node_info().get("unique_id", ""),
                    "started_at": started.isoformat(),
                    "seconds": round(seconds, 6),
                    "failed": failed,
                    "sql": sql.strip()[:MOST_CHARS],
                }
            )

    def _append(self, line: dict[str, object]) -> None:
        with self._lock:
            if not self._is_writable:
                return
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with open(self._path, self._mode, encoding="utf-8", opener=private.opener) as file:
                    file.write(json.dumps(line) + "\n")
                self._mode = "a"
            except OSError as exc:
                self._is_writable = False
                _logger.warning(f"cdc: statements are not recorded, as {self._path} says: {exc}")
