"""`python -m bench`: measures, and writes results, table and plot."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import click

from bench import at_scale, machine, report
from bench.results import Results
from bench.scales import SCALES, scale_of
from bench.session import ROOT, open_workshop
from bench.workloads import (
    consumers,
    correctness,
    decoding,
    erasures,
    keys,
    landing_rate,
    latency,
    merges,
    modes,
    schedule,
)

RESULTS = ROOT / "bench" / "results"
# What was measured by a run that ended early.
UNFINISHED = RESULTS / "unfinished.json"
# Runs that are kept: the page of each scale. Scales that leave out workloads have their own.
KEPT = {"small": "benchmarks", "full": "benchmarks"} | {
    scale: f"benchmarks_{scale}" for scale in ("medium", "lake", "loads", "live")
}
FAMILIES = {
    "decoding": (decoding.NAMES, decoding.run),
    "merges": (merges.NAMES, merges.run),
    "correctness": (correctness.NAMES, correctness.run),
    "schedule": (schedule.NAMES, schedule.run),
    "consumers": (consumers.NAMES, consumers.run),
    "modes": (modes.NAMES, modes.run),
    "erasures": (erasures.NAMES, erasures.run),
    "keys": (keys.NAMES, keys.run),
    "latency": (latency.NAMES, latency.run),
    "landing": (landing_rate.NAMES, landing_rate.run),
}
# What is measured there has a Java of its own, whose memory is among that of all processes.
OTHER_JAVA = frozenset(["latency"])


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--scale", type=click.Choice([*SCALES]), default="small", show_default=True)
@click.option("--only", multiple=True, help="A workload, such as W1; may be given several times.")
@click.option("--set", "changed", multiple=True, help="A size of the scale: repeats=5.")
@click.option("--work", type=click.Path(path_type=Path), help="Folder to work in; kept.")
@click.option("--profile", type=click.Path(path_type=Path), help="File for statements and commits.")
@click.option("--output", type=click.Path(path_type=Path), help="File of the results.")
def main(
    scale: str,
    only: tuple[str, ...],
    changed: tuple[str, ...],
    work: Path | None,
    profile: Path | None,
    output: Path | None,
) -> None:
    """Measures this package beside its peers, W13 and W14 aside all in this one process.

    A run of all workloads writes bench/results/latest.json and docs/benchmarks.*; those of the
    scales medium, lake, loads and live have names of their own. They write the tables of
    docs/scale.md.
    With --only the results are printed and go to --output alone.
    """
    sizes = scale_of(scale, changed)
    known = [name for names, _ in FAMILIES.values() for name in names]
    if unknown := set(only) - set(known):
        raise click.BadParameter(f"{', '.join(unknown)}: not one of {', '.join(known)}.")
    wanted = set(only or sizes.workloads or known)
    folder = work or Path(tempfile.mkdtemp(prefix="cdc-bench-"))
    described = machine.describe()
    began = time.perf_counter()
    results = Results()
    watch = machine.MemoryWatch()
    try:
        workshop = open_workshop(folder.resolve(), iceberg=bool(wanted & set(modes.NAMES)))
        for family, (names, run) in FAMILIES.items():
            if not wanted.intersection(names):
                continue
            watch.reset()
            machine.reset_java_peak(workshop.java)
            run(workshop, sizes, wanted, results)
            if watch.peak:
                results.peaks[family] = watch.peak
            java = machine.java_peak(workshop.java)
            if java and family not in OTHER_JAVA:
                results.java_peaks[family] = java
    except BaseException:
        results.save(UNFINISHED, {"scale": scale, **described})
        click.echo(f"{UNFINISHED} has what was measured", err=True)
        raise
    finally:
        watch.end()
        if work is None:
            shutil.rmtree(folder, ignore_errors=True)
    metadata = {
        "scale": scale,
        "changed": list(changed),
        "sizes": vars(sizes),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "seconds": round(time.perf_counter() - began),
        **described,
    }
    if profile:
        profile.write_text(json.dumps(results.profiles, indent=1) + "\n", encoding="utf-8")
    whole = not only and scale in KEPT
    if output or whole:
        kept = output or RESULTS / report.PAGES[KEPT[scale]][1]
        results.save(kept, metadata)
        click.echo(f"{kept} is written")
    if whole and output is None:
        for file in report.write(kept, ROOT / "docs", KEPT[scale]):
            click.echo(f"{file} is written")
        if at_scale.main(["--write"]) == 0:
            click.echo(f"{at_scale.PAGE} is written")


if __name__ == "__main__":
    main(prog_name="python -m bench")
