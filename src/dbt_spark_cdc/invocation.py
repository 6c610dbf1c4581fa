"""dbt in this process, silent but for its log file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest

from dbt_spark_cdc.project import FAILED

KINDS = ("model", "snapshot", "seed", "test", "unit_test")
QUIET = (
    "--log-level",
    "none",
    "--log-level-file",
    "debug",
    "--no-use-colors",
    "--no-send-anonymous-usage-stats",
)


@dataclass(frozen=True)
class Outcome:
    """What one dbt command came to.

    Attributes:
        results: One for each node.
        error: What ended the command early.
        warnings: Warnings of dbt itself; those of tests are among the results.
        result: What dbt returned: the results of nodes in its own type, or the manifest of `parse`.
    """

    results: Sequence[Any]
    error: str | None
    warnings: Sequence[str]
    result: Any = None

    @property
    def failed(self) -> list[Any]:
        """The results of nodes that failed."""
        return [result for result in self.results if result.status in FAILED]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not (self.error or self.failed)


def run_dbt(
    arguments: Sequence[str],
    on_event: Callable[[Any], None] | None = None,
    manifest: Manifest | None = None,
) -> Outcome:
    """Runs one dbt command in this process.

    Args:
        arguments: dbt's own.
        on_event: Called with each of dbt's events.
        manifest: The parsed project; None to parse it.
    """
    warnings: dict[str, None] = {}

    def listen(event: Any) -> None:
        if on_event:
            on_event(event)
        # Warnings of tests are among the results.
        if event.info.level == "warn" and event.info.name != "LogTestResult":
            warnings.setdefault(event.info.msg.removeprefix("[WARNING]").lstrip(": ").rstrip())

    ran = dbtRunner(manifest=manifest, callbacks=[listen]).invoke([*QUIET, *arguments])
    error = None
    if ran.exception is not None:
        # Some have no text, such as one for want of memory. They are failures all the same.
        error = str(ran.exception).strip() or type(ran.exception).__name__
    results = list(getattr(ran.result, "results", None) or [])
    return Outcome(results, error, list(warnings), ran.result)


def summary(results: Iterable[Any]) -> str:
    """Returns how many nodes of each kind there were, for instance `84 models, 210 tests`.

    Args:
        results: Results of one dbt command.
    """
    kinds = Counter(str(result.node.resource_type) for result in results)
    return ", ".join(
        f"{kinds[kind]} {kind.replace('_', ' ')}{'s' * (kinds[kind] != 1)}"
        for kind in KINDS
        if kinds[kind]
    )
