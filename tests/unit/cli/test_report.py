"""`cdc report`: one page, whole in itself, of what runs did and of what failed."""

from __future__ import annotations

import re
import shutil
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from dbt.adapters.sparkcdc.session.statement_log import FILE as STATEMENTS

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.observe.report import HEIGHT, WIDTH, _totals, chart, write_report
from dbt_spark_cdc.project import BadProject
from tests.unit.cli.warehouses import (
    Delta,
    built,
    ledger_rows,
    project,
    raw_rows,
    results,
    statements,
)

VOID = {"meta", "rect", "br"}


class Page(HTMLParser):
    """Reads a page, and fails where its elements are not closed in order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.html = path.read_text(encoding="utf-8")
        self.open: list[str] = []
        self.ids: list[str] = []
        self.texts: list[str] = []
        self.bars: list[str] = []
        self.feed(self.html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [str(values["id"])] if "id" in values else []
        if tag == "rect":
            self.bars.append(str(values["class"]))
        if tag not in VOID - {"rect"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = project(tmp_path / "p", "orders", "stock")
    raw = Delta(folder / "warehouse" / "raw.db" / "shop")
    for number in range(2):
        raw.commit(20 * number, raw_rows("orders", number), partition={"_table": "orders"})
    built(folder, "orders", raw_versions=2)
    return folder


def written(folder: Path, **more: object) -> Page:
    return Page(write_report(folder, folder, **more))


def test_the_page_needs_no_network_and_fits_a_phone(shop: Path) -> None:
    html = written(shop).html
    assert not re.search(r"https?:|src=|<script|<link|@import|url\(", html)
    assert 'name="viewport" content="width=device-width' in html
    assert "prefers-color-scheme: dark" in html


def test_runs_are_drawn_for_each_table(shop: Path) -> None:
    page = written(shop)
    assert page.bars.count("s-inserted") == 2
    assert page.bars.count("s-late") == page.bars.count("s-quarantined") == 2
    assert page.bars.count("s-lag") == 2
    assert "2026-01-01 00:10 inserted: 4" in page.html
    assert "Lag when committed at" not in page.text
    assert "2026-01-01 00:10 lag: 10 min" in page.html
    assert page.ids == ["table-1", "table-2"]
    assert "not built" in page.text


def test_each_color_that_is_used_is_defined(shop: Path) -> None:
    page = written(shop)
    for name in {bar.removeprefix("s-") for bar in page.bars}:
        assert page.html.count(f"--{name}: #") == 2  # light and dark


def test_a_build_that_failed_is_shown_as_failed(shop: Path) -> None:
    results(
        shop,
        ("snapshot.p.orders_history", "error", "no <script>alert(1)</script> & such"),
        ("model.p.orders", "skipped", ""),
        ("model.p.stg_orders", "success", ""),
    )
    page = written(shop)
    assert "1 failed dbt build" in page.text
    assert "snapshot orders_history no <script>alert(1)</script> & such" in page.text
    assert "<script" not in page.html
    assert "1 error, 1 skipped, 1 success" in page.text
    # The slowest comes first.
    assert re.search(r"stg_orders model 3\.5 s orders model 2\.5 s", page.text)


def test_a_build_that_went_well_is_shown_as_such(shop: Path) -> None:
    results(shop, ("snapshot.p.orders_history", "success", ""))
    assert "ok dbt build of 2026-01-01 01:00 UTC, 12 s: 1 success" in written(shop).text


def test_the_slowest_statements_of_the_last_build_are_shown(shop: Path) -> None:
    results(shop, ("snapshot.p.orders_history", "success", ""))
    statements(
        shop,
        ("r9", "snapshot.p.orders_history", 1.5, "merge into orders_history " + "x" * 200),
        ("r9", "model.p.orders", 3.0, "insert into orders\nselect '<b>' as a"),
        ("r9", "", 0.5, "create schema s"),
        ("r8", "model.p.orders", 9.0, "of a build before"),
    )
    with (shop / "target" / STATEMENTS).open("a") as file:
        file.write('{"run_id": "r9", "node": "model.p.o')  # killed here
    page = written(shop)
    assert re.search(
        r"whole statement\. orders insert into orders select '<b>' as a 3\.0 s .*"
        r"orders_history merge into orders_history \.\.\. 1\.5 s .*"
        r"whole run create schema s 0\.5 s",
        page.text,
    )
    assert "of a build before" not in page.text
    assert "<b>" not in page.html.split("Slowest statements")[1]


def test_without_recorded_statements_the_section_is_left_out(shop: Path) -> None:
    results(shop, ("snapshot.p.orders_history", "success", ""))
    assert "Slowest statements" not in written(shop).text
    statements(shop, ("r8", "model.p.orders", 9.0, "of a build before"))
    assert "Slowest statements" not in written(shop).text


def test_a_build_that_stopped_is_reported_although_nothing_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text("name: p\nprofile: [")
    page = written(tmp_path, error="Parsing Error\n  a & b", parse=False)
    assert "The build stopped Parsing Error a & b" in page.text
    assert "dbt_project.yml cannot be read" in page.text
    assert "ok" not in page.text.split()
    with pytest.raises(BadProject):
        written(tmp_path)


@pytest.mark.parametrize(
    ("counts", "shown"),
    [((None, None), None), ((None, 0), 0), ((2, None), 2), ((2, 3), 5)],
)
def test_what_a_run_did_not_count_is_not_0(counts: tuple[int | None, ...], shown: int) -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    found = [
        SimpleNamespace(runs=[SimpleNamespace(run_id="r", at=at, counters={"read": count})])
        for count in counts
    ]
    totals = dict(_totals(found, None))  # type: ignore[arg-type]
    assert (totals["read"], totals["updated"]) == (shown, None)


def test_what_a_first_build_did_not_count_is_shown_as_unknown(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "orders")
    Delta(folder / "warehouse" / "raw.db" / "shop").commit(0, raw_rows("orders", 0))
    built(folder, "orders")
    ledger = folder / "warehouse" / "s.db" / "cdc_runs"
    row = {"run_id": "r0", "run_started_at": datetime(2026, 1, 1), "node": "orders_history"}
    unknown = {"seconds": 1.0, "events_quarantined": None, "events_updated": None}
    Delta(ledger).commit(0, ledger_rows(row | unknown))
    html = written(folder).html
    assert '<td data-label="quarantined">-</td>' in html
    assert '<b>-</b><span class="faint">updated</span>' in html
    assert '<b>-</b><span class="faint">inserted</span>' not in html


def test_an_error_is_no_success_of_the_build_before(shop: Path) -> None:
    results(shop, ("snapshot.p.orders_history", "success", ""))
    page = written(shop, error="stopped")
    assert "ok dbt build" not in page.text
    assert page.ids[0] == "failure"


def test_a_damaged_ledger_is_told(shop: Path) -> None:
    folder = shop / "warehouse" / "s.db" / "cdc_runs"
    row = {"run_id": "a", "run_started_at": datetime(2026, 1, 1), "node": "x", "seconds": 1.0}
    Delta(folder).commit(0, ledger_rows(row))
    (folder / "part 0.parquet").unlink()
    assert "part 0.parquet cannot be read" in written(shop).text


def test_the_command_prints_where_the_page_is(shop: Path, tmp_path: Path) -> None:
    command = ["report", "--project-dir", str(shop), "--profiles-dir", str(shop)]
    ran = CliRunner().invoke(main, [*command, "--output", str(tmp_path / "x" / "r.html")])
    assert (ran.exit_code, ran.output) == (0, f"{tmp_path}/x/r.html\n")
    shutil.rmtree(shop)
    ran = CliRunner().invoke(main, command)
    assert ran.exit_code == 2
    assert "There is no dbt_project.yml" in ran.output


def test_bars_are_stacked_to_the_height_of_the_largest() -> None:
    times = [datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3)]
    values = [{"a": 3, "b": 1}, {"a": None}, {"a": 2}]
    drawn = chart("t", ("a", "b"), times, values)
    assert drawn is not None
    assert [(bar.series, bar.y, bar.height) for bar in drawn.bars] == [
        ("a", HEIGHT / 4, 3 * HEIGHT / 4),
        ("b", 0, HEIGHT / 4),
        ("a", HEIGHT / 2, HEIGHT / 2),
    ]
    # Each end of the axis has its bar: the times of both are written there.
    first, last = drawn.bars[0], drawn.bars[2]
    assert (first.x, round(last.x + last.width)) == (0, WIDTH)
    assert (drawn.largest, drawn.series) == ("4", ("a", "b"))
    assert chart("t", ("a",), times, [{"a": 0}] * 3) is None
    assert chart("t", ("a",), [], []) is None
