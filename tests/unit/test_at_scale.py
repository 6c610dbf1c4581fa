"""Costs are read from results, carried to other sizes by their laws, and shown on the page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bench import at_scale
from bench.costs import Costs, Unusable, read_costs, read_runs
from bench.projection import (
    ASSUMED,
    CHANGES,
    DBT,
    LOGS,
    MEMORY,
    METASTORE,
    ONE_BATCH,
    PLANNING,
    REQUESTS,
    SCANS,
    TASKS,
    Projection,
    Scenario,
    Wrong,
    project,
    read_assumptions,
    read_scenario,
)

# Two cores; numbers that are easy to follow. Of tables without a history only what must differ.
SECONDS: dict[str, dict[str, float]] = {
    "W1 1,000,000 rows": {"cdc": 3.0, "cdc_history": 5.0},
    "W1 5,000,000 rows": {"cdc": 5.0, "cdc_history": 9.0, "dbt_recipe": 50.0},
    "W3 1 table of 2,000 rows": {"cdc": 100.0},
    "W3 10 tables": {"cdc": 15.0},
    "W5 11,000 changes": {"cdc": 6.0, "cdc_history": 10.0},
    "W5 101,000 changes": {"cdc": 15.0, "cdc_history": 29.0},
    "W7 first load, 5,000,000 rows": {"cdc": 20.0, "cdc_history": 50.0},
    "W8 10 tables, nothing new": {"cdc": 5.0},
    "D flagged": {"cdc": 1.0},
    "D maxwell": {"cdc": 2.0},
}
DECODED = {"D flagged": 1_000_000, "D maxwell": 500_000}


def results(
    folder: Path,
    seconds: dict[str, dict[str, float]],
    name: str = "latest.json",
    **metadata: Any,
) -> Path:
    details: dict[str, dict[str, dict[str, Any]]] = {
        row: {"cdc": {"events_per_second": DECODED[row], "correct": True}}
        for row in DECODED.keys() & seconds.keys()
    }
    whole = {
        **seconds,
        "metadata": {
            "date": "2026-02-01",
            "commit": "abc1234",
            "cores": 2,
            "memory_gib": 8,
            "sizes": {"sizes": [500_000], "changes": 1_000, "messages": 3_000},
            "details": details,
        }
        | metadata,
    }
    file = folder / name
    file.write_text(json.dumps(whole), encoding="utf-8")
    return file


@pytest.fixture
def latest(tmp_path: Path) -> Path:
    return results(tmp_path, SECONDS)


@pytest.fixture
def costs(latest: Path) -> Costs:
    return read_costs(read_runs([latest]), history=True)


ASSUMPTIONS = {name: assumed.value for name, assumed in ASSUMED.items()}


def needs(projection: Projection) -> dict[str, float]:
    return {load.what: load.need for load in projection.loads}


def test_costs_are_those_of_the_rows(costs: Costs) -> None:
    assert {name: cost.value for name, cost in costs.of.items()} == pytest.approx(
        {
            "idle": 0.5,
            "plan": (1.5 - 0.5) * 2,
            "batch": 5.0,
            "change": (29 - 9) / 100_000 * 2,
            "row": (9 - 5) / 4_000_000 * 2,
            "load": 50 / 5_000_000 * 2,
        }
    )
    assert {form: cost.value for form, cost in costs.decode.items()} == pytest.approx(
        {"flagged": 2e-6, "maxwell": 4e-6}
    )
    assert costs.of["change"].rows == ("W1 5,000,000 rows", "W5 101,000 changes")
    assert costs.of["plan"].reach == 10


def test_costs_without_a_history_have_rows_of_their_own(latest: Path) -> None:
    costs = read_costs(read_runs([latest]), history=False)
    assert costs["batch"] == 3.0
    assert costs["change"] == pytest.approx((15 - 5) / 100_000 * 2)


def test_a_cost_comes_from_the_newest_run_that_has_its_rows(tmp_path: Path, latest: Path) -> None:
    newer = {"W1 2,000,000 rows": {"cdc_history": 4.0}, "W5 2,000 changes": {"cdc_history": 5.0}}
    file = results(tmp_path, newer, "newer.json", date="2026-02-02", commit="")
    costs = read_costs(read_runs([latest, file]), history=True)
    assert costs["change"] == pytest.approx((5 - 4) / 1_000 * 2)
    # One size of W1 tells nothing about rows.
    assert costs.of["row"].run.name == "latest.json"
    assert {run.name for run in costs.runs()} == {"latest.json", "newer.json"}


def test_the_quickest_batch_of_one_table_is_that_of_all_runs(tmp_path: Path, latest: Path) -> None:
    newer = {
        "W1 2,000,000 rows": {"cdc": 4.0, "cdc_history": 6.0},
        "W2 2,000,000 rows": {"cdc": 2.5, "cdc_history": 4.5},
        "W3 1 table of 2,000 rows": {"cdc": 2.0},
    }
    older = {"W2": {"cdc": 2.4, "cdc_history": 4.6}}
    files = [
        results(tmp_path, newer, "newer.json", date="2026-02-02"),
        results(tmp_path, older, "older.json", date="2026-01-01"),
    ]
    runs = read_runs([latest, *files])
    # The single table of W3 has a history. A tenth of its rows change.
    batch = read_costs(runs, history=True).of["batch"]
    assert (batch.value, batch.rows, batch.reach) == (2.0, ("W3 1 table of 2,000 rows",), 200)
    batch = read_costs(runs, history=False).of["batch"]
    assert (batch.value, batch.run.name, batch.reach) == (2.4, "older.json", 1_000)


def test_the_page_shows_where_both_figures_come_from(tmp_path: Path, latest: Path) -> None:
    newer = {"W7 first load, 9,000,000 rows": {"cdc_history": 90.0}}
    file = results(tmp_path, newer, "newer.json", date="2026-02-02")
    lines = at_scale.sections(read_runs([latest, file]), ASSUMPTIONS)["costs"].split("\n")
    (load,) = (line for line in lines if "first load" in line)
    assert "W7 first load, 9,000,000 rows of `newer.json`; without: W7 first load, 5,0" in load
    assert "| 9 million rows; without: 5 million rows |" in load
    # What both share is there once.
    (change,) = (line for line in lines if "further change" in line)
    assert "without:" not in change
    assert all("without:" not in line for line in lines if "decoding" in line)


def test_rows_of_older_results_name_the_workload_alone(tmp_path: Path) -> None:
    old = {row: columns for row, columns in SECONDS.items() if not row.startswith(("W1", "W7"))} | {
        "W1": {"cdc_history": 9.0},
        "W4 100,000 rows": {"cdc_history": 5.0},
        "W4 500,000 rows": {"cdc_history": 7.0},
        "W7 first load": {"cdc_history": 50.0},
    }
    costs = read_costs(read_runs([results(tmp_path, old)]), history=True)
    assert costs["row"] == pytest.approx(2 / 400_000 * 2)
    assert costs["load"] == pytest.approx(50 / 500_000 * 2)
    assert costs["change"] == pytest.approx((29 - 9) / 100_000 * 2)


def test_a_wrong_table_costs_nothing(tmp_path: Path) -> None:
    wrong = {"W7 first load, 5,000,000 rows": {"cdc_history": {"correct": False}}}
    file = results(tmp_path, SECONDS, details=wrong)
    with pytest.raises(Unusable) as caught:
        read_costs(read_runs([file]), history=True)
    lines = str(caught.value).split("\n")
    assert [line.split(":")[0] for line in lines] == ["latest.json"] * 2
    assert "no rows of W7 for a row of a first load (load, cdc_history)" in lines[0]
    assert "no rows of D for decoding an event" in lines[1]


def test_files_that_hold_no_results_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("text", encoding="utf-8")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    (tmp_path / "empty.json").write_text('{"metadata": {}}', encoding="utf-8")
    files = [tmp_path / f"{name}.json" for name in ("text", "list", "empty", "gone")]
    with pytest.raises(Unusable) as caught:
        read_runs(files)
    for file, line in zip(files, str(caught.value).split("\n"), strict=True):
        assert str(file) in line and "make bench" in line


def test_each_law_by_hand(costs: Costs) -> None:
    asked = Scenario(
        tables=100,
        active_tables=10,
        changes_per_second=100,
        interval=1_000,
        rows=1_000_000,
        row_bytes=2**20,
        file_mib=10_000,
        cores=4,
        drivers=2,
        driver_cores=5,
        driver_gib=1,
    )
    assert (asked.changes, asked.active, asked.batch, asked.files) == (100_000, 10, 10_000, 100)
    assert asked.touched == pytest.approx(100)
    found = project(asked, costs, ASSUMPTIONS, form="maxwell")
    assert needs(found) == pytest.approx(
        {
            DBT: 100 * 0.5,
            PLANNING: 10 * 2.0,
            CHANGES: 100_000 * (4e-4 + 4e-6 - 2e-6),
            SCANS: 10 * 1_000_000 * 2e-6,
            ONE_BATCH: 5.0,
            TASKS: 10 * (20 + 99),
            # History and final table: a state and a hundredth of it, and each touched file twice.
            LOGS: 20 * (101 + 200) * 1_000,
            MEMORY: 20 * 100 * 1_000,
            METASTORE: 100 * 5,
            REQUESTS: 10 * (40 + 3 * 99),
        }
    )
    assert {load.what: load.capacity for load in found.loads} == pytest.approx(
        {
            DBT: 2_000,
            PLANNING: 10_000,
            CHANGES: 4_000,
            SCANS: 4_000,
            ONE_BATCH: 1_000,
            TASKS: 2_000_000,
            LOGS: 20 * 2**20 * 10_000,
            MEMORY: 2 * 2**30,
            METASTORE: 500_000,
            REQUESTS: 3_500_000,
        }
    )
    work = 50 + 20 + 40.2 + 20
    assert found.used_per_million == pytest.approx(work * 10)
    assert found.paid_per_million == pytest.approx((4 + 2 * 5) * 1_000 * 10)
    assert found.written_bytes == 100_000 * 2**20 * 3
    assert found.copied_bytes == pytest.approx(20 * 100 * 10_000 * 2**20)
    assert found.ranking[0].what == DBT
    assert (found.cores_needed, found.drivers_needed) == (1, 1)


def test_without_a_history_one_table_is_written(costs: Costs) -> None:
    asked = Scenario(tables=1, changes_per_second=1, interval=1_000)
    both, one = (project(asked, costs, ASSUMPTIONS, history=history) for history in (True, False))
    assert needs(one)[LOGS] == needs(both)[LOGS] / 2
    assert (both.new_files, one.new_files) == (3, 1)


@pytest.mark.parametrize(
    "batch, share, expected",
    [
        (1, 1, 1),
        (1e9, 1, 1_000),
        (1e9, 0.01, 10),
        (1e9, 0, 1),
        (1_000, 1, 1_000 * (1 - 1 / math.e)),
    ],
)
def test_a_batch_touches_the_files_of_its_keys(batch: float, share: float, expected: float) -> None:
    asked = Scenario(
        tables=1,
        changes_per_second=batch,
        interval=1,
        rows=1_000,
        row_bytes=2**20,
        file_mib=1,
        key_share=share,
    )
    assert asked.touched == pytest.approx(expected, rel=1e-3)


def test_no_more_tables_change_than_there_are_changes() -> None:
    asked = Scenario(tables=10_000, changes_per_second=1, interval=60)
    assert (asked.active, asked.batch) == (60, 1)
    assert Scenario(tables=10, changes_per_second=0.001, interval=1).active == 1


def test_more_of_the_same_costs_no_less(costs: Costs) -> None:
    """Twice as much of anything needs no less of a resource; twice the cluster does."""
    plain = Scenario(tables=100, changes_per_second=1_000, rows=1e8)
    base = {load.what: load.share for load in project(plain, costs, ASSUMPTIONS).loads}
    for more in ({"tables": 200}, {"changes_per_second": 2_000}, {"rows": 2e8}):
        asked = Scenario(**{**vars(plain), **more})
        for load in project(asked, costs, ASSUMPTIONS).loads:
            assert load.share >= base[load.what] * (1 - 1e-9), (more, load.what)
    larger = Scenario(**{**vars(plain), "cores": 4, "drivers": 2})
    for load in project(larger, costs, ASSUMPTIONS).loads:
        halved = load.what not in (ONE_BATCH, METASTORE, REQUESTS)
        assert load.share == pytest.approx(base[load.what] / (2 if halved else 1)), load.what


def test_cores_and_drivers_that_are_needed_are_enough(costs: Costs) -> None:
    asked = Scenario(tables=50_000, changes_per_second=100_000, rows=1e8)
    found = project(asked, costs, ASSUMPTIONS)
    assert found.drivers_needed > 1 and found.cores_needed > found.cores_at_least > 1
    enough = Scenario(
        **{**vars(asked), "cores": found.cores_needed, "drivers": found.drivers_needed}
    )
    shares = {load.what: load.share for load in project(enough, costs, ASSUMPTIONS).loads}
    assert shares[CHANGES] + shares[SCANS] <= 0.7
    assert max(shares[name] for name in (DBT, PLANNING, TASKS, LOGS, MEMORY)) <= 0.7
    fewer = Scenario(**{**vars(enough), "drivers": found.drivers_needed - 1})
    assert project(fewer, costs, ASSUMPTIONS).ranking[0].share > 0.7


def test_numbers_are_read_as_people_write_them() -> None:
    asked = read_scenario({"tables": "10_000", "rows": "1e9", "cores": None})
    assert (asked.tables, asked.rows, asked.cores) == (10_000, 1e9, Scenario.cores)
    assert read_assumptions(["tasks_per_table=7"])["tasks_per_table"] == 7


def test_all_wrong_arguments_are_reported_at_once(
    tmp_path: Path, latest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "--tables 1.5 --active-tables 70 --rows many --interval 0 --key-share 2 --cores nan"
        f" --assume speed=1 --assume tasks_per_table=-1 --price low --format xml --results {latest}"
    )
    assert at_scale.main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    for problem in (
        "--tables 1.5: not a whole number.",
        "--active-tables 70: more than --tables 65. Raise --tables, or leave it out.",
        "--rows many: not a number.",
        "--interval 0: less than 1.",
        "--key-share 2: more than 1.",
        "--cores nan: not a number.",
        "--assume speed=1: speed is not one of log_entry_bytes,",
        "--assume tasks_per_table=-1: write tasks_per_table=<number above 0>.",
        "--price low: not a number of at least 0.",
        "--format xml: measured are flagged, maxwell.",
    ):
        assert problem in err
    assert at_scale.main(["--check", "--rows", "5", "--results", str(tmp_path / "gone.json")]) == 2
    err = capsys.readouterr().err
    assert "--rows: --write and --check take the scenarios" in err and "gone.json" in err


def test_the_projection_is_printed_with_money(
    latest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"--tables 1 --changes-per-second 1000 --interval 1000 --price 36 --results {latest}"
    assert at_scale.main(words.split()) == 0
    out = capsys.readouterr().out
    assert "measured  decoding, folding and writing changes: 400 of 2,000 core s" in out
    # 400 for the changes, 2 for the rows, 2.5 for dbt and planning.
    assert "core seconds at work for a million changes: 404" in out
    assert "money at work for a million changes: 4.045" in out
    assert "money of this cluster for a million: 40" in out
    assert at_scale.main([*words.split(), "--cores", "1", "--interval", "300"]) == 0
    kept = capsys.readouterr().out
    assert "core hours of this cluster for a million changes: 0.83" in kept
    assert at_scale.main([*words.split(), "--cores", "1", "--changes-per-second", "3e3"]) == 0
    behind = capsys.readouterr().out
    assert "cluster for a million changes: falls behind" in behind and "money of" not in behind


def test_the_page_is_up_to_date() -> None:
    assert at_scale.main(["--check"]) == 0, "run `python -m bench.at_scale --write`"


def test_an_outdated_page_is_reported_and_written_again(
    tmp_path: Path, latest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "scale.md"
    page.write_text(at_scale.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    given = ["--results", str(latest)]
    assert at_scale.main(["--check", *given], page) == 1
    assert "is out of date: run `python -m bench.at_scale --write`" in capsys.readouterr().err
    assert at_scale.main(["--write", *given], page) == 0
    assert at_scale.main(["--check", *given], page) == 0
    text = page.read_text(encoding="utf-8")
    assert "| `bench/results/latest.json` | 2026-02-01 | `abc1234` | 2 | 8 GiB |" in text
    # Neither of an older engine nor from tables that are too small.
    assert "older one" not in text and "too small" not in text
    # What people write is left alone.
    assert (
        text.partition("<!--")[0] == at_scale.PAGE.read_text(encoding="utf-8").partition("<!--")[0]
    )


def test_results_without_a_commit_and_small_tables_are_told(tmp_path: Path) -> None:
    seconds = {row: columns for row, columns in SECONDS.items() if "1,000,000" not in row} | {
        "W4 100,000 rows": {"cdc": 4.0, "cdc_history": 5.0},
        "W4 500,000 rows": {"cdc": 4.0, "cdc_history": 7.0},
    }
    runs = read_runs([results(tmp_path, seconds, commit="")])
    parts = at_scale.sections(runs, ASSUMPTIONS)
    assert "not recorded" in parts["results"] and "costs of an older one" in parts["results"]
    assert (
        "of tables with a history and without a history comes from W4 100,000 rows and W4 500,000"
        in parts["results"]
    )
    assert "| 10 core s a million | below what the runs differ by | W4" in parts["costs"]


def test_a_page_that_lacks_a_part_is_refused() -> None:
    other = "<!-- generated: b -->"
    text = f"<!-- generated: a -->\n\nold\n\n<!-- end -->\n{other}\n\n<!-- end -->\n"
    assert at_scale.fill(text, {"a": "new", "b": "more"}) == (
        f"<!-- generated: a -->\n\nnew\n\n<!-- end -->\n{other}\n\nmore\n\n<!-- end -->\n"
    )
    with pytest.raises(Wrong) as caught:
        at_scale.fill(text, {"a": "new", "c": "more"})
    assert str(caught.value) == "scale.md: no part `c`.\nscale.md: nothing writes `b`."


def test_work_that_shares_the_executors_is_added_up(costs: Costs) -> None:
    """Neither part alone fills them."""
    asked = Scenario(tables=1, changes_per_second=3_000, interval=1_000, rows=450_000_000)
    found = project(asked, costs, ASSUMPTIONS)
    assert found.ranking[0].share < 1 and found.falls_behind
    assert not project(Scenario(**{**vars(asked), "cores": 3}), costs, ASSUMPTIONS).falls_behind
