"""The bench's own arithmetic: sizes, medians, and the page that is written from results."""

import json
from pathlib import Path

import click
import pytest

from bench import goals, machine, report
from bench.results import SYSTEMS, Results
from bench.scales import SCALES, scale_of
from bench.session import Statement, Timing, count_by_node
from bench.workloads import landing_rate


def test_a_size_of_a_scale_can_be_replaced() -> None:
    scale = scale_of("small", ["repeats=5", "sizes=10,20"])
    assert (scale.repeats, scale.sizes) == (5, (10, 20))
    assert scale.changes == SCALES["small"].changes


def test_names_in_a_scale_can_be_replaced_and_exist() -> None:
    assert scale_of("medium", ["systems=cdc,delta_rs"]).systems == ("cdc", "delta_rs")
    assert scale_of("medium", ["systems="]).measures("duckdb")
    for scale in SCALES.values():
        assert set(scale.systems) <= set(SYSTEMS)
        assert scale.main_tables


@pytest.mark.parametrize("change", ["rows=5", "repeats=many"])
def test_a_wrong_size_is_refused(change: str) -> None:
    with pytest.raises(click.BadParameter):
        scale_of("small", [change])


def test_results_hold_medians_and_the_page_tells_ratios(tmp_path: Path) -> None:
    results = Results()
    for system, seconds in {"cdc": (3.0, 1.0, 2.0), "duckdb": (4.0,), "dbt_recipe": (8.0,)}.items():
        results.add("W1", system, [Timing(run, run + 1) for run in seconds])
    results.add("W1", "cdc", [Timing(2.0, 3.0)], statements={"stg_t": 1, "t": 6})
    results.judge(["W1"], "duckdb", False)
    results.fail("W1", "delta_rs", ValueError("no such table"))
    metadata = {
        "scale": "small",
        "changed": ["repeats=1"],
        "date": "2026-01-01",
        "commit": "abc1234",
        "seconds": 60,
        "cores": 2,
        "memory_gib": 8,
        "versions": {"duckdb": "1"},
        "sizes": {"sizes": [10], "changes": 5},
    }
    results.peaks["merges"] = 1000
    results.java_peaks["merges"] = 900
    file = tmp_path / "latest.json"
    results.save(file, metadata)
    assert json.loads(file.read_text())["W1"] == {"cdc": 2.0, "duckdb": 4.0, "dbt_recipe": 8.0}

    page, plot = report.write(file, tmp_path)
    text = page.read_text()
    assert "scale small, but repeats=1; 2026-01-01, commit abc1234, 2 cores" in text
    assert "| W1 | 2.00 | 8.00 | 4.00 ✗ | failed |" in text
    assert "| workload | ours | to dbt_recipe | to duckdb |" in text
    assert "| W1 | cdc | 0.25 | 0.50 |" in text
    assert "Of Java alone: merges 900 MiB." in text
    assert "| W1 | cdc | 7 | stg_t 1, t 6 |" in text
    assert "| W1, 5 M rows | dbt_recipe | 0.50 |  |  | not measured |" in text
    assert "| peak memory of Java |  | 6.0 GiB | 0.9 GiB |  | met |" in text
    assert "## Decoding" not in text
    assert plot.read_text().startswith("<svg")


def test_a_goal_is_met_missed_or_not_measured() -> None:
    seconds = {
        "W1 5,000,000 rows": {"cdc": 3.0, "dbt_recipe": 6.0},
        "W2 5,000,000 rows": {"cdc": 3.1, "dbt_recipe": 6.0, "spark_replace": 2.4},
        "W2 20,000,000 rows": {"cdc": 1.0, "delta_rs": 2.0},
        "W8 65 tables, nothing new": {"cdc": 7.5},
        "W9 1,000,000 rows": {"cdc": 4.0},
        "W9 20,000,000 rows": {"cdc": 5.0},
    }
    wrong = {"W2 20,000,000 rows": {"cdc": {"correct": False}}}
    counted = {"W3 1 table of 2,000 rows": {"cdc": {"statements": {"a": 9, "b": 7}}}}
    lines = list(goals.table_of(seconds, {"details": wrong | counted}))
    assert len(lines) == 2 + len(goals.GOALS)
    for line in (
        "| statements of one table with history and final table |  | 15 | 16 |  | missed |",
        "| W1, 5 M rows | dbt_recipe | 0.50 | 0.50 |  | met |",
        "| W2, 5 M rows | dbt_recipe | 0.50 | 0.52 | 0.40 | missed |",
        "| W2, 20 M rows | dbt_recipe | 0.15 |  |  | not measured |",
        "| W2, 20 M rows | delta_rs | 1.00 | 0.50 |  | missed: the table is wrong |",
        "| 65 tables, nothing new, whole build |  | 8.0 s | 7.5 s |  | met |",
        "| consumer of 1,000 changes, 20 M rows to 1 M |  | 1.30 | 1.25 |  | met |",
        "| peak memory of Java |  | 6.0 GiB |  |  | not measured |",
    ):
        assert line in lines


def test_the_goals_are_rows_of_the_scales_that_are_kept() -> None:
    scale, lake = SCALES["medium"], SCALES["lake"]
    assert scale.main_tables == (5_000_000, 20_000_000)
    assert (scale.small_tables, scale.large_tables, scale.many_changes) == (65, 0, 10)
    assert scale.single_rows == 2_000
    rows = {f"{w} {rows:,} rows" for w in ("W1", "W2") for rows in scale.main_tables}
    rows |= {f"W9 {rows:,} rows" for rows in lake.consumer_sizes[1:]}
    rows |= {f"W7 first load, {rows:,} rows" for rows in scale.main_tables}
    rows |= {goals.SINGLE, goals.MANY, goals.IDLE, ""}
    rows |= {f"W11 {lake.erasure_rows:,} rows"}
    rows |= {goals.LATENCY, landing_rate.CAPTURE, landing_rate.LANDING, landing_rate.BOTH}
    kinds = ("anywhere", "newest")
    rows |= {f"W10 {kind}, batch {n}" for kind in kinds for n in lake.mode_batches}
    assert {goal.row for goal in goals.GOALS} == rows
    assert all(
        goal.base in {goals.LOAD, *(f"W9 {rows:,} rows" for rows in lake.consumer_sizes)}
        for goal in goals.GOALS
        if goal.base
    )
    kept = [goal for goal in goals.GOALS if goal.row.split(" ")[0] in scale.workloads]
    assert all(scale.measures(name) for goal in kept for name in (goal.peer, goal.floor) if name)


def test_statements_are_counted_by_node() -> None:
    ran = [Statement(node, 0.1, "select 1") for node in ("a", "b", "a", "")]
    assert count_by_node(ran) == {"a": 2, "b": 1}


def test_the_memory_of_a_process_that_is_gone_is_not_reported() -> None:
    assert machine.java_peak(-1) == 0
    machine.reset_java_peak(-1)
