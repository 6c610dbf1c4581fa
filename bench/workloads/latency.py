"""W13: the time from commit in PostgreSQL to the row in the final table, at several rates."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.live import arrivals
from bench.live.arrivals import Latency, Log
from bench.live.load import LAST, Phase, table_name
from bench.live.processes import COMPARED, Child, Database, NoServer, database, running, until
from bench.live.systems import INTERVAL, ForeachBatch, System, Watched
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
    for name in filter(scale.measures, SYSTEMS):
        folder = workshop.folder / "live" / name
        folder.mkdir(parents=True)
        try:
            with database(_phases(scale)[-1]) as source:
                _measure(workshop, scale, name, source, folder, results)
        except NoServer as exc:
            for rate in scale.live_rates:
                results.skip(row_name(rate), name, str(exc))
        except Exception as exc:
            _fail_others(scale, name, exc, results)
        shutil.rmtree(folder / "landing", ignore_errors=True)


def _phases(scale: Scale) -> list[Phase]:
    """The time of each rate, one after the other."""
    phase = Phase(1, 0, scale.live_tables, scale.live_rows)
    phases = []
    for rate in scale.live_rates:
        phase = phase.next(rate, scale.live_warm_up + scale.live_seconds)
        phases.append(phase)
    return phases


def _system(name: str, folder: Path, landing: Path, tables: int) -> System:
    if name == ForeachBatch.name:
        return ForeachBatch(folder, landing, tables)
    return Watched(folder, landing, tables, history=name == "cdc_history")


def _measure(
    workshop: Workshop,
    scale: Scale,
    name: str,
    source: Database,
    folder: Path,
    results: Results,
) -> None:
    landing = folder / "landing"
    landing.mkdir()
    options = ["--snapshot", "--flush-every", str(FLUSH_SECONDS)]
    with running(source.capture(landing, *options), folder / "capture.log") as capture:
        system = _system(name, folder, landing, scale.live_tables)
        with running(system.arguments(), folder / f"{name}.log") as builder:
            children = [capture, builder]
            logs = [Log(system.final(number)) for number in range(scale.live_tables)]
            if not until(lambda: _have(logs, 0), START_SECONDS, children):
                raise RuntimeError(f"no tables after {START_SECONDS} s")
            measured = []
            for phase in _phases(scale):
                is_drained = _at_rate(scale, system, source, folder, phase, logs, children, results)
                if not is_drained:
                    break
                measured.append(row_name(phase.rate))
    if len(measured) == len(scale.live_rates):
        results.judge(measured, name, _is_right(workshop, source, system))
    else:
        problem = RuntimeError("not measured, for a lower rate was too much already")
        _fail_others(scale, name, problem, results)


def _fail_others(scale: Scale, name: str, problem: Exception, results: Results) -> None:
    """Keeps for the rates that were not measured why not."""
    for rate in scale.live_rates:
        if name not in results.details.get(row_name(rate), {}):
            results.fail(row_name(rate), name, problem)


def _have(logs: list[Log], version: int) -> bool:
    """Whether the row that is written last is in all tables."""
    for log in logs:
        rows = log.rows()
        if not (rows.loc[rows["id"] == LAST, "version"] >= version).any():
            return False
    return True


def _at_rate(
    scale: Scale,
    system: System,
    source: Database,
    folder: Path,
    phase: Phase,
    logs: list[Log],
    children: list[Child],
    results: Results,
) -> bool:
    """Measures a rate; returns whether everything has arrived."""
    sent = source.commit(phase, folder, children)
    ended = float(sent[-1])
    is_drained = until(lambda: _have(logs, phase.last_version), scale.live_patience, children)
    begin = sent[0] + scale.live_warm_up
    committed = [_measured(phase.committed(n, sent), begin) for n in range(phase.tables)]
    seconds = [
        arrivals.latencies(part, log.rows()) for part, log in zip(committed, logs, strict=True)
    ]
    all_committed = pd.concat(committed)["at"]
    latency = Latency.of(all_committed, pd.concat(seconds))
    last = max(float(log.rows()["at"].max()) for log in logs)
    more: dict[str, Any] = {
        **asdict(latency),
        "committed_a_second": round(phase.size * (len(sent) - 1) / (ended - sent[0]), 1),
        "drained_seconds": round(max(0.0, last - ended), 1) if is_drained else None,
        "stages": _stages(system, folder / "landing", committed),
    }
    row = row_name(phase.rate)
    if latency.p95 is None:
        problem = RuntimeError(
            f"{latency.missing:,} of {latency.changes:,} changes had not arrived"
            f" {scale.live_patience} s after the last commit"
        )
        results.fail(row, system.name, problem)
        results.details[row][system.name].update(more)
    else:
        results.add(row, system.name, [Timing(latency.p95, latency.p95)], **more)
    return is_drained


def _measured(committed: pd.DataFrame, begin: float) -> pd.DataFrame:
    """The changes after the warm-up."""
    return committed[committed["at"] >= begin].reset_index(drop=True)


def _stages(
    system: System, landing: Path, committed: list[pd.DataFrame]
) -> Mapping[str, float | None]:
    """Median seconds from commit to each place on the way to a final table."""
    seconds: dict[str, list[float]] = {}
    raw = Log(system.raw, ("_file",)).rows().groupby("_file")["at"].min() if system.raw else None
    for number, changes in enumerate(committed):
        landed = arrivals.landed(landing / table_name(number))
        places = {"file": landed}
        if raw is not None:
            in_raw = landed.assign(at=landed["file"].map(raw))
            places["raw table"] = in_raw.dropna(subset="at")
        places |= {name: Log(path).rows() for name, path in system.stages(number).items()}
        for name, rows in places.items():
            seconds.setdefault(name, []).extend(arrivals.latencies(changes, rows))
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    return {name: round(s, 3) if np.isfinite(s) else None for name, s in medians.items()}


def _is_right(workshop: Workshop, source: Database, system: System) -> bool:
    """The oracle: the rows of all final tables are those of PostgreSQL."""
    for number in range(source.tables):
        rows = workshop.spark.read.format("delta").load(str(system.final(number)))
        found = rows.where(system.living).select(*COMPARED).toArrow().to_pydict()
        if set(zip(*found.values(), strict=True)) != source.rows(number):
            return False
        if len(found["id"]) != len(set(found["id"])):
            return False
    return True


# What the page says of the processes.
DESCRIPTION = f"--flush-every {FLUSH_SECONDS}", f"--interval {INTERVAL}"
