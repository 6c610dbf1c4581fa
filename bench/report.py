"""Results as a table and a plot in docs/.

    python -m bench.report benchmarks_medium    # write a page again, from its results

`make bench` writes the page of its run. After a change of bench/introduction.md the pages of other
runs are written again in this way.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from bench import goals
from bench.results import SYSTEMS

WAYS = {"delta_cow", "delta_mor", "iceberg_cow", "iceberg_mor"}
OURS = {"cdc", "cdc_history", "cdc_overwrite"} | WAYS
# Of more nodes only the sum of their statements is shown.
FEW_NODES = 6
DECODING_GOALS = (("spark_from_json", 1 / 0.7), ("duckdb", 1.0))
COLORS = {
    "cdc": "#0b6e4f",
    "cdc_history": "#7bc8a4",
    "cdc_overwrite": "#3d9970",
    "dbt_recipe": "#c1440e",
    "dbt_recipe_dv": "#e8985e",
    "pyspark_merge": "#d9b44a",
    "foreach_batch": "#d9b44a",
    "duckdb": "#5b6c8f",
    "delta_rs": "#9a7aa0",
    "spark_merge": "#b5b5b5",
    "spark_replace": "#cfcfcf",
    "spark_floor": "#cfcfcf",
    "spark_write": "#9e9e9e",
    "spark_load": "#b5b5b5",
    "spark_load_history": "#cfcfcf",
    "spark_changes": "#9e9e9e",
    "spark_delete": "#9e9e9e",
    "spark_from_json": "#9e9e9e",
    "article_000": "#b5651d",
    "delta_cow": "#0b6e4f",
    "delta_mor": "#7bc8a4",
    "iceberg_cow": "#2a6f97",
    "iceberg_mor": "#89c2d9",
}

INTRODUCTION = Path(__file__).with_name("introduction.md")
ROOT = Path(__file__).resolve().parents[1]
# By the name of the page: its title, which mkdocs.yml has as well, and its file of results.
PAGES = {
    "benchmarks": ("Benchmarks", "latest.json"),
    "benchmarks_medium": ("Benchmarks of large tables", "medium.json"),
    "benchmarks_loads": ("Benchmarks of large loads and moving keys", "loads.json"),
    "benchmarks_live": ("Benchmarks of live sources", "live.json"),
    "benchmarks_lake": ("Benchmarks of changes out, formats and erasure", "lake.json"),
}


def write(results: Path, docs: Path, name: str = "benchmarks") -> list[Path]:
    """Writes the page and its plot.

    Args:
        results: The file of results.
        docs: Folder that gets them.
        name: Their name, without an ending.

    Returns:
        The files.
    """
    content = json.loads(results.read_text(encoding="utf-8"))
    metadata = content.pop("metadata")
    # The rows of one workload stay as they were measured.
    content = dict(sorted(content.items(), key=lambda row: row[0].split()[0]))
    page, plot = docs / f"{name}.md", docs / f"{name}.svg"
    introduction = INTRODUCTION.read_text(encoding="utf-8").partition("\n")[2]
    text = f"# {PAGES[name][0]}\n{introduction}\n{_page(content, metadata, plot.name)}"
    page.write_text(text, encoding="utf-8")
    plot.write_text(_plot(content), encoding="utf-8")
    return [page, plot]


def _page(
    seconds: Mapping[str, Mapping[str, float]], metadata: Mapping[str, Any], plot: str
) -> str:
    details = metadata["details"]
    versions = ", ".join(f"{name} {number}" for name, number in metadata["versions"].items())
    peaks = ", ".join(f"{name} {mib:,} MiB" for name, mib in metadata["peak_mib"].items())
    java = ", ".join(f"{name} {mib:,} MiB" for name, mib in metadata["peak_java_mib"].items())
    rows = metadata["sizes"]["sizes"][-1]
    bulk = f" W5 is a table of {rows:,} rows." if any(n.startswith("W5") for n in seconds) else ""
    scale = metadata["scale"]
    if changed := metadata["changed"]:
        scale += f", but {', '.join(changed)}"
    commit = f"commit {metadata['commit']}, " if metadata.get("commit") else ""
    lines = [
        f"This run: scale {scale}; {metadata['date']}, {commit}{metadata['cores']} cores,"
        f" {metadata['memory_gib']} GiB, {versions}.",
        f"It took {metadata['seconds']} s. Peak memory of dbt, Java and all else: {peaks}.",
        f"Of Java alone: {java or 'not measured'}.",
        "",
        f"All tables have 6 columns. A batch is {metadata['sizes']['changes']:,} changes unless"
        f" another number is given.{bulk}",
        "",
        f"![Seconds by workload and system]({plot})",
        "",
        "## Seconds",
        "",
    ]
    plain = {name: row for name, row in seconds.items() if not name.startswith("D ")}
    lines += [*_table(plain, details), *_reasons(details)]
    lines += ["", "## Goals", "", *goals.table_of(seconds, metadata)]
    lines += ["", "## Ratios", "", *_ratios(seconds)]
    lines += ["", *_flatness(seconds), *_files(details)]
    lines += [*_erasures(details), *_latencies(details), *_landing(details)]
    head, rule, *statements = _statements(details)
    if statements:
        lines += ["", "## SQL statements of a batch", "", head, rule, *statements]
    if plain.keys() != seconds.keys():
        lines += ["", "## Decoding", "", *_decoding(details, seconds, metadata["cores"])]
    return "\n".join(lines) + "\n"


def _table(seconds: Mapping[str, Mapping[str, float]], details: Mapping[str, Any]) -> list[str]:
    used = [name for name in SYSTEMS if any(name in details[workload] for workload in seconds)]
    lines = [f"| workload | {' | '.join(used)} |", "|---" * (len(used) + 1) + "|"]
    for workload, row in seconds.items():
        cells = []
        for system in used:
            detail = details[workload].get(system, {})
            cell = f"{row[system]:.2f}" if system in row else ""
            if without := next((word for word in ("failed", "skipped") if word in detail), ""):
                cell = without
            elif detail.get("correct") is False:
                wrong = detail.get("wrong_keys")
                cell += f" ✗ {wrong:,} of {detail['keys']:,} keys" if wrong else " ✗"
            cells.append(cell)
        lines.append(f"| {workload} | {' | '.join(cells)} |")
    return lines


def _reasons(details: Mapping[str, Any]) -> Iterable[str]:
    """What was not measured, for this machine lacks something."""
    workloads: dict[str, list[str]] = {}
    for workload, row in details.items():
        for detail in row.values():
            if "skipped" in detail and workload not in workloads.setdefault(detail["skipped"], []):
                workloads[detail["skipped"]].append(workload)
    for reason, names in workloads.items():
        yield from ("", f"Not measured: {', '.join(names)}. {reason}")


def _ratios(seconds: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Seconds of ours by those of each peer in the same row."""
    rows = {name: row for name, row in seconds.items() if not name.startswith("D ")}
    peers = [
        name
        for name in SYSTEMS
        if name not in OURS and any(row.get(name) and row.keys() & OURS for row in rows.values())
    ]
    lines = [f"| workload | ours | {' | '.join(f'to {peer}' for peer in peers)} |"]
    lines.append("|---" * (len(peers) + 2) + "|")
    for workload, row in rows.items():
        for ours in (name for name in SYSTEMS if name in OURS and name in row):
            cells = [f"{row[ours] / row[peer]:.2f}" if row.get(peer) else "" for peer in peers]
            if any(cells):
                lines.append(f"| {workload} | {ours} | {' | '.join(cells)} |")
    return lines


