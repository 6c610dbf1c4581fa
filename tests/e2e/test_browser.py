"""The report and the docs site in a real browser: they draw, fit, and cause no error."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from dbt_spark_cdc.observe.report import write_report
from scripts.site.pages import repaired
from tests.e2e.conftest import ROOT
from tests.e2e.servers import dbt
from tests.unit.cli.test_lineage import MART, artifacts
from tests.unit.cli.warehouses import (
    COUNTED,
    Delta,
    built,
    project,
    raw_rows,
    results,
    statements,
)

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
OPTIONS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
TABLET = {"width": 900, "height": 1100}
RUNS = 30
# No place to break a line.
LONG = "order_items_" + "with_a_long_name_" * 3
# The pixels that a canvas holds.
DRAWN = """[...document.querySelectorAll('canvas')].reduce((sum, canvas) => {
  const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return sum + all.filter((value, place) => place % 4 == 3 && value > 0).length;
}, 0)"""


@dataclass
class Heard:
    """What a page asked for and complained about."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: run `make e2e`"
    )
    if not Path(CHROMIUM).exists():
        pytest.skip(f"{CHROMIUM} is missing: apt-get install chromium, or name one in CHROMIUM")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield chromium
        chromium.close()


def opened(browser: Any, file: Path, **settings: Any) -> tuple[Any, Heard]:
    """A page in a context of its own, and what it did so far."""
    page = browser.new_context(**settings).new_page()
    heard = Heard()
    page.on("request", lambda request: heard.requests.append(request.url))
    page.on(
        "console",
        lambda said: heard.errors.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: heard.errors.append(str(error)))
    page.goto(file.as_uri())
    return page, heard


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a build that failed, after many runs of which some tables are behind."""
    random = Random(1)
    folder = project(tmp_path_factory.mktemp("report") / "p", "orders", LONG, "stock")
    raw = Delta(folder / "warehouse" / "raw.db" / "shop")
    for number in range(RUNS + 1):
        raw.commit(20 * number, raw_rows("orders", number), partition={"_table": "orders"})
    for name in ("orders", LONG):
        history, _ = built(folder, name)
        for number in range(1, RUNS):
            counters = {**COUNTED, "inserted": random.randrange(400), "late": number % 4}
            run = {"id": f"r{number}", "table": f"shop.{name}", "counters": counters}
            checkpoint = {"read_to": number, "raw_version": number, "run": run}
            history.commit(10 + 20 * number, pa.table({"id": [1]}), checkpoint)
    results(
        folder,
        (f"snapshot.p.{LONG}_history", "error", f"No such table: /srv/warehouse/s.db/{LONG}"),
        ("model.p.orders", "success", ""),
        ("test.p.unique_orders.1", "warn", "Got 2 results, configured to warn if != 0"),
    )
    statements(
        folder,
        ("r9", "snapshot.p.orders_history", 4.2, "merge into s.orders_history using " + "x" * 400),
        ("r9", f"snapshot.p.{LONG}_history", 1.2, "select 1"),
    )
    return write_report(folder, folder)


@pytest.mark.parametrize("size", [WIDE, TABLET, PHONE], ids=["wide", "tablet", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_draws_and_fits(
    browser: Any, report: Path, scheme: str, size: dict[str, int]
) -> None:
    page, heard = opened(browser, report, color_scheme=scheme, viewport=size)
    page.locator("summary").first.click()  # a statement in full length
    assert heard == Heard([report.as_uri()], [])
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    # Nothing is cut off at the side either, except what scrolls by itself.
    beyond = page.evaluate(
        """[...document.querySelectorAll('body *')].filter(
          element => !element.closest('pre') && element.getBoundingClientRect().right > innerWidth
        ).map(element => element.outerHTML.slice(0, 200))"""
    )
    assert beyond == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert dark == (scheme == "dark")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_every_plot_of_the_report_is_drawn(
    browser: Any, report: Path, size: dict[str, int]
) -> None:
    page, _ = opened(browser, report, viewport=size)
    plots = page.locator("svg")
    # Applied, troubles, read and lag of two tables; the third has no runs.
    assert plots.count() == 8
    for plot in plots.all():
        box = plot.bounding_box()
        assert box["width"] > 100 and box["height"] > 60, plot.get_attribute("aria-label")
        bars = plot.locator("rect").evaluate_all(
            """bars => bars.map(bar => {
              const box = bar.getBoundingClientRect();
              return [box.width, box.height, getComputedStyle(bar).fill];
            })"""
        )
        assert bars, plot.get_attribute("aria-label")
        assert all(width > 1 and height > 0 for width, height, _ in bars)
        assert not {color for *_, color in bars} & {"none", "rgb(0, 0, 0)"}
    assert page.locator(".bar i").evaluate_all("bars => bars.every(bar => bar.offsetWidth > 0)")


def test_text_of_the_report_can_be_read_in_light_and_dark(browser: Any, report: Path) -> None:
    for scheme in ("light", "dark"):
        page, _ = opened(browser, report, color_scheme=scheme)
        poor = page.evaluate(
            """() => {
              const light = color => {
                const part = color.match(/[\\d.]+/g).slice(0, 3).map(value => value / 255)
                  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
              };
              const behind = element => {
                for (let at = element; at; at = at.parentElement) {
                  const color = getComputedStyle(at).backgroundColor;
                  if (!color.endsWith(', 0)')) return color;
                }
              };
              const has_text = element =>
                [...element.childNodes].some(node => node.nodeType == 3 && node.data.trim());
              return [...document.querySelectorAll('body *')].filter(has_text).filter(element => {
                const pair = [light(getComputedStyle(element).color), light(behind(element))];
                return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05) < 4.5;
              }).map(element => element.outerHTML.slice(0, 200));
            }"""
        )
        assert poor == [], scheme


@pytest.fixture(scope="module")
def site(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of `make docs`, without the types that only built tables have."""
    folder = tmp_path_factory.mktemp("site")
    environment = {"CDC_REFERENCE_PROJECT": "1", "DBT_TARGET_PATH": str(folder)}
    common = ("--quiet", "--log-path", str(folder))
    dbt(ROOT, *common, "parse", **environment)
    dbt(
        ROOT,
        *(*common, "docs", "generate", "--static", "--empty-catalog", "--no-compile"),
        **environment,
    )
    page = folder / "index.html"
    page.write_text(repaired((folder / "static_index.html").read_text(encoding="utf-8")))
    return page


