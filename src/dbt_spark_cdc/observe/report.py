"""`cdc report`: one HTML file that shows what the runs of a project did, without any network."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dbt.adapters.sparkcdc.session.statement_log import FILE as STATEMENTS
from jinja2 import Environment, PackageLoader, StrictUndefined

from dbt_spark_cdc.observe.charts import ModelChart, category, chart_of, moments
from dbt_spark_cdc.observe.delta_table import UnreadableLog
from dbt_spark_cdc.observe.status import (
    BEHIND,
    FAILED,
    NOT_BUILT,
    UP_TO_DATE,
    Logs,
    TableStatus,
    present,
    statuses,
)
from dbt_spark_cdc.observe.status_text import ago, duration, size
from dbt_spark_cdc.project import BadProject, LastRun, Project, Result, open_project
from dbt_spark_cdc.whole_file import write_whole

REPORT = "cdc_report.html"
RUNS_SHOWN = 60
SLOWEST_SHOWN = 15
WORDS_SHOWN = 80
STATEMENT_FIELDS = {"run_id", "node", "seconds", "sql"}

WIDTH, HEIGHT = 360, 96
CHANGES = ("inserted", "updated", "deleted")
TROUBLES = ("late", "duplicate", "quarantined")
# Series that the title of their chart names.
NAMED_BY_TITLE = ("read", "lag", "files")
TONES = {UP_TO_DATE: "good", BEHIND: "warn", NOT_BUILT: "warn", FAILED: "bad"}


@dataclass(frozen=True)
class Bar:
    """A part of a bar.

    Attributes:
        series: What it counts, which is also its colour.
        x: Its left edge.
        y: Its upper edge.
        width: Its width.
        height: Its height.
        text: What it says when it is pointed at.
    """

    series: str
    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Stacked bars over time.

    Attributes:
        title: What it shows.
        series: What the bars count.
        bars: The bars.
        legend: The series by name, each with its colour; empty where the title says it all.
        largest: The value of the highest bar, in words.
        first: The time of the first bar.
        last: The time of the last one.
    """

    title: str
    series: tuple[str, ...]
    legend: list[tuple[str, str]]
    bars: list[Bar]
    largest: str
    first: str
    last: str


def write_report(
    folder: Path,
    profiles: Path | None = None,
    target: str | None = None,
    output: Path | None = None,
    error: str = "",
    parse: bool = True,
) -> Path:
    """Writes the report.

    Args:
        folder: Folder of the dbt project.
        profiles: Folder of profiles.yml; None: where dbt looks.
        target: Target of the profile; None: its default.
        output: The file; None: cdc_report.html in the folder of dbt's artifacts.
        error: What ended the last build before dbt could report results. With it a project that
            cannot be read is reported as well, not refused.
        parse: Whether dbt may parse the project where it has no manifest.

    Returns:
        The file.

    Raises:
        BadProject: The project cannot be read.
        OSError: The file cannot be written.
    """
    notes: list[str] = []
    project = None
    found: list[TableStatus] = []
    try:
        project = open_project(folder, profiles, target, parse)
    except BadProject as exc:
        if not error:
            raise
        notes.append(str(exc))
    if project:
        try:
            found = statuses(project, notes=notes)
        except (BadProject, UnreadableLog) as exc:
            notes.append(str(exc))
    path = output or (project.target_path if project else folder.resolve() / "target") / REPORT
    write_whole(path, render(project, found, present(), error, notes))
    return path.resolve()