def _statements(details: Mapping[str, Any]) -> Iterable[str]:
    """How many statements dbt's nodes ran: each node of few, the sum of many."""
    yield "| workload | system | all | by node |"
    yield "|---|---|---|---|"
    for workload, row in details.items():
        for system, detail in row.items():
            if counts := detail.get("statements"):
                few = len(counts) <= FEW_NODES
                nodes = ", ".join(f"{name} {count}" for name, count in counts.items() if few)
                nodes = nodes or f"{len(counts)} nodes, {max(counts.values())} at most"
                yield f"| {workload} | {system} | {sum(counts.values())} | {nodes} |"


def _flatness(seconds: Mapping[str, Mapping[str, float]]) -> Iterable[str]:
    """How cost grows with size and age: the last row of a workload against its first."""
    for workload, growing in (("W4", "the table"), ("W5", "the batch"), ("W6", "the log")):
        rows = [row for name, row in seconds.items() if name.split()[0] == workload]
        names = [name for name in seconds if name.split()[0] == workload]
        if len(rows) < 2:
            continue
        ratios = [
            f"{system} {rows[-1][system] / rows[0][system]:.2f}"
            for system in SYSTEMS
            if system in rows[0] and system in rows[-1]
        ]
        goal = "" if workload == "W5" else " The goal is 1.5."
        yield f"- With {growing} ({names[-1]} against {names[0]}): {', '.join(ratios)}.{goal}"


