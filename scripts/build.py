"""Runs the captured batches one after another, as they would arrive, and reports per table.

The files of a batch are put into the landing folder, then `dbt build` runs. All of it happens in
this process, so that one JVM serves every batch.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc.prepare import prepare
from dbt_common.exceptions import DbtRuntimeError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dbt_spark_cdc.invocation import Outcome, run_dbt, summary
from dbt_spark_cdc.observe.report import write_report
from dbt_spark_cdc.progress import Progress
from dbt_spark_cdc.project import BadProject, read_artifact
from dbt_spark_cdc.whole_file import write_whole

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "data"
LANDING = ROOT / "warehouse" / "landing" / "shop"
STATE = ROOT / "warehouse" / ".state"
# What each test said when it last ran, for the site.
RESULTS = ROOT / "warehouse" / ".results.json"

BATCH = re.compile(r"batch_(\d+)\.")
COUNTS = {
    "events_read": "read",
    "events_applied": "applied",
    "events_duplicate": "duplicate",
    "events_superseded": "superseded",
    "events_quarantined": "quarantined",
    "rows_now": "rows now",
    "versions": "versions",
}
AUDIT = "select table_name, " + ", ".join(COUNTS) + " from {{ ref('cdc_audit') }} order by 1"

LANDED = (
    "select _table, _file, lines, unreadable, problem from {{ ref('landing') }}"
    " where problem is not null or _table not in (select table_name from {{ ref('cdc_audit') }})"
    " order by _file"
)

CLOSING = """
They are Delta tables in warehouse/: <table> holds the current rows, <table>_history every version.
  CDC_REFERENCE_PROJECT=1 .venv/bin/dbt --quiet show --inline "select * from {{ ref('customers') }}"
