"""The bench's own arithmetic: sizes, medians, and the page that is written from results."""

import json
from pathlib import Path

import click
import pytest

from bench import report
from bench.results import Results
from bench.scales import SCALES, scale_of
from bench.session import Timing


def test_a_size_of_a_scale_can_be_replaced() -> None:
    scale = scale_of("small", ["repeats=5", "sizes=10,20"])
    assert (scale.repeats, scale.sizes) == (5, (10, 20))
    assert scale.changes == SCALES["small"].changes


@pytest.mark.parametrize("change", ["rows=5", "repeats=many"])
def test_a_wrong_size_is_refused(change: str) -> None:
    with pytest.raises(click.BadParameter):
        scale_of("small", [change])


def test_results_hold_medians_and_the_page_tells_ratios(tmp_path: Path) -> None:
    results = Results()
    for system, seconds in {"cdc": (3.0, 1.0, 2.0), "duckdb": (4.0,), "dbt_recipe": (8.0,)}.items():
        results.add("W1", system, [Timing(run, run + 1) for run in seconds])
    results.judge(["W1"], "duckdb", False)
    results.fail("W1", "delta_rs", ValueError("no such table"))
    metadata = {
        "scale": "small",
        "changed": ["repeats=1"],
        "date": "2026-01-01",
        "seconds": 60,
        "cores": 2,
        "memory_gib": 8,
        "versions": {"duckdb": "1"},
        "sizes": {"sizes": [10], "changes": 5},
    }
    results.peaks["merges"] = 1000
    file = tmp_path / "latest.json"
    results.save(file, metadata)
    assert json.loads(file.read_text())["W1"] == {"cdc": 2.0, "duckdb": 4.0, "dbt_recipe": 8.0}

    page, plot = report.write(file, tmp_path)
    text = page.read_text()
    assert "scale small, but repeats=1;" in text
    assert "| W1 | 2.00 | 8.00 | 4.00 ✗ | failed |" in text
    assert "| W1 | cdc / dbt_recipe | 0.25 | 0.15 | no |" in text
    assert "| W1 | cdc / duckdb | 0.50 | 1.00 | yes |" in text
    assert plot.read_text().startswith("<svg")