def _files(details: Mapping[str, Any]) -> Iterable[str]:
    """In how many files tables lie while batch after batch is merged into them."""
    for workload, row in details.items():
        for system, detail in row.items():
            if counts := [count for count in detail.get("files", []) if count]:
                yield (
                    f"- {workload}: the tables of {system} lay in {counts[0]} files after the first"
                    f" batch, in {max(counts)} at most, and in {counts[-1]} after the last."
                )


def _erasures(details: Mapping[str, Any]) -> Iterable[str]:
    """How many files of each table an erasure has written again."""
    rows = [
        row["cdc_history"]
        for row in details.values()
        if "files_rewritten" in row.get("cdc_history", {})
    ]
    if not rows:
        return
    yield from ("", "## Files that an erasure writes again", "")
    yield "| table | files | that hold the person | written again |"
    yield "|---|---|---|---|"
    for row in rows:
        for name, files in row["files_of"].items():
            holding, rewritten = row["files_with_the_person"][name], row["files_rewritten"][name]
            yield f"| {name} | {files} | {holding} | {rewritten} |"


def _latencies(details: Mapping[str, Any]) -> Iterable[str]:
    """How long changes take from their commit to the final table, and where they spend it."""
    rows = [
        (workload.split(maxsplit=1)[1], system, row[system])
        for workload, row in details.items()
        for system in SYSTEMS
        if "p95" in row.get(system, {})
    ]
    if not rows:
        return
    yield from ("", "## From commit to final table", "")
    yield "Seconds of all inserts and updates that were committed in the measured time. *Committed*"
    yield "is the rate that the server reached, *drained* the time from the last commit until the"
    yield "last change had arrived."
    yield ""
    yield "| changes | system | p50 | p95 | p99 | committed | drained | |"
    yield "|---|---|---|---|---|---|---|---|"
    for rate, system, detail in rows:
        shares = " | ".join(_seconds(detail[share]) for share in ("p50", "p95", "p99"))
        remark = "the backlog grows" if detail["grows"] else ""
        if detail["missing"]:
            remark = f"{detail['missing']:,} of {detail['changes']:,} changes did not arrive"
        committed, drained = f"{detail['committed_a_second']:,.0f}", detail["drained_seconds"]
        yield f"| {rate} | {system} | {shares} | {committed} | {_seconds(drained)} | {remark} |"
    places = list(dict.fromkeys(place for _, _, detail in rows for place in detail["stages"]))
    yield from ("", "Median seconds from commit to each place on the way:", "")
    yield f"| changes | system | {' | '.join(places)} | final table |"
    yield "|---" * (len(places) + 3) + "|"
    for rate, system, detail in rows:
        cells = [_seconds(detail["stages"][p]) if p in detail["stages"] else "" for p in places]
        yield f"| {rate} | {system} | {' | '.join(cells)} | {_seconds(detail['p50'])} |"


def _seconds(value: float | None) -> str:
    """Seconds, or a word where it took longer than anybody waited."""
    return "longer" if value is None else f"{value:.1f}"


def _landing(details: Mapping[str, Any]) -> Iterable[str]:
    """How many changes are captured and landed in a second."""
    rows = [
        (workload, detail)
        for workload, row in details.items()
        for detail in row.values()
        if "changes_a_second" in detail
    ]
    if not rows:
        return
    yield from (
        "",
        "## Captured and landed",
        "",
        "| | changes | changes a second |",
        "|---|---|---|",
    )
    for workload, detail in rows:
        yield f"| {workload} | {detail['changes']:,} | {detail['changes_a_second']:,} |"


