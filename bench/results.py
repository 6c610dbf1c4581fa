"""What was measured, as it is kept in bench/results/."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from bench.session import Timing

# In the order of tables and plots.
SYSTEMS = (
    "cdc",
    "cdc_history",
    "cdc_overwrite",
    "dbt_recipe",
    "dbt_recipe_dv",
    "pyspark_merge",
    "foreach_batch",
    "duckdb",
    "delta_rs",
    "spark_merge",
    "spark_replace",
    "spark_floor",
    "spark_write",
    "spark_load",
    "spark_load_history",
    "spark_changes",
    "spark_delete",
    "spark_from_json",
    "article_000",
    "delta_cow",
    "delta_mor",
    "iceberg_cow",
    "iceberg_mor",
)


@dataclass
class Results:
    """Seconds by workload and system, and what else is known of each.

    Attributes:
        seconds: Median seconds by workload and system.
        details: By workload and system: all runs, dbt's wall time, correctness, failures.
        peaks: Peak memory of the process tree by family of workloads, in MiB.
        java_peaks: That of Java alone.
        profiles: By workload and system: the statements of the last batch, and Delta's metrics.
    """

    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    details: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    java_peaks: dict[str, int] = field(default_factory=dict)
    profiles: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(
        self,
        workload: str,
        system: str,
        timings: Sequence[Timing],
        *,
        wall: bool = False,
        **more: Any,
    ) -> None:
        """Keeps the median of some runs.

        Args:
            workload: Row of the table.
            system: Column of the table.
            timings: The measured runs.
            wall: Whether the time from call to return is meant and not the work in it.
            more: What else to keep.
        """
        runs = [run.wall if wall else run.seconds for run in timings]
        median = round(statistics.median(runs), 3)
        self.seconds.setdefault(workload, {})[system] = median
        detail = self.details.setdefault(workload, {}).setdefault(system, {})
        detail["runs"] = [round(run, 3) for run in runs]
        if any(run.nodes for run in timings):
            detail["wall"] = round(statistics.median(run.wall for run in timings), 3)
            detail["nodes"] = {
                name: round(statistics.median(run.nodes[name] for run in timings), 3)
                for name in (timings[0].nodes if len(timings[0].nodes) <= 10 else {})
            }
        detail.update(more)
        click.echo(f"  {workload:<28} {system:<16} {median:>9.3f} s")

    def fail(self, workload: str, system: str, problem: BaseException) -> None:
        """Keeps that a system could not do a workload.

        Args:
            workload: Row of the table.
            system: Column of the table.
            problem: Why not.
        """
        detail = self.details.setdefault(workload, {}).setdefault(system, {})
        detail["failed"] = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
        click.echo(f"  {workload:<28} {system:<16}    failed: {detail['failed']}", err=True)

    def skip(self, workload: str, system: str, reason: str) -> None:
        """Keeps that a workload cannot be measured on this machine.

        Args:
            workload: Row of the table.
            system: Column of the table.
            reason: What is missing.
        """
        self.details.setdefault(workload, {}).setdefault(system, {})["skipped"] = reason
        click.echo(f"  {workload:<28} {system:<16}    skipped: {reason}", err=True)

    def judge(self, workloads: Sequence[str], system: str, correct: bool) -> None:
        """Keeps whether a system's table was right after some workloads.

        Args:
            workloads: The workloads that changed the table.
            system: Whose table it was.
            correct: Whether it was right.
        """
        for workload in workloads:
            if system in self.seconds.get(workload, {}):
                self.details[workload][system]["correct"] = correct
        if not correct:
            click.echo(f"  {', '.join(workloads)}: {system} has a WRONG table", err=True)

    def save(self, file: Path, metadata: dict[str, Any]) -> None:
        """Writes the file of results.

        Args:
            file: Where to.
            metadata: What the run was.
        """
        whole: dict[str, Any] = {**self.seconds}
        whole["metadata"] = {
            **metadata,
            "peak_mib": self.peaks,
            "peak_java_mib": self.java_peaks,
            "details": self.details,
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
