"""The command `cdc`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import yaml

from dbt_spark_cdc import describe as description
from dbt_spark_cdc import generate as generation
from dbt_spark_cdc.config_table import BadConfig, read_config
from dbt_spark_cdc.generate import Status, Step
from dbt_spark_cdc.project_files import Layout
from dbt_spark_cdc.recognise import FORMATS, recognise
from dbt_spark_cdc.sample import RECORDS, Sample, Unreadable, read_sample
from dbt_spark_cdc.spark_table import read_table

TABLES, COLUMNS = "seeds/cdc_tables.csv", "seeds/cdc_columns.csv"
_TABLE = re.compile(r"`?\w+`?(\.`?\w+`?){0,2}")
# What ends so is a file that is not there.
_SUFFIXES = (".json", ".jsonl", ".csv", ".parquet", ".gz", ".txt")
_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Writes a dbt project from a table of tables, and describes change files."""


@main.command()
@click.option("--project-dir", type=_FOLDER, default=".", help="Folder of the dbt project.")
@click.option("--config", type=_FILE, help=f"The table of tables. [default: {TABLES}]")
@click.option("--columns", type=_FILE, help=f"Their columns. [default: {COLUMNS}, if there]")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file would change.")
@click.option("--prune", is_flag=True, help="Delete the files of tables that are gone.")
@click.option("--diff", is_flag=True, help="Show how files that were edited differ.")
@click.option("-v", "--verbose", is_flag=True, help="Name every file, also those left alone.")
def generate(
    project_dir: Path,
    config: Path | None,
    columns: Path | None,
    check: bool,
    prune: bool,
    diff: bool,
    verbose: bool,
) -> None:
    """Writes source, staging, history and final model of each table in seeds/cdc_tables.csv.

    What was edited by hand is kept and told. Everything wrong with the table is told at once, and
    then nothing is written. Exit codes: 0 done, 1 files would change (--check), 2 bad input.
    """
    layout = _layout(project_dir)
    if columns is None and (project_dir / COLUMNS).exists():
        columns = project_dir / COLUMNS
    try:
        configs = read_config(config or project_dir / TABLES, columns)
    except BadConfig as exc:
        _stop(
            f"{len(exc.problems)} problem(s) in the table of tables. Nothing was written.\n  - "
            + "\n  - ".join(exc.problems)
        )
    steps = generation.plan(project_dir, configs, layout)
    if not check:
        try:
            generation.carry_out(project_dir, steps, prune)
        except OSError as exc:
            _stop(f"{exc}. Run it again when this is mended: what was written is whole.")
    for line in _report(steps, prune, check, verbose):
        click.echo(line)
    for step in steps:
        if diff and step.status is Status.EDITED:
            click.echo(generation.differences(project_dir, step), nl=False)
    if check and generation.would_change(steps, prune):
        sys.exit(1)


@main.command()
@click.argument("file_or_table")
@click.option("--table", "only", help="Only this table of the events, as they name it.")
@click.option("--system", default="", help="Name of the dbt source. [default: as the events say]")
@click.option("--yaml", "form", flag_value="yaml", help="Print the source YAML only.")
@click.option("--row", "form", flag_value="row", help="Print rows for seeds/cdc_tables.csv.")
@click.option("--limit", default=RECORDS, show_default=True, help="Records to read at most.")
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
    """Tells the change format of a FILE (JSON, CSV, Parquet; .gz too) or TABLE, and declares it.

    Exit codes: 0 described, 1 no format fits, 2 it cannot be read.
    """
    try:
        if Path(file_or_table).exists():
            sample = read_sample(Path(file_or_table), limit)
        elif _TABLE.fullmatch(file_or_table) and not file_or_table.lower().endswith(_SUFFIXES):
            project = project_dir.resolve()
            sample = read_table(file_or_table, project, profiles_dir, target, limit)
        else:
            raise Unreadable(f"{file_or_table} is neither a file nor the name of a table.")
    except Unreadable as exc:
        _stop(str(exc))
    found = recognise(sample)
    if found is None:
        click.echo(_unknown(sample), err=True)
        sys.exit(1)
    proposals = description.propose(sample, found, system)
    if only:
        named = sorted({change.table for change in found.changes})
        found.changes = [change for change in found.changes if change.table == only]
        if not found.changes:
            _stop(f"No event is of {only}. There are {', '.join(named)}.")
        proposals = description.propose(sample, found, system)
    if form == "row":
        click.echo(description.csv_rows(proposals), nl=False)
    else:
        lines = description.yaml_lines if form == "yaml" else None
        for line in lines(proposals) if lines else description.report(sample, found, proposals):
            click.echo(line)


def _unknown(sample: Sample) -> str:
    record = next((record for record in sample.records if isinstance(record, dict)), {})
    return (
        f"cdc: no change format fits {sample.name} ({len(sample.records)} records, the first with "
        f"{', '.join(list(record)[:12]) or 'nothing'}).\nThe formats are {', '.join(FORMATS)} and "
        "flagged. For rows with a flag, declare the format flagged, and name the column in "
        "`operation` or the conditions in `apply_as_deletes`."
    )


def _layout(project: Path) -> Layout:
    """The folders that dbt_project.yml names; dbt's own where it names none, or computes them."""
    try:
        settings = yaml.safe_load((project / "dbt_project.yml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        _stop(f"There is no dbt_project.yml in {project.resolve()}. Name its folder: --project-dir")
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        _stop(f"{project / 'dbt_project.yml'} cannot be read: {exc}")
    settings = settings if isinstance(settings, dict) else {}
    folders = []
    for setting, default in (("model-paths", "models"), ("snapshot-paths", "snapshots")):
        paths = settings.get(setting) or [default]
        folders.append(default if "{" in str(paths[0]) else str(paths[0]))
    return Layout(*folders)


def _report(steps: Sequence[Step], prune: bool, check: bool, verbose: bool) -> list[str]:
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


def _stop(message: str) -> None:
    click.echo(f"cdc: {message}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