def _decoding(
    details: Mapping[str, Any], seconds: Mapping[str, Mapping[str, float]], cores: int
) -> Iterable[str]:
    yield "Thousands of events, and megabytes of text, a second and core; all cores were at work."
    yield "The goal is at least 0.7 of `from_json` and more than DuckDB. `flagged` and `delta_cdf`"
    yield "are columns already: there Spark only reads them."
    yield ""
    yield "| format | cdc | | from_json | duckdb | to from_json | to duckdb |"
    yield "|---|---|---|---|---|---|---|"
    for name, row in seconds.items():
        if not name.startswith("D "):
            continue
        cells = []
        for system in ("cdc", "spark_from_json", "duckdb"):
            detail = details[name].get(system, {})
            if "events_per_second" not in detail:
                cells += ["failed"] + ([""] if system == "cdc" else [])
                continue
            wrong = " ✗" if detail.get("correct") is False else ""
            cells.append(f"{detail['events_per_second'] / 1000 / cores:,.0f}{wrong}")
            if system == "cdc":
                cells.append(f"{detail['megabytes_per_second'] / cores:.0f} MB")
        for peer, _ in DECODING_GOALS:
            cells.append(f"{row[peer] / row['cdc']:.2f}" if {peer, "cdc"} <= row.keys() else "")
        yield f"| {name[2:]} | {' | '.join(cells)} |"


def _plot(seconds: Mapping[str, Mapping[str, float]]) -> str:
    """Bars on a logarithmic scale, a group for each workload."""
    rows = {name: row for name, row in seconds.items() if not name.startswith("D ")}
    values = [value for row in rows.values() for value in row.values() if value > 0]
    if not values:
        return '<svg xmlns="http://www.w3.org/2000/svg"/>\n'
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)))
    left, width, bar, gap, top = 230, 640, 11, 12, 70
    step = width / max(1, high - low)

    def x(value: float) -> float:
        return left + (math.log10(max(value, 10**low)) - low) * step

    parts: list[str] = []
    y: float = top
    used = [name for name in SYSTEMS if any(name in row for row in rows.values())]
    for workload, row in rows.items():
        shown = [name for name in used if name in row]
        middle = y + len(shown) * bar / 2 + 4
        parts.append(
            f'<text x="{left - 10}" y="{middle:.0f}" text-anchor="end">{escape(workload)}</text>'
        )
        for system in shown:
            length = max(1.0, x(row[system]) - left)
            parts.append(
                f'<rect x="{left}" y="{y:.0f}" width="{length:.1f}" height="{bar - 2}"'
                f' fill="{COLORS[system]}"><title>{system}: {row[system]} s</title></rect>'
                f'<text x="{left + length + 4:.1f}" y="{y + bar - 3:.0f}" class="value">'
                f"{row[system]:.2f}</text>"
            )
            y += bar
        y += gap
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.insert(
            0,
            f'<line x1="{at:.0f}" x2="{at:.0f}" y1="{top - 8}" y2="{y:.0f}" stroke="#ddd"/>'
            f'<text x="{at:.0f}" y="{top - 12}" text-anchor="middle" class="value">'
            f"{10.0**power:g} s</text>",
        )
    for number, system in enumerate(used):
        column, line = number % 5, number // 5
        at = left - 200 + column * 165
        parts.append(
            f'<rect x="{at}" y="{14 + line * 18}" width="11" height="11" fill="{COLORS[system]}"/>'
            f'<text x="{at + 16}" y="{24 + line * 18}">{system}</text>'
        )
    total = left + width + 60
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {y + 10:.0f}"'
        ' font-family="sans-serif" font-size="12">'
        "<style>.value{font-size:9px;fill:#555}</style>"
        f'<rect width="{total}" height="{y + 10:.0f}" fill="white"/>' + "".join(parts) + "</svg>\n"
    )


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        write(ROOT / "bench" / "results" / PAGES[asked][1], ROOT / "docs", asked)
