"""W13: the time from commit in PostgreSQL to the row in the final table, at several rates."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.live import arrivals
from bench.live.arrivals import Latency, Log
from bench.live.load import LAST, Phase, table_name
from bench.live.processes import COMPARED, Child, Database, NoServer, database, running, until
from bench.live.systems import ForeachBatch, System, Watched
from bench.results import Results
from bench.scales import Scale
from bench.session import Timing, Workshop

NAMES = ("W13",)
SYSTEMS = ("cdc", "cdc_history", "foreach_batch")
# Seconds that a change waits for others before its file is complete, for all systems.
FLUSH_SECONDS = 0.5
# All processes start, and the rows that the tables begin with are loaded.
START_SECONDS = 900


def row_name(rate: int) -> str:
    """Returns the row of the results for a rate.

    Args:
        rate: Changes a second.
    """
    return f"W13 {rate:,} a second"


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: How large.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    phases = phases_of(scale)
    for name in filter(scale.measures, SYSTEMS):
        folder = workshop.folder / "live" / name
        folder.mkdir(parents=True)
        try:
            with database(phases[-1]) as source:
                _measure(workshop, scale, name, source, folder, results)
        except NoServer as exc:
            for rate in scale.live_rates:
                results.skip(row_name(rate), name, str(exc))
        except Exception as exc:
            _fail_others(scale, name, exc, results)
        for large in ("landing", "warehouse"):
            shutil.rmtree(folder / large, ignore_errors=True)


def phases_of(scale: Scale) -> list[Phase]:
    """Returns the time of each rate, one after the other.

    Args:
        scale: The rates.
    """
    phase = Phase(1, 0, scale.live_tables, scale.live_rows)
    phases: list[Phase] = []
    for rate in scale.live_rates:
        before = scale.live_warm_up + (0 if phases else scale.live_start)
        phase = phase.next(rate, before + scale.live_seconds)
        phases.append(phase)
    return phases


def _fail_others(scale: Scale, name: str, problem: Exception, results: Results) -> None:
    """Keeps for the rates that were not measured why not."""
    for rate in scale.live_rates:
        if name not in results.details.get(row_name(rate), {}):
            results.fail(row_name(rate), name, problem)


def _measure(
    workshop: Workshop,
    scale: Scale,
    name: str,
    source: Database,
    folder: Path,
    results: Results,
) -> None:
    """Measures a system at all rates that it keeps up with."""
    landing = folder / "landing"
    landing.mkdir()
    options = ["--snapshot", "--flush-every", str(FLUSH_SECONDS)]
    with running(source.capture(landing, *options), folder / "capture.log") as capture:
        system: System = (
            ForeachBatch(folder, landing, scale.live_tables)
            if name == ForeachBatch.name
            else Watched(folder, landing, scale.live_tables, history=name == "cdc_history")
        )
        with running(system.arguments(), folder / f"{name}.log") as builder:
            logs = [Log(system.final(number)) for number in range(scale.live_tables)]
            live = _Live(scale, system, source, folder, logs, [capture, builder])
            if not live.has_all(0, START_SECONDS):
                raise RuntimeError(f"the tables had no rows after {START_SECONDS} s")
            keeps_up = all(live.measure(phase, results) for phase in phases_of(scale))
    if keeps_up:
        rows = [row_name(rate) for rate in scale.live_rates]
        results.judge(rows, name, _is_right(workshop, source, system))
    else:
        problem = RuntimeError("not tried, for a lower rate was too much already")
        _fail_others(scale, name, problem, results)


@dataclass
class _Live:
    """A system at work.

    Attributes:
        scale: How long it is measured.
        system: What it is.
        source: The database whose changes it gets.
        folder: Its folder, with the landing folder.
        logs: Those of its final tables.
        children: The processes that have to run.
    """

    scale: Scale
    system: System
    source: Database
    folder: Path
    logs: Sequence[Log]
    children: Sequence[Child]

    def has_all(self, version: int, seconds: float) -> bool:
        """Returns whether everything up to a transaction arrives in time.

        Args:
            version: Number of the transaction, which ended a phase.
            seconds: How long is waited.
        """

        def arrived() -> bool:
            tables = (log.rows() for log in self.logs)
            return all((rows["version"][rows["id"] == LAST] >= version).any() for rows in tables)

        return until(arrived, seconds, self.children)

    def measure(self, phase: Phase, results: Results) -> bool:
        """Measures a rate.

        Args:
            phase: The rate.
            results: Gets what was measured.

        Returns:
            Whether everything has arrived.
        """
        patience = self.scale.live_patience
        sent = self.source.commit(phase, self.folder, self.children)
        has_arrived = self.has_all(phase.last_version, patience)
        begin, end = sent[-1] - self.scale.live_seconds, sent[-1]
        committed = [phase.committed(number, sent) for number in range(phase.tables)]
        committed = [part[part["at"] >= begin].reset_index(drop=True) for part in committed]
        tables = [log.rows() for log in self.logs]
        seconds = map(arrivals.latencies, committed, tables)
        latency = Latency.of(pd.concat(committed)["at"], pd.concat(seconds))
        last = max(float(rows["at"].max()) for rows in tables)
        known: dict[str, Any] = {
            **asdict(latency),
            "committed_a_second": round(phase.size * (len(sent) - 1) / (end - sent[0]), 1),
            "drained_seconds": round(max(0.0, last - end), 1) if has_arrived else None,
            "stages": self._stages(committed),
        }
        row, name = row_name(phase.rate), self.system.name
        if latency.p95 is None:
            behind = f"{latency.missing:,} of {latency.changes:,} changes had not arrived"
            problem = RuntimeError(f"{behind} {patience} s after the last commit")
            results.fail(row, name, problem)
            results.details[row][name].update(known)
        else:
            results.add(row, name, [Timing(latency.p95, latency.p95)], **known)
        return has_arrived

    def _stages(self, committed: Sequence[pd.DataFrame]) -> Mapping[str, float | None]:
        """Median seconds from commit to each place on the way to a final table."""
        seconds: dict[str, list[pd.Series]] = {}
        raw = self.system.raw
        in_raw = Log(raw, ("_file",)).rows().groupby("_file")["at"].min() if raw else None
        for number, changes in enumerate(committed):
            landed = arrivals.landed(self.folder / "landing" / table_name(number))
            places = {"file": landed}
            if in_raw is not None:
                places["raw table"] = landed.assign(at=landed["file"].map(in_raw)).dropna()
            for name, table in self.system.stages(number).items():
                places[name] = Log(table).rows()
            for name, rows in places.items():
                seconds.setdefault(name, []).append(arrivals.latencies(changes, rows))
        return {
            name: arrivals.percentile(np.concatenate(parts), 0.5) for name, parts in seconds.items()
        }


def _is_right(workshop: Workshop, source: Database, system: System) -> bool:
    """The oracle: the rows of all final tables are those of PostgreSQL."""
    for number in range(source.tables):
        rows = workshop.spark.read.format("delta").load(str(system.final(number)))
        found = rows.where(system.living).select(*COMPARED).toArrow().to_pydict()
        expected = source.rows(number)
        if len(found["id"]) != len(expected) or set(zip(*found.values(), strict=True)) != expected:
            return False
    return True
