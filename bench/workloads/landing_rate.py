"""W14: how many changes a second are captured and landed, each alone and both together.

The changes wait in the slot. `cdc capture postgres --once` makes files of them, with the start of
its process, and a run of the landing model makes rows of the raw table of these files. Together the
model runs again and again while the capture is at work, until everything is in the raw table.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.live import load
from bench.live.load import Phase
from bench.live.processes import Child, Database, NoServer, database, running
from bench.live.systems import RAW, landing_files
from bench.results import Results
from bench.scales import Scale
from bench.session import Project, Timing, Workshop
from bench.systems.base import drop_tables, timed

NAMES = ("W14",)
CAPTURE, LANDING, BOTH = "W14 capture", "W14 landing", "W14 capture and landing"
SYSTEM = "cdc"
# Changes a second as they would be committed at most: in transactions of a hundred.
RATE = 10_000
# Changes that warm up, to one that is measured.
WARM_UP = 0.1


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: How large.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    folder = workshop.folder / "landing_rate"
    folder.mkdir()
    phases = phases_of(scale)
    try:
        with database(phases[-1]) as source:
            _measure(workshop, source, phases, folder, results)
    except NoServer as exc:
        for row in (CAPTURE, LANDING, BOTH):
            results.skip(row, SYSTEM, str(exc))
    except Exception as exc:
        for row in (CAPTURE, LANDING, BOTH):
            if SYSTEM not in results.seconds.get(row, {}):
                results.fail(row, SYSTEM, exc)
    shutil.rmtree(folder, ignore_errors=True)


def phases_of(scale: Scale) -> list[Phase]:
    """Returns the changes that warm up, those of either step alone, and those of both together.

    Args:
        scale: How many.
    """
    phase = Phase(1, 0, scale.live_tables, scale.live_rows)
    phases = []
    for count in (round(scale.landed_changes * WARM_UP), *[scale.landed_changes] * 2):
        rate = min(RATE, count)
        phase = phase.next(rate, count // rate)
        phases.append(phase)
    return phases


def _measure(
    workshop: Workshop, source: Database, phases: list[Phase], folder: Path, results: Results
) -> None:
    warm_up, alone, together = phases
    landing = folder / "landing"
    landing.mkdir()
    project = Project(RAW, folder / "project", workshop.folder, landing_files(landing), True)
    captured = folder / "capture.log"

    def capture(*options: str) -> None:
        Child(source.capture(landing, "--once", *options), captured).wait()

    def land() -> Timing:
        return project.dbt("run", "--select", "landing")

    def capture_and_land() -> None:
        with running(source.capture(landing, "--once"), captured) as child:
            while child.process.poll() is None:
                land()
            child.check()
        land()

    capture("--create-slot")
    load.commit(source.conninfo, warm_up, paced=False)
    capture()
    land()
    load.commit(source.conninfo, alone, paced=False)
    _add(results, CAPTURE, alone, timed(capture))
    _add(results, LANDING, alone, land())
    load.commit(source.conninfo, together, paced=False)
    _add(results, BOTH, together, timed(capture_and_land))

    raw = f"{RAW}.landed"
    counts = workshop.spark.sql(
        f"select count(*), count(distinct value), count(_problem) from {raw}"
    ).first()
    expected = sum(phase.count for phase in phases)
    is_right = counts is not None and tuple(counts) == (expected, expected, 0)
    results.judge([CAPTURE, LANDING, BOTH], SYSTEM, is_right)
    drop_tables(workshop, [raw, f"{RAW}.landing"])


def _add(results: Results, row: str, phase: Phase, timing: Timing) -> None:
    rate = round(phase.count / timing.wall)
    results.add(row, SYSTEM, [timing], wall=True, changes=phase.count, changes_a_second=rate)