"""

# The report and `cdc status` read the results of the build, which these would replace.
SHOW = ("--no-write-json", "show")

Batches = dict[int, list[Path]]


def captured(data: Path) -> Batches:
    """Returns the captured files by batch number.

    Args:
        data: Folder with one folder per table, and in it `batch_NNNN.*`.
    """
    batches: Batches = {}
    for file in sorted(data.glob("*/batch_*")):
        if match := BATCH.match(file.name):
            batches.setdefault(int(match.group(1)), []).append(file)
    return dict(sorted(batches.items()))


def waiting(batches: Batches, landing: Path) -> Batches:
    """Returns the batches that have not arrived, or not whole.

    Args:
        batches: Captured files by batch number.
        landing: Folder that holds what arrived, as `<table>/<name>`.

    Raises:
        SystemExit: A file of the same name arrived before with other content.
    """
    missing: Batches = {}
    for number, files in batches.items():
        for file in files:
            arrived = landing / file.parent.name / file.name
            if not arrived.exists():
                missing.setdefault(number, []).append(file)
            elif not filecmp.cmp(file, arrived, shallow=False):
                sys.exit(
                    f"data/{file.parent.name}/{file.name} is not the file of that name that was "
                    "taken before. Start over with: make clean build"
                )
    return missing


def arrive(files: Iterable[Path], landing: Path) -> None:
    """Puts files where the landing models look, each whole or not at all.

    Args:
        files: Captured files, `<table>/<name>`.
        landing: Folder that gets them as `<table>/<name>`.
    """
    for file in files:
        target = landing / file.parent.name / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        # Spark passes over names that begin with an underscore.
        partial = target.with_name(f"_{target.name}.partial")
        shutil.copyfile(file, partial)
        partial.replace(target)


def files_below(landing: Path) -> list[str]:
    """Returns the files of the landing folder, as `<size> <time> <table>/<name>`.

    Args:
        landing: Folder that holds what arrived.
    """
    files = [file for file in landing.glob("*/*") if not file.name.startswith(("_", "."))]
    return sorted(
        f"{file.stat().st_size} {file.stat().st_mtime_ns} {file.relative_to(landing).as_posix()}"
        for file in files
    )


def remember(landing: Path, state: Path) -> None:
    """Notes what was built: the project as it was, and the files that had arrived.

    Args:
        landing: Folder that holds what arrived.
        state: Folder that gets the notes.
    """
    state.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "target" / "manifest.json", state / "manifest.json")
    (state / "landed.txt").write_text("\n".join(files_below(landing)), encoding="utf-8")


def keep_results(results: Iterable[Any], file: Path) -> None:
    """Notes what tests said; those that did not run keep what they said before.

    Args:
        results: Results of a build.
        file: The file of the notes.
    """
    known = read_artifact(file)
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    for result in results:
        if str(result.node.resource_type) in ("test", "unit_test"):
            said = {"status": str(result.status), "message": result.message or "", "at": now}
            known[result.node.unique_id] = said
    write_whole(file, json.dumps(known))


def dropped_in(landing: Path, state: Path) -> bool:
    """Returns whether somebody has put or changed files in the landing folder since the last build.

    Args:
        landing: Folder that holds what arrived.
        state: Folder that the last build wrote its notes to.
    """
    landed = state / "landed.txt"
    return landed.exists() and landed.read_text(encoding="utf-8").split("\n") != files_below(
        landing
    )


def per_table(seconds: Mapping[str, float], tables: Iterable[str]) -> dict[str, float]:
    """Adds up what the models of each table took.

    Args:
        seconds: By name of model or snapshot: `stg_shop__orders`, `orders_history`, `orders`.
        tables: Names of tables; a model belongs to the longest that its name begins or ends with.
    """
    total: dict[str, float] = defaultdict(float)
    for node, spent in seconds.items():
        owners = [table for table in tables if re.search(rf"(^|__){table}(_[a-z]+)?$", node)]
        if owners:
            total[max(owners, key=len)] += spent
    return total


def selection(*, last: bool, changed: bool, built: bool) -> list[str]:
    """Returns what of the project a step builds, in dbt's words.

    Args:
        last: Whether no batch comes after it. What is tagged `final` only holds then.
        changed: Whether a batch has arrived.
        built: Whether the whole project was built before, and STATE tells what it was then.
    """
    if changed or not built:
        return [] if last else ["--exclude", "tag:final"]
    return ["--selector", "nothing_new", "--state", str(STATE)]


def build(console: Console, label: str, arguments: list[str], known: set[str]) -> Outcome:
    """Runs `dbt build`; prints one line, and below it whatever went wrong.

    Args:
        console: Where to print.
        label: What is being built.
        arguments: What to build, in dbt's words.
        known: Warnings that were printed before, and from now on these too.
    """
    started = time.monotonic()
    with Progress(console, label) as progress:
        outcome = run_dbt(["build", *arguments], progress.listen)
    seconds = f"{time.monotonic() - started:.0f} s"

    warned = [result for result in outcome.results if result.status == "warn"]
    for warning in [*outcome.warnings, *(f"{r.node.name}: {r.message}" for r in warned)]:
        if warning not in known:
            console.print(f"[yellow]warning[/] {escape(warning)}", soft_wrap=True)
    known.update(outcome.warnings)
    if outcome.ok:
        console.print(f"{label}: {summary(outcome.results)} [green]ok[/] in {seconds}")
    elif outcome.error:
        console.print(
            f"{label}: [red]stopped[/] after {seconds}\n{escape(outcome.error)}", soft_wrap=True
        )
    else:
        skipped = sum(result.status == "skipped" for result in outcome.results)
        console.print(
            f"{label}: [red]{len(outcome.failed)} of {len(outcome.results)} failed[/]"
            f"{f', {skipped} skipped because of them' if skipped else ''}, in {seconds}"
        )
    for result in outcome.failed:
        kind = str(result.node.resource_type).replace("_", " ")
        said = str(result.message or "").strip().replace("\n", "\n      ")
        console.print(
            f"  [red]{kind} {escape(result.node.name)}[/]\n      {escape(said)}", soft_wrap=True
        )
    return outcome


def audit_table(rows: Sequence[Mapping[str, Any]], seconds: Mapping[str, float]) -> Table:
    """Returns the closing table: one line per table, and their sum.

    Args:
        rows: Rows of `cdc_audit`.
        seconds: What each table's models took in all.
    """
    # What never happened is not worth a column that people would have to look up.
    shown = [name for name in COUNTS if name != "events_superseded" or any(r[name] for r in rows)]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.show_footer = True
    table.add_column("table", footer="all", no_wrap=True)
    for name in shown:
        total = sum(row[name] or 0 for row in rows)
        table.add_column(COUNTS[name], footer=f"{total:,}", justify="right", overflow="fold")
    table.add_column(
        "seconds", footer=f"{sum(seconds.values()):.1f}", justify="right", overflow="fold"
    )
    for row in rows:
        counts = ("-" if row[name] is None else f"{row[name]:,}" for name in shown)
        table.add_row(row["table_name"], *counts, f"{seconds.get(row['table_name'], 0):.1f}")
    return table


def troubles(files: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns what is to be said of quarantined events and of files that were not read whole.

    Args:
        files: Rows of `landing` that have a problem, or whose table no source declares.
    """
    lines = [
        "",
        "[yellow]Bad events[/] are kept with reason, payload and origin in <table>_quarantine.",
    ]
    for file in files:
        if not file["problem"]:
            what = f"landed, but no source reads a table of the name {file['_table']}"
        elif file["lines"]:
            what = f"{file['problem']}; {file['lines']:,} lines of it were read"
        else:
            what = file["problem"]
        lines.append(f"  {escape(file['_file'])}: {escape(what)}")
    return lines


