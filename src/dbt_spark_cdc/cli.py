"""The command `cdc`."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from dbt_spark_cdc import words
from dbt_spark_cdc.capture.command import capture
from dbt_spark_cdc.generate import steps as generation
from dbt_spark_cdc.generate.config_table import BadConfig, read_config
from dbt_spark_cdc.generate.project_files import Layout
from dbt_spark_cdc.generate.steps import Status, Step
from dbt_spark_cdc.init.command import init, limit_option
from dbt_spark_cdc.init.tables import is_wanted
from dbt_spark_cdc.project import BadProject, open_project, project_settings, table_names
from dbt_spark_cdc.samples import describe as description
from dbt_spark_cdc.samples.recognise import recognise
from dbt_spark_cdc.samples.records import Unreadable, read_sample
from dbt_spark_cdc.samples.spark_table import read_table

if TYPE_CHECKING:
    from rich.console import Console

TABLES, COLUMNS = "seeds/cdc_tables.csv", "seeds/cdc_columns.csv"
_TABLE = re.compile(r"`?\w+`?(\.`?\w+`?){0,2}")
# What ends so is a file that is not there.
_SUFFIXES = (".json", ".jsonl", ".csv", ".parquet", ".gz", ".txt")
_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


def _together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _completed(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of tables that a word may become."""
    folder = context.params.get("project_dir") or Path()
    return [name for name in table_names(folder) if name.startswith(begun)]


