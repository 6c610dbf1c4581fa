"""`python -m bench.at_scale`: measured costs carried to larger warehouses, and docs/scale.md.

    python -m bench.at_scale --tables 10000 --changes-per-second 1000 --rows 1e9 --cores 64
    python -m bench.at_scale --write     # write the tables of docs/scale.md
    python -m bench.at_scale --check     # exit 1 if one would change

What is measured comes from the files in bench/results, each cost from the newest file that has the
rows for it, and the quickest batch from all of them; --results names other files. What the bench
does not measure is listed in ASSUMED of bench/projection.py, and --assume replaces it.
docs/scale.md explains the laws.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from bench.costs import Cost, Costs, Run, Unusable, read_costs, read_runs
from bench.projection import (
    ASSUMED,
    FULL,
    Projection,
    Scenario,
    Wrong,
    project,
    read_assumptions,
    read_scenario,
    to_number,
)

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "scale.md"
RESULTS = ROOT / "bench" / "results"
DAY = 86_400

T = TypeVar("T")


def report(found: Projection, price: float | None) -> Iterator[str]:
    """Lines for the terminal."""
    asked = found.scenario
    yield f"{'share':>8}  {'basis':<8}  what a build every {asked.interval:g} s needs"
    for load in found.ranking:
        amounts = f"{_short(load.need)} of {_short(load.capacity)} {load.unit}"
        yield f"{_percent(load.share):>8}  {load.basis:<8}  {load.what}: {amounts}"
    yield ""
    yield from (f"{name}: {value}" for name, value in _figures(found, price))


def _figures(found: Projection, price: float | None = None) -> Iterator[tuple[str, str]]:
    asked, per_day = found.scenario, DAY / found.scenario.interval
    yield "changes of a table and build", _short(asked.batch)
    yield (
        "files of a table, of which a batch touches",
        f"{_short(asked.files)}, {_short(asked.touched)}",
    )
    yield "bytes that a build writes", _bytes(found.written_bytes)
    yield "the same without deletion vectors", _bytes(found.copied_bytes)
    yield "new files a day at least, before compaction", _short(found.new_files * per_day)
    yield "rows of the ledger a day", _short(asked.active * per_day)
    yield "core hours of a first load of one table", _hours(found.load_core_seconds)
    yield f"executor cores for {_percent(FULL)} load", _short(found.cores_needed)
    yield "the same, if a change costs no more than a loaded row", _short(found.cores_at_least)
    yield f"drivers for {_percent(FULL)} load", _short(found.drivers_needed)
    yield "core seconds at work for a million changes", _short(found.used_per_million)
    paid = "falls behind" if found.falls_behind else _hours(found.paid_per_million)
    yield "core hours of this cluster for a million changes", paid
    if price is not None and not found.falls_behind:
        yield "money of this cluster for a million", f"{found.paid_per_million / 3600 * price:,.4g}"
    if price is not None:
        yield "money at work for a million changes", f"{found.used_per_million / 3600 * price:,.4g}"


# Name, what it is about, and its arguments.
SCENARIOS: dict[str, Scenario] = {
    "many small tables": Scenario(
        tables=10_000, active_tables=2_000, changes_per_second=1_000, cores=32, driver_cores=16,
        driver_gib=64,
    ),
    "tables of a terabyte, keys anywhere": Scenario(
        tables=20, changes_per_second=5_000, rows=5e9, cores=64, driver_cores=16, driver_gib=64
    ),
    "the same, newest 1 % of the files": Scenario(
        tables=20, changes_per_second=5_000, rows=5e9, key_share=0.01, cores=64, driver_cores=16,
        driver_gib=64,
    ),
    "a million changes a second": Scenario(
        tables=200, changes_per_second=1_000_000, rows=1e9, key_share=0.1, cores=512,
        driver_cores=16, driver_gib=64,
    ),
}  # fmt: skip
BATCHES = (100, 1_000, 10_000, 100_000, 1_000_000)
SHARES = (1.0, 0.1, 0.01)
INTERVALS = (60, 900, 3_600, DAY)


def sections(runs: Sequence[Run], assumed: Mapping[str, float]) -> dict[str, str]:
    """Returns the generated parts of the page by name."""
    costs = read_costs(runs, history=True)
    bare = read_costs(runs, history=False)
    found = {name: project(asked, costs, assumed) for name, asked in SCENARIOS.items()}
    return {
        "results": _results_part([costs, bare]),
        "costs": _costs_part(costs, bare),
        "assumed": _table(
            ("name", "value", "meaning"),
            (
                (f"`{name}`", f"{_short(value)} {ASSUMED[name].unit}", ASSUMED[name].why)
                for name, value in assumed.items()
            ),
        ),
        "scenarios": _scenarios_part(found),
        "shares": _shares_part(found),
        "figures": _figures_part(found),
        "batches": _batches_part(costs, bare, assumed),
        "intervals": _intervals_part(costs, assumed),
    }


def _results_part(all_costs: Sequence[Costs]) -> str:
    used = {run.name: run for costs in all_costs for run in costs.runs()}
    runs = sorted(used.values(), key=lambda run: run.metadata["date"], reverse=True)
    rows = [
        (
            f"`bench/results/{run.name}`",
            run.metadata["date"],
            f"`{commit}`" if (commit := run.metadata.get("commit")) else "not recorded",
            str(run.cores),
            f"{run.metadata['memory_gib']} GiB",
        )
        for run in runs
    ]
    parts = [_table(("file", "date", "commit", "cores", "memory"), rows)]
    if old := [f"`{run.name}`" for run in runs if not run.metadata.get("commit")]:
        parts.append(
            f"{' and '.join(old)} is from before the bench recorded the commit that it measures."
            " The engine has changed since: these are the costs of an older one."
        )
    kinds = zip(("with a history", "without a history"), all_costs, strict=True)
    rough = {kind: c.of["row"] for kind, c in kinds if c.of["row"].rows[0].startswith("W4")}
    if rough:
        rows_of = next(iter(rough.values())).rows
        parts.append(
            f"The cost of a searched row of tables {' and '.join(rough)} comes from"
            f" {' and '.join(rows_of)}. These tables are too small for it, and the figure is"
            " several times too high: [decision 7](decisions/0007-few-rows-are-interpreted.md) has"
            " a bare merge into 3 million rows in 3.1 to 4.5 s on two cores, which leaves 2 to 3"
            " core seconds a million rows for all of it. `make bench SCALE=full` measures larger"
            " tables."
        )
    return "\n\n".join(parts)


def _costs_part(costs: Costs, bare: Costs) -> str:
    rows = []
    for name, cost in costs.of.items():
        other = bare.of[name]
        rows.append(
            (
                cost.kind.what,
                _amount(cost),
                # The builds of many tables are measured with histories only.
                "" if other == cost else _amount(other),
                _both(_basis(cost), _basis(other)),
                _both(_reach(cost), _reach(other)),
                cost.kind.law,
            )
        )
    rows += [
        (
            f"{cost.kind.what}, `{form}`",
            _amount(cost),
            "",
            _basis(cost),
            _reach(cost),
            cost.kind.law,
        )
        for form, cost in costs.decode.items()
    ]
    header = ("cost of", "with history", "without", "from", "measured up to", "law beyond")
    return _table(header, rows)


def _both(with_history: str, without: str) -> str:
    """What holds for tables with a history and for those without one, once if it is the same."""
    return with_history if with_history == without else f"{with_history}; without: {without}"


def _basis(cost: Cost) -> str:
    return f"{', '.join(cost.rows)} of `{cost.run.name}`"


def _reach(cost: Cost) -> str:
    return f"{_short(cost.reach)} {cost.kind.reach}"


def _scenarios_part(found: Mapping[str, Projection]) -> str:
    rows = []
    for name, projection in found.items():
        asked = projection.scenario
        rows.append(
            (
                name,
                f"{_short(asked.tables)}, {_short(asked.active)} with changes",
                _bytes(asked.table_bytes),
                _short(asked.changes_per_second),
                f"{asked.interval:g} s",
                f"{_short(asked.cores)} + {_short(asked.drivers)} x {_short(asked.driver_cores)}",
                projection.ranking[0].what,
            )
        )
    header = (
        "scenario", "tables", "size of each", "changes a second", "build every",
        "cores: executors + drivers", "breaks first",
    )  # fmt: skip
    return _table(header, rows)


def _shares_part(found: Mapping[str, Projection]) -> str:
    names = [load.what for load in next(iter(found.values())).loads]
    rows = []
    for place, name in enumerate(names):
        loads = [projection.loads[place] for projection in found.values()]
        cells = [
            f"**{_percent(load.share)}**" if load.share > 1 else _percent(load.share)
            for load in loads
        ]
        rows.append((name, loads[0].basis, *cells))
    return _table(("share of its capacity", "basis", *found), rows)


def _figures_part(found: Mapping[str, Projection]) -> str:
    listed = [dict(_figures(projection)) for projection in found.values()]
    rows = [(name, *(figures[name] for figures in listed)) for name in listed[0]]
    return _table(("", *found), rows)


def _batches_part(costs: Costs, bare: Costs, assumed: Mapping[str, float]) -> str:
    rows = []
    for batch in BATCHES:
        # One table and one build, whatever its interval: only the work is asked for.
        asked = Scenario(tables=1, changes_per_second=batch, interval=1)
        with_history = project(asked, costs, assumed).used_per_million
        without = project(asked, bare, assumed, history=False).used_per_million
        rows.append(
            (
                _short(batch),
                _short(with_history),
                _hours(with_history),
                _short(without),
                _hours(without),
            )
        )
    header = (
        "changes of a table and build",
        "with history: core s",
        "core h",
        "without: core s",
        "core h",
    )
    return _table(header, rows)


def _intervals_part(costs: Costs, assumed: Mapping[str, float]) -> str:
    terabyte = SCENARIOS["tables of a terabyte, keys anywhere"]
    rows = []
    for interval in INTERVALS:
        cells = [
            _hours(
                project(
                    dataclasses.replace(terabyte, interval=interval, key_share=share),
                    costs,
                    assumed,
                ).used_per_million
            )
            for share in SHARES
        ]
        rows.append((f"{interval:,} s", *cells))
    header = ("build every", *(f"keys from {_percent(share)} of the files" for share in SHARES))
    return _table(header, rows)


def _amount(cost: Cost) -> str:
    if cost.value == 0:
        return "below what the runs differ by"
    small = cost.value < 0.05
    value = cost.value * 1e6 if small else cost.value
    return f"{_short(value)} {cost.kind.unit}{' a million' if small else ''}"


def _short(value: float) -> str:
    """Three digits, and no more zeros than one can count."""
    if value == 0:
        return "0"
    if value == int(value) and value < 1e6:
        return f"{int(value):,}"
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{float(f'{value / size:.3g}'):,g} {word}"
    return f"{float(f'{value:.3g}'):,g}"


def _percent(share: float) -> str:
    return f"{float(f'{share * 100:.2g}'):,g} %" if share >= 0.001 else "< 0.1 %"


def _hours(seconds: float) -> str:
    return f"{float(f'{seconds / 3600:.2g}'):,g}"


def _bytes(value: float) -> str:
    for size, word in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if value >= size:
            return f"{float(f'{value / size:.3g}'):,g} {word}"
    return f"{value:,.0f} B"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head, *body = ("| " + " | ".join(row) + " |" for row in [header, *rows])
    return "\n".join([head, "|" + "---|" * len(header), *body])


def fill(text: str, parts: Mapping[str, str]) -> str:
    """Returns a page with its generated parts replaced.

    Raises:
        Wrong: The page lacks a part, or has one that nobody writes.
    """
    marked = re.findall(r"<!-- generated: (\w+) -->", text)
    problems = [f"{PAGE.name}: no part `{name}`." for name in parts if name not in marked]
    problems += [f"{PAGE.name}: nothing writes `{name}`." for name in marked if name not in parts]
    if problems:
        raise Wrong("\n".join(problems))
    return re.sub(
        r"(<!-- generated: (\w+) -->\n).*?(\n<!-- end -->)",
        lambda match: f"{match[1]}\n{parts[match[2]]}\n{match[3]}",
        text,
        flags=re.DOTALL,
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.at_scale", description=(__doc__ or "").split("`: ")[1].split("\n")[0]
    )
    parser.add_argument("--write", action="store_true", help="write the tables of docs/scale.md")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if outdated")
    for field in dataclasses.fields(Scenario):
        default = "" if field.default is None else f" (default: {field.default:g})"
        text = field.metadata["help"] + default
        parser.add_argument(_flag(field.name), help=text, metavar="N")
    parser.add_argument("--format", default="flagged", help="format of the events")
    parser.add_argument("--no-history", action="store_true", help="tables without a history")
    parser.add_argument("--price", help="money for an hour of a core", metavar="N")
    parser.add_argument("--results", action="append", type=Path, help="results of the bench")
    parser.add_argument(
        "--assume", action="append", default=[], metavar="NAME=N", help="see ASSUMED"
    )
    return parser


def main(arguments: Sequence[str] | None = None, page: Path = PAGE) -> int:
    """Projects a scenario, or writes or checks the page; returns the exit code.

    Args:
        arguments: Those of the command line.
        page: The page.
    """
    options = _parser().parse_args(arguments)
    problems: list[str] = []
    asked = _collect(problems, lambda: read_scenario(vars(options)))
    assumed = _collect(problems, lambda: read_assumptions(options.assume))
    files = options.results or sorted(RESULTS.glob("*.json"))
    runs = _collect(problems, lambda: read_runs(files))
    history = not options.no_history
    costs = _collect(problems, lambda: read_costs(runs, history)) if runs else None
    problems += _option_problems(options, costs)
    if problems or not (asked and assumed and runs and costs):
        return _refuse(problems)
    if options.write or options.check:
        try:
            return _page(page, sections(runs, assumed), write=options.write)
        except (Unusable, Wrong) as exc:
            return _refuse([str(exc)])
    found = project(asked, costs, assumed, history=history, form=options.format)
    price = None if options.price is None else to_number(options.price)
    print("\n".join(report(found, price)))
    return 0


def _collect(problems: list[str], read: Callable[[], T]) -> T | None:
    """What a function reads; None, and a problem more, where it cannot."""
    try:
        return read()
    except (Unusable, Wrong) as exc:
        problems.append(str(exc))
        return None


def _option_problems(options: argparse.Namespace, costs: Costs | None) -> Iterator[str]:
    price = None if options.price is None else to_number(options.price)
    if options.price is not None and (price is None or price < 0):
        yield f"--price {options.price}: not a number of at least 0."
    if costs and options.format not in costs.decode:
        yield f"--format {options.format}: measured are {', '.join(costs.decode)}."
    if options.write or options.check:
        fields = [field.name for field in dataclasses.fields(Scenario)]
        names = [*fields, "price", "assume"]
        if given := [name for name in names if getattr(options, name) not in (None, [])]:
            listed = ", ".join(_flag(name) for name in given)
            yield f"{listed}: --write and --check take the scenarios of bench/at_scale.py alone."


def _refuse(problems: Iterable[str]) -> int:
    for problem in problems:
        print(problem, file=sys.stderr)
    return 2


def _page(page: Path, parts: Mapping[str, str], *, write: bool) -> int:
    text = page.read_text(encoding="utf-8")
    wanted = fill(text, parts)
    if write:
        page.write_text(wanted, encoding="utf-8")
    elif wanted != text:
        print(
            f"{page.name} is out of date: run `python -m bench.at_scale --write`.", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