def write(console: Console, error: str = "") -> None:
    """Writes the report of all runs, and prints where it is.

    Args:
        console: Where to print.
        error: What ended the build before dbt could report results.
    """
    try:
        path = write_report(ROOT, error=error, parse=False)
    except (BadProject, OSError) as exc:
        console.print(f"The report could not be written: {escape(str(exc))}", soft_wrap=True)
    else:
        console.print(f"Report: {escape(str(path))}", soft_wrap=True)


def main() -> int:
    """Builds what has not been built yet; returns the exit code."""
    os.chdir(ROOT)
    os.environ["CDC_REFERENCE_PROJECT"] = "1"  # for dbt_project.yml
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    batches = captured(DATA)
    if not batches:
        console.print("data/ holds no batch files; `make capture` makes them.")
        return 1

    try:
        prepare({})
    except DbtRuntimeError as exc:
        console.print(escape(exc.msg))
        return 1

    new = waiting(batches, LANDING)
    own = not new and dropped_in(LANDING, STATE)
    if STATE.exists() and not new and not own:
        os.environ["CDC_QUICK_START"] = "True"  # for profiles.yml
    steps = [(f"batch {number}/{len(batches)}", files) for number, files in new.items()]
    if not steps:
        steps = [("your own files" if own else "nothing new", [])]
    seconds: dict[str, float] = defaultdict(float)
    known: set[str] = set()
    for step, (label, files) in enumerate(steps, start=1):
        arrive(files, LANDING)
        arguments = selection(
            last=step == len(steps), changed=bool(new) or own, built=STATE.exists()
        )
        if step < len(steps):
            arguments += ["--exclude-resource-type", "unit_test"]
        outcome = build(console, label, arguments, known)
        keep_results(outcome.results, RESULTS)
        if not outcome.ok:
            console.print("More in logs/dbt.log and logs/spark.log.")
            write(console, outcome.error or "")
            return 1
        for result in outcome.results:
            seconds[result.node.name] += result.execution_time

    remember(LANDING, STATE)

    audit = run_dbt([*SHOW, "--inline", AUDIT, "--limit", "-1"])
    if audit.error or not audit.results:
        problem = f"The audit could not be read: {audit.error or 'no rows'}"
        console.print(escape(problem), soft_wrap=True)
        write(console, problem)
        return 1
    rows = [row.dict() for row in audit.results[0].agate_table.rows]
    console.print()
    console.print(audit_table(rows, per_table(seconds, [row["table_name"] for row in rows])))
    if own or any(row["events_quarantined"] for row in rows):
        landed = run_dbt([*SHOW, "--inline", LANDED, "--limit", "-1"])
        for line in troubles(row.dict() for row in landed.results[0].agate_table.rows):
            console.print(line, soft_wrap=True)
    console.print(CLOSING)
    write(console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