_project_options = _together(
    click.option("--project-dir", type=_FOLDER, default=".", help="Folder of the dbt project."),
    click.option("--profiles-dir", type=_FOLDER, help="Folder of profiles.yml."),
    click.option("--target", help="Target of the profile."),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dbt-spark-cdc", prog_name="cdc")
def main() -> None:
    """Write dbt projects for change data capture, check them, and keep their tables up to date.

    Start with `cdc init`. If something does not work, `cdc doctor` checks the installation.
    """


main.add_command(capture)
main.add_command(init)


@main.command()
@click.option("--project-dir", type=_FOLDER, default=".", help="Folder of the dbt project.")
@click.option("--config", type=_FILE, help=f"Control table. [default: {TABLES}]")
@click.option(
    "--columns", type=_FILE, help=f"Columns of the tables. [default: {COLUMNS}, if it exists]"
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--prune", is_flag=True, help="Delete the files of tables without a row.")
@click.option("--diff", is_flag=True, help="Show how edited files differ from their rows.")
@click.option("-v", "--verbose", is_flag=True, help="List unchanged files too.")
def generate(
    project_dir: Path,
    config: Path | None,
    columns: Path | None,
    check: bool,
    prune: bool,
    diff: bool,
    verbose: bool,
) -> None:
    """Write the dbt files of each table in the control table.

    Each row of seeds/cdc_tables.csv becomes a source, a staging model, a snapshot and a final
    model. Files that you have edited are kept and reported. If the control table has problems, all
    of them are listed, and nothing is written. Exit codes: 0 done, 1 files would change (--check),
    2 bad input.
    """
    try:
        layout = _layout(project_dir)
    except BadProject as exc:
        _stop(str(exc))
    if columns is None and (project_dir / COLUMNS).exists():
        columns = project_dir / COLUMNS
    try:
        configs = read_config(config or project_dir / TABLES, columns)
    except BadConfig as exc:
        count = words.counted(len(exc.problems), "problem")
        listed = "\n  - ".join(exc.problems)
        _stop(f"{count} in the control table. Nothing was written.\n  - {listed}")
    steps = generation.plan(project_dir, configs, layout)
    if not check:
        try:
            generation.carry_out(project_dir, steps, prune)
        except OSError as exc:
            _stop(f"{exc}. Run it again when this is fixed: what was written is whole.")
    for line in _summary(steps, prune, check, verbose):
        click.echo(line)
    for step in steps:
        if diff and step.status is Status.EDITED:
            click.echo(generation.differences(project_dir, step), nl=False)
    if check and generation.would_change(steps, prune):
        sys.exit(1)


@main.command()
@click.argument("file_or_table")
@click.option(
    "--table", "only", help="Describe only this table of the events: TABLE or SCHEMA.TABLE."
)
@click.option("--system", default="", help="Name of the dbt source. [default: from the events]")
@click.option("--yaml", "form", flag_value="yaml", help="Print only the YAML of the source.")
@click.option("--row", "form", flag_value="row", help="Print rows for seeds/cdc_tables.csv.")
@limit_option
@click.option("--project-dir", type=_FOLDER, default=".", help="For a table: the dbt project.")
@click.option("--profiles-dir", type=_FOLDER, help="For a table: the folder of profiles.yml.")
@click.option("--target", help="For a table: the target of the profile.")
def describe(
    file_or_table: str,
    only: str | None,
    system: str,
    form: str | None,
    limit: int,
    project_dir: Path,
    profiles_dir: Path | None,
    target: str | None,
) -> None:
    """Recognize the change format of a file or table and declare it.

    A file is JSON, CSV or Parquet, also compressed with gzip. A table is SCHEMA.TABLE in the
    warehouse of the dbt project. Exit codes: 0 described, 1 no format fits, 2 it cannot be read.
    """
    try:
        if Path(file_or_table).exists():
            sample = read_sample(Path(file_or_table), limit)
        elif _TABLE.fullmatch(file_or_table) and not file_or_table.lower().endswith(_SUFFIXES):
            project = project_dir.resolve()
            sample = read_table(file_or_table, project, profiles_dir, target, limit)
        else:
            raise Unreadable(
                f"{file_or_table} is neither a file nor the name of a table. Correct the path, or "
                "name a table as SCHEMA.TABLE."
            )
    except Unreadable as exc:
        _stop(str(exc))
    found = recognise(sample)
    if found is None:
        _stop(description.no_format(sample), 1)
    proposals = description.propose(sample, found, system)
    if only:
        named = sorted({change.table for change in found.changes})
        found.changes = [change for change in found.changes if is_wanted([only], change.table)]
        if not found.changes:
            _stop(f"No event is of {only}. The tables are {', '.join(named)}.")
        proposals = description.propose(sample, found, system)
    if form == "row":
        click.echo(description.csv_rows(proposals), nl=False)
    else:
        lines = description.yaml_lines if form == "yaml" else None
        for line in lines(proposals) if lines else description.report(sample, found, proposals):
            click.echo(line)


@main.command()
@_project_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(project_dir: Path, profiles_dir: Path | None, target: str | None, as_json: bool) -> None:
    """Check the machine, the installation and the project.

    Each problem is shown with its remedy. Spark is not started, and dbt only parses the project.
    Exit codes: 0 no problems, perhaps warnings, 1 at least one problem.
    """
    from dbt_spark_cdc import doctor as doctoring

    checks = []
    console = _console()
    for check in doctoring.examine(project_dir, profiles_dir, target):
        checks.append(check)
        if not as_json:
            doctoring.show(console, check)
    if as_json:
        click.echo(json.dumps([check.as_json() for check in checks], indent=2))
    sys.exit(any(check.status == doctoring.PROBLEM for check in checks))


@main.command()
@click.argument("table", required=False, shell_complete=_completed)
@_project_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(
    table: str | None,
    project_dir: Path,
    profiles_dir: Path | None,
    target: str | None,
    as_json: bool,
) -> None:
    """Show the lag, unread rows, last run and files of each table.

    TABLE is a final table, a history or a source table. The command reads only Delta's logs and
    dbt's artifacts; Spark is not started. Exit codes: 0 shown, 2 no such table or project.
    """
    from dbt_spark_cdc.observe import status as standing
    from dbt_spark_cdc.observe.delta_table import UnreadableLog
    from dbt_spark_cdc.observe.status_text import show

    try:
        project = open_project(project_dir, profiles_dir, target)
        notes: list[str] = []
        found = standing.statuses(project, [project.table(table)] if table else None, notes)
    except (BadProject, UnreadableLog) as exc:
        _stop(str(exc))
    now = standing.present()
    if as_json:
        shown = [one.as_json(now) for one in found]
        click.echo(json.dumps(shown[0] if table else shown, indent=2))
    else:
        show(_console(), found, bool(table), now)
    for note in notes:
        click.echo(f"cdc: {note}", err=True)


@main.command("lineage")
@click.argument("table", required=False)
@click.option("--project-dir", type=_FOLDER, default=".", help="Folder of the dbt project.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_lineage(table: str | None, project_dir: Path, as_json: bool) -> None:
    """Show where each column comes from, and where it is used.

    TABLE is a model, a snapshot, a seed or SOURCE.TABLE; without it, all tables are listed. The
    command reads only the artifacts of `dbt docs generate`. Exit codes: 0 shown, 2 no such table,
    project or artifacts.
    """
    from dbt_spark_cdc.observe import lineage

    try:
        tables = lineage.read_tables(project_dir)
        one = lineage.select(tables, table) if table else None
    except BadProject as exc:
        _stop(str(exc))
    if as_json:
        shown = lineage.as_json(tables, [one] if one else tables)
        click.echo(json.dumps(shown[0] if one else shown, indent=2))
    elif one:
        lineage.show(_console(), tables, one)
    else:
        for each in tables:
            click.echo(f"{each.name} ({each.kind}), {len(each.columns)} columns")


@main.command()
@click.argument("table", shell_complete=_completed)
@_project_options
@click.option("--key", multiple=True, help="Key of a row, or COLUMN=VALUE. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(
    table: str,
    project_dir: Path,
    profiles_dir: Path | None,
    target: str | None,
    key: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what the next build would do, or how a row came about.

    Without --key the command shows what the next build would read and write; Spark is not started.
    With --key it shows the events of the row and the effect of each. Exit codes: 0 explained, 2 no
    such table, key or project.
    """
    from dbt_spark_cdc.observe import explain as explaining
    from dbt_spark_cdc.observe import status as standing
    from dbt_spark_cdc.observe.delta_table import UnreadableLog

    try:
        project = open_project(project_dir, profiles_dir, target)
        found = standing.statuses(project, [project.table(table)])[0]
        steps = explaining.next_steps(project, found, standing.present())
        row = None
        if key:
            parsed = explaining.parse_key(found.table, key)
            row = explaining.explain_row(project, found, parsed, profiles_dir, target)
    except (BadProject, UnreadableLog) as exc:
        _stop(str(exc))
    if as_json:
        click.echo(json.dumps(explaining.as_json(found, steps, row), indent=2, default=str))
    else:
        explaining.show(_console(), found, steps, row)


@main.command()
@_project_options
@click.option("--output", type=_FILE, help="File to write. [default: target/cdc_report.html]")
def report(
    project_dir: Path, profiles_dir: Path | None, target: str | None, output: Path | None
) -> None:
    """Write an HTML page that shows what the runs did to each table.

    Its numbers come from the ledger, Delta's logs and dbt's last build; Spark is not started. Exit
    codes: 0 written, also after a build that failed, 2 no such project.
    """
    from dbt_spark_cdc.observe.report import write_report

    try:
        click.echo(write_report(project_dir, profiles_dir, target, output))
    except (BadProject, OSError) as exc:
        _stop(str(exc))


@main.command()
@_project_options
@click.option("--output", type=_FILE, help="Write to this file, atomically, and print nothing.")
@click.option(
    "--otlp", is_flag=True, help="Send to OTEL_EXPORTER_OTLP_ENDPOINT, and print nothing."
)
def metrics(
    project_dir: Path,
    profiles_dir: Path | None,
    target: str | None,
    output: Path | None,
    otlp: bool,
) -> None:
    """Print metrics for Prometheus, or send them to OpenTelemetry.

    The numbers come from the ledger, Delta's logs and dbt's last build; Spark is not started.
    --output and --otlp can be combined. Exit codes: 0 done, also after a build that failed, 1 the
    endpoint did not accept them, 2 no such project, a file that cannot be written, or a missing
    Python package.
    """
    from dbt_spark_cdc.observe import metrics as measuring
    from dbt_spark_cdc.observe import status as standing
    from dbt_spark_cdc.observe.delta_table import UnreadableLog
    from dbt_spark_cdc.whole_file import write_whole

    now = standing.present()
    try:
        project = open_project(project_dir, profiles_dir, target)
        notes: list[str] = []
        samples = measuring.measure(project, standing.statuses(project, notes=notes), now)
        if output:
            write_whole(output, measuring.prometheus_text(samples))
        elif not otlp:
            click.echo(measuring.prometheus_text(samples), nl=False)
        if otlp:
            notes += measuring.send(samples, now, os.environ)
    except (BadProject, UnreadableLog, OSError) as exc:
        _stop(str(exc))
    except measuring.CannotSend as exc:
        _stop(str(exc), exc.code)
    for note in notes:
        click.echo(f"cdc: {note}", err=True)


def _console() -> Console:
    """A pipe or a file gets whole lines and no colours."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


@main.command()
@_project_options
@click.option("--vars", "variables", help="Variables of the project, as for dbt.")
@click.option(
    "--select", multiple=True, help="Build only what this dbt selector names. Repeatable."
)
@click.option(
    "--first",
    multiple=True,
    help="dbt selector of nodes to build before each check, such as a landing model. Repeatable.",
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds to wait after a check of the source tables that found nothing new.",
)
@click.option(
    "--full-every",
    type=click.FloatRange(min=1),
    default=3600.0,
    show_default=True,
    help="Seconds between builds of everything, with or without new data.",
)
@click.option(
    "--most-failures",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Failed builds in a row after which the command ends with exit code 1.",
)
@click.option(
    "--at-once",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Maximum number of source tables in a build, least recently built first; 0 for no limit.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each build.")
def watch(
    project_dir: Path,
    profiles_dir: Path | None,
    target: str | None,
    variables: str | None,
    select: tuple[str, ...],
    first: tuple[str, ...],
    interval: float,
    full_every: float,
    most_failures: int,
    at_once: int,
    as_json: bool,
) -> None:
    """Build tables as new data arrives, in one Spark session.

    The first build covers everything. After that, the command checks the declared source tables
    and runs `dbt build` for those with new commits or files. The next check follows at once after
    a build, and otherwise after --interval seconds. A failed build is repeated after pauses that
    grow. Ctrl-C and SIGTERM let the current build finish; a second Ctrl-C cancels it. Exit codes:
    0 stopped, 1 too many failures, 2 bad input.
    """
    from dbt_spark_cdc import watch as watching

    stopped = threading.Event()

    def stop(*_: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        project = watching.DbtProject(
            project_dir.resolve(), profiles_dir, target, select, first, variables
        )
    except (watching.CannotWatch, watching.InputsUnknown) as exc:
        _stop(str(exc))
    pace = watching.Pace(interval, full_every, most_failures, at_once)
    loop = watching.Watch(project, pace, watching.printed(as_json), stopped.wait)
    # Asked to stop while Spark started: there is no build yet that could be let finish.
    if not stopped.is_set() and not loop.run():
        _stop(
            f"{most_failures} builds failed in a row. Find the cause in logs/dbt.log, fix it, and "
            "start the command again.",
            1,
        )


def _layout(project: Path) -> Layout:
    """The folders that dbt_project.yml names; dbt's own where it names none, or computes them."""
    settings = project_settings(project.resolve())
    folders = []
    for setting, default in (("model-paths", "models"), ("snapshot-paths", "snapshots")):
        paths = settings.get(setting) or [default]
        folders.append(default if "{" in str(paths[0]) else str(paths[0]))
    return Layout(*folders)


def _summary(steps: Sequence[Step], prune: bool, check: bool, verbose: bool) -> list[str]:
    words = {
        Status.NEW: "would be written" if check else "written",
        Status.CHANGED: "would be rewritten" if check else "rewritten",
    }
    if prune:
        words[Status.REMOVED] = "would be deleted" if check else "deleted"
    else:
        words[Status.REMOVED] = f"{Status.REMOVED.value}: --prune deletes it"
    # Of files that were never ours the number will do.
    silent = set() if verbose else {Status.SAME, Status.BY_HAND}
    lines = dict.fromkeys(
        f"{step.path}: {words.get(step.status, step.status.value)}"
        for step in steps
        if step.status not in silent
    )
    counts = Counter(step.status for step in steps)
    tables = len({step.table for step in steps if step.table})
    parts = [
        f"{counts[status]} {word}"
        for status, word in (
            (Status.NEW, "new"),
            (Status.CHANGED, "changed"),
            (Status.SAME, "unchanged"),
            (Status.EDITED, "edited by hand"),
            (Status.BY_HAND, "by hand"),
            (Status.REMOVED, "removed"),
            (Status.REMOVED_EDITED, "removed but edited"),
        )
        if counts[status]
    ]
    return [*lines, f"{tables} table{'s' * (tables != 1)}: {', '.join(parts)}"]


def _stop(message: str, code: int = 2) -> NoReturn:
    click.echo(f"cdc: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