def test_search_finds_a_table_and_the_graph_draws(browser: Any, site: Path) -> None:
    page, heard = opened(browser, site, viewport=WIDE)
    page.get_by_placeholder("Search for models...").fill("orders_history")
    found = page.locator(".search-result", has_text="orders_history").first
    found.wait_for()
    found.click()
    page.get_by_role("heading", name="orders_history").first.wait_for()
    page.get_by_text("Every version of orders").first.wait_for()

    page.get_by_title("View Lineage Graph").click()
    page.wait_for_function(f"{DRAWN} > 1000")
    # The folders of the menu have icons.
    assert page.locator(".menu-icon-off use[href^='#icn-']").count() > 0
    assert heard == Heard([site.as_uri()], [])


@pytest.mark.parametrize(
    ("link", "heading", "shown"),
    [
        ("exposure/exposure.cdc.charts_of_the_report", "Charts of the report", "The charts that"),
        ("model/model.cdc.revenue_by_segment", "revenue_by_segment", "Enforced"),
    ],
)
def test_exposures_and_contracts_are_shown(
    browser: Any, site: Path, link: str, heading: str, shown: str
) -> None:
    page, heard = opened(browser, site, viewport=WIDE)
    page.goto(f"{site.as_uri()}#!/{link}")
    page.get_by_role("heading", name=heading).first.wait_for()
    page.get_by_text(shown).first.wait_for()
    assert heard.errors == []


@pytest.fixture(scope="module")
def columns(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page about columns in a site of its own."""
    folder = tmp_path_factory.mktemp("columns")
    for name, artifact in zip(("manifest", "catalog"), artifacts(mart=MART), strict=True):
        (folder / f"{name}.json").write_text(json.dumps(artifact))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_TARGET_PATH", str(folder))
        settings = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder / "site"))
        settings.plugins.on_startup(command="build", dirty=False)
        build(settings)
    return folder / "site" / "columns.html"


@pytest.mark.parametrize("size", [WIDE, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_column_is_followed_to_its_events(
    browser: Any, columns: Path, scheme: str, size: dict[str, int]
) -> None:
    page, heard = opened(browser, columns, color_scheme=scheme, viewport=size)
    for column in ("people.mail", "history.mail", "stg.mail", "app.people.mail"):
        page.get_by_role("link", name=column, exact=True).first.click()
    assert page.url.endswith("#source.p.app.people.mail")
    row = page.locator(":target")
    assert "formerly email, address" in row.inner_text()
    assert row.evaluate("row => row.getBoundingClientRect().top < innerHeight")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert heard.errors == []


def test_search_finds_a_page(browser: Any, columns: Path) -> None:
    page, heard = opened(browser, columns.with_name("index.html"), viewport=WIDE)
    search = page.get_by_placeholder("Search")
    search.click()
    search.press_sequentially("quarantine")
    page.locator(".md-search-result__link[href*='quarantine.html']").first.wait_for()
    assert heard.errors == []
    # The pages are files, and nothing else is asked for.
    assert [url for url in heard.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_search_finds_a_column(browser: Any, columns: Path) -> None:
    page, heard = opened(browser, columns, viewport=WIDE)
    search = page.get_by_placeholder("Search")
    search.click()
    # Letter by letter: the page searches after a key.
    search.press_sequentially("person_id orders")
    page.locator(".md-search-result__link", has_text="orders (seed)").first.wait_for()
    assert heard.errors == []