def render(
    project: Project | None,
    found: Sequence[TableStatus],
    now: datetime,
    error: str = "",
    notes: Sequence[str] = (),
) -> str:
    """Returns the page.

    Args:
        project: The project; None where it cannot be read.
        found: Its tables.
        now: The present.
        error: What ended the last build early.
        notes: What could not be read.
    """
    environment = Environment(
        loader=PackageLoader("dbt_spark_cdc.observe"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=_number, size=size, duration=duration)
    last = project.last_run if project else None
    return environment.get_template("report.html").render(
        name=project.name if project else "dbt project",
        now=now.strftime("%Y-%m-%d %H:%M UTC"),
        notes=notes,
        error=error,
        build=_build(project, last) if project and last else None,
        tables=[_table(one, now) for one in found],
        charts=_model_charts(project) if project else [],
        totals=_totals(found, last),
        slowest=_slowest(project, last) if project and last else [],
        statements=_slowest_statements(project, last) if project and last else [],
        files=[
            {"node": stored.node["name"], "small": stored.small_files, "table": stored.table}
            for one in found
            for stored in one.stored
            if stored.table
        ],
        width=WIDTH,
        height=HEIGHT,
    )


def _build(project: Project, last: LastRun) -> dict[str, Any]:
    results = list(last.results.values())
    failed = [result for result in results if result.failed]
    counts = Counter(result.status for result in results)
    return {
        "command": last.command,
        "started": last.started.strftime("%Y-%m-%d %H:%M UTC") if last.started else "",
        "seconds": last.seconds,
        "counts": counts.most_common(),
        "failed": [
            {"kind": _kind(result), "name": _name(project, result.node), "message": result.message}
            for result in failed
        ],
        "warned": [
            {"name": _name(project, result.node), "message": result.message}
            for result in results
            if result.status == "warn"
        ],
    }


def _table(one: TableStatus, now: datetime) -> dict[str, Any]:
    runs = one.runs[-RUNS_SHOWN:]
    times = [run.at for run in runs]
    stored = one.stored[-1].table if one.stored else None
    # A first build counts what it reads and nothing else.
    read = [{"read": run.counters.get("read")} for run in runs]
    charts = [
        chart("Events applied", CHANGES, times, [run.counters for run in runs]),
        chart("Late, duplicate and bad events", TROUBLES, times, [run.counters for run in runs]),
        chart("Events read", ("read",), times, read),
        chart(
            "Lag when committed",
            ("lag",),
            [run.at for run in runs if run.lag is not None],
            [{"lag": run.lag.total_seconds()} for run in runs if run.lag is not None],
            say=_span,
        ),
    ]
    for part in one.stored:
        commits = list(reversed(part.table.commits[:RUNS_SHOWN])) if part.table else []
        counted = [commit for commit in commits if commit.files is not None]
        charts.append(
            chart(
                f"Files of {part.node['name']}",
                ("files",),
                [commit.at for commit in counted],
                [{"files": commit.files} for commit in counted],
            )
        )
    return {
        "name": one.table.name,
        "source": one.table.source_name,
        "state": one.state,
        "tone": TONES.get(one.state, "plain"),
        "reason": one.reason,
        "lag": one.lag(now),
        "rows": stored.rows if stored else None,
        "high_water_mark": one.high_water_mark,
        "newest_event": (one.newest_event or "")[:19].replace("T", " "),
        "quarantined": one.quarantined,
        "quarantined_exact": one.quarantined_exact,
        "changed": ago(runs[-1].at, now) if runs else "",
        "seconds": runs[-1].seconds if runs else None,
        "charts": [one for one in charts if one],
    }


def chart(
    title: str,
    series: tuple[str, ...],
    times: Sequence[datetime],
    values: Sequence[Mapping[str, float | None]],
    say: Callable[[float], str] | None = None,
    names: Mapping[str, str] | None = None,
    labels: Sequence[str] | None = None,
) -> Chart | None:
    """Returns bars over time, one for each moment; None where all values are zero or not known.

    Args:
        title: What it shows.
        series: What is stacked, from the bottom.
        times: The moments.
        values: The values of each moment, by series.
        say: Returns a value in words; None for plain numbers.
        names: What the series are called; None: by their own names.
        labels: The moments in words; None: by day and minute.
    """
    say = say or _number
    names = names or {}
    said = labels or [f"{at:%Y-%m-%d %H:%M}" for at in times]
    heights = [sum(one.get(name) or 0 for name in series) for one in values]
    largest = max(heights, default=0)
    if not largest:
        return None
    # The first and the last bar stand at the ends of the axis, where their times are.
    bar_width = 0.8 * WIDTH / max(len(values), 12)
    step = (WIDTH - bar_width) / max(len(values) - 1, 1)
    bars = []
    for place, (at, one) in enumerate(zip(said, values, strict=True)):
        top = float(HEIGHT)
        for name in series:
            value = one.get(name) or 0
            if value:
                height = max(HEIGHT * value / largest, 0.5)
                top -= height
                text = f"{at} {names.get(name, name)}: {say(value)}"
                bars.append(
                    Bar(name, round(place * step, 2), round(top, 2), bar_width, height, text)
                )
    present_series = tuple(name for name in series if any(one.get(name) for one in values))
    has_legend = len(present_series) > 1 or present_series[0] not in NAMED_BY_TITLE
    return Chart(
        title=title,
        series=present_series,
        legend=[(name, names.get(name, name)) for name in present_series] if has_legend else [],
        bars=bars,
        largest=say(largest),
        first=said[0],
        last=labels[-1] if labels and len(labels) > 1 else _last_time(times),
    )


def _model_charts(project: Project) -> list[dict[str, Any]]:
    """The charts that models ask for, and why one is not drawn."""
    logs = Logs(project)
    return [_model_chart(chart_of(node, logs)) for node in project.charted()]


def _model_chart(found: ModelChart) -> dict[str, Any]:
    colors = {name: f"c{place}" for place, name in enumerate(found.series, start=1)}
    legend = [(color, category(name)) for name, color in colors.items()]
    drawn = None
    categories: list[dict[str, Any]] = []
    largest = max((value for _, one in found.points for value in one.values()), default=0)
    if found.is_time and largest:
        times = [at for at, _ in found.points]
        drawn = chart(
            found.title,
            tuple(colors.values()),
            times,
            [{colors[name]: value for name, value in one.items()} for _, one in found.points],
            names=dict(legend),
            labels=moments(times),
        )
    elif largest:
        categories = [
            {
                "name": category(x),
                "bars": [
                    {"series": colors[name], "value": value, "share": 100 * value / largest}
                    for name, value in one.items()
                ],
            }
            for x, one in found.points
        ]
    return {
        "model": found.node["name"],
        "title": found.title,
        "problems": found.problems,
        "chart": drawn,
        "categories": categories,
        "legend": legend if len(legend) > 1 or found.divided else [],
    }


def _last_time(times: Sequence[datetime]) -> str:
    """The end of an axis that begins with day and time."""
    if len(times) < 2:
        return ""
    same_day = times[0].date() == times[-1].date()
    return f"{times[-1]:%H:%M}" if same_day else f"{times[-1]:%Y-%m-%d}"


def _totals(found: Sequence[TableStatus], last: LastRun | None) -> list[tuple[str, int | None]]:
    """What the newest run did to all tables together; None for what it did not count."""
    newest = {one.runs[-1].run_id for one in found if one.runs}
    wanted = last.invocation if last and last.invocation in newest else None
    if wanted is None and found:
        latest = max((one.runs[-1] for one in found if one.runs), key=lambda r: r.at, default=None)
        wanted = latest.run_id if latest else None
    totals: dict[str, int | None] = {}
    for one in found:
        for run in one.runs:
            if run.run_id == wanted:
                for name in ("read", *CHANGES, *TROUBLES):
                    counts = (totals.get(name), run.counters.get(name))
                    counted = [count for count in counts if count is not None]
                    totals[name] = sum(counted) if counted else None
    return list(totals.items())


def _slowest(project: Project, last: LastRun) -> list[dict[str, Any]]:
    bars = [
        {"kind": _kind(result), "name": _name(project, result.node), "seconds": result.seconds}
        for result in last.results.values()
    ]
    return _longest(bars)


def _slowest_statements(project: Project, last: LastRun) -> list[dict[str, Any]]:
    """Of the build that left the results: `log_statements` may be off since."""
    bars = [
        {
            "name": _name(project, one["node"]) if one["node"] else "whole run",
            "text": f"{'failed: ' if one.get('failed') else ''}{_first_words(one['sql'])}",
            "sql": one["sql"],
            "seconds": one["seconds"],
        }
        for one in recorded_statements(project.target_path / STATEMENTS)
        if one["run_id"] == last.invocation
    ]
    return _longest(bars)


def recorded_statements(path: Path) -> list[dict[str, Any]]:
    """Returns the statements that the adapter recorded; none where there is no such file.

    Args:
        path: target/cdc_statements.jsonl. The line that a killed build left unfinished is passed
            over.
    """
    found = []
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                with suppress(ValueError):
                    found.append(json.loads(line))
    except FileNotFoundError:
        return []
    return [one for one in found if isinstance(one, dict) and one.keys() >= STATEMENT_FIELDS]


def _longest(bars: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The longest bars, each with its share of the first."""
    bars = sorted(bars, key=lambda bar: -bar["seconds"])[:SLOWEST_SHOWN]
    return [
        {**bar, "share": 100 * bar["seconds"] / bars[0]["seconds"]}
        for bar in bars
        if bar["seconds"]
    ]


def _first_words(sql: str) -> str:
    return textwrap.shorten(sql, WORDS_SHOWN, placeholder=" ...")


def _kind(result: Result) -> str:
    return result.node.split(".")[0].replace("_", " ")


def _name(project: Project, node: str) -> str:
    parts = node.split(".")
    return str(project.node(node).get("name") or parts[min(2, len(parts) - 1)])


def _span(seconds: float) -> str:
    return duration(timedelta(seconds=seconds))


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if 0 < value < 1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"
