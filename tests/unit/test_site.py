"""The documentation as a site: it builds strictly, shows what the pages say, asks no other host."""

from __future__ import annotations

import importlib.util
import logging
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from markdown_it import MarkdownIt
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.plugins import BasePlugin

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    ROOT / "README.md": "index.html",
    ROOT / "CONTRIBUTING.md": "CONTRIBUTING.html",
    ROOT / "CHANGELOG.md": "CHANGELOG.html",
    ROOT / "SECURITY.md": "SECURITY.html",
} | {
    page: page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
    for page in sorted((ROOT / "docs").rglob("*.md"))
}
# Lists, code and tables. Paragraphs differ where a list is loose, and nobody sees it.
BLOCKS = re.compile(r"<(ul|ol|li|pre|table|tr|h[1-6]|img|blockquote)[ >]")


class Resources(HTMLParser):
    """What a page loads by itself, other than what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag != "a":
            self.found += [value for name in ("src", "href", "data") if (value := given.get(name))]


def config(folder: Path, plugin: BasePlugin | None = None) -> MkDocsConfig:
    loaded = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
    if plugin is not None:
        loaded.plugins["test"] = plugin
    return loaded


def write(settings: MkDocsConfig) -> None:
    """Builds as the command `mkdocs build` does."""
    settings.plugins.on_startup(command="build", dirty=False)
    build(settings)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write(config(folder))
    return folder


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    file = ROOT / "scripts" / "site" / "pages.py"
    spec = importlib.util.spec_from_file_location("site_pages", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    menu = home[home.index("<nav class=md-nav") if "<nav class=md-nav" in home else 0 :]
    for page in PAGES.values():
        assert (site / page).exists()
        assert page == "index.html" or f'href="{page}"' in menu or f"href={page}" in menu, page
    assert (site / "lineage.html").exists() and "lineage.html" in menu


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_what_code_hosts_show(page: Path, site: Path) -> None:
    markdown = MarkdownIt("commonmark").enable("table").render(page.read_text(encoding="utf-8"))
    text = (site / PAGES[page]).read_text(encoding="utf-8")
    article = text[text.index("<article") : text.index("</article>")]
    assert Counter(BLOCKS.findall(article)) == Counter(BLOCKS.findall(markdown))


def test_no_page_or_style_asks_another_host(site: Path) -> None:
    for file in site.rglob("*.html"):
        if file.name != "lineage.html":
            loaded = Resources(file.read_text(encoding="utf-8")).found
            assert [url for url in loaded if re.match(r"(\w+:)?//", url)] == [], file.name
    for file in site.rglob("*.css"):
        text = file.read_text(encoding="utf-8")
        assert re.findall(r"(?:url\([\"']?|@import\s+[\"']?)(?:\w+:)?//[^)\"']+", text) == []
    # The theme's script would fetch a library for pages with such diagrams.
    assert not any('class="mermaid"' in file.read_text() for file in site.rglob("*.html"))


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("[gone](gone.md)", "contains a link 'gone.md'"),
        ("[gone](keys.md#gone)", "contains a link 'keys.md#gone'"),
    ],
)
def test_a_broken_link_stops_the_build(
    added: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Breaks(BasePlugin):
        def on_page_markdown(self, markdown: str, /, *, page: Any, **_: Any) -> str:
            return markdown + f"\n\n{added}\n" if page.file.src_uri == "faq.md" else markdown

    with pytest.raises(Abort), caplog.at_level(logging.WARNING, "mkdocs"):
        write(config(tmp_path, Breaks()))
    assert said in caplog.text


def test_lists_are_widened_and_nothing_else(hooks: ModuleType) -> None:
    text = (
        "1. One\n\n       code\n\n   more\n\n- two\n  goes on\n\n      code\n\nThree\n\n    code\n"
    )
    assert hooks.widened(text) == (
        "1. One\n\n        code\n\n    more\n\n- two\n    goes on\n\n        code\n\n"
        "Three\n\n    code\n"
    )


def test_links_out_of_the_documentation_lead_to_pages_of_the_site(hooks: ModuleType) -> None:
    page = ROOT / "docs" / "formats" / "dms.md"
    same = "[b](../keys.md#x) [c](https://example.org) [d](no.md)"
    assert hooks._relinked(f"[a](../../macros/feed/as_of.sql) {same}", page) == (
        f"[a](../source/macros/feed/as_of.sql.md) {same}"
    )
    assert hooks.place(ROOT / "README.md") == "index.md"


def test_the_lineage_is_dbts_page_without_its_two_faults(hooks: ModuleType) -> None:
    icon = "<svg><use xlink:href=\"%s{{ getIcon(item.type, \\'on\\') }}\"></use></svg>"
    favicon = '<link rel="shortcut icon" href="${require(\'./assets/favicon.ico\')}"/>'
    page = f"<head>{favicon}<title>ü</title></head>{icon % ''}"
    assert hooks.repaired(page) == (
        "<head><title>ü</title></head>" + (icon % "").replace("xlink:href", "ng-attr-href")
    )
    # Icons that stand in the page as they are stay so.
    assert hooks.repaired(icon % "#icn-") == icon % "#icn-"


def test_columns_link_to_what_they_are_made_of(hooks: ModuleType) -> None:
    column = {"type": "int", "how": None, "from": [], "used_by": []}
    made = {"table": "b", "id": "model.p.b", "column": "y"}
    tables = [
        {
            "table": "a",
            "id": "model.p.a",
            "kind": "staging",
            "untraced": None,
            "columns": [{**column, "name": "x<y", "how": "field `x` of `v`", "used_by": [made]}],
        },
        {
            "table": "b",
            "id": "model.p.b",
            "kind": "model",
            "untraced": "Nobody knows.",
            "columns": [{**column, "name": "y", "type": "array<int>", "how": "`x` < 1"}],
        },
    ]
    page = hooks.columns_page(tables)
    assert '<tr id="model.p.a.x&lt;y">' in page
    assert "field <code>x</code> of <code>v</code>" in page
    assert '<a href="#model.p.b.y">b.y</a>' in page and '<tr id="model.p.b.y">' in page
    assert "## b (model)\n\nNobody knows.\n\n<table>" in page
    assert "<td>array&lt;int&gt;</td>" in page and "<code>`x` &lt; 1</code>" in page


def test_tests_and_the_age_of_sources_are_listed(hooks: ModuleType) -> None:
    test = {"resource_type": "test", "depends_on": {"nodes": ["model.p.x"]}}
    manifest = {
        "nodes": {
            "model.p.m": {"resource_type": "model", "name": "m"},
            "test.p.a": {**test, "name": "a", "attached_node": "model.p.m"},
            "test.p.b": {**test, "name": "b", "depends_on": {"nodes": ["x", "model.p.m"]}},
        },
        "unit_tests": {
            "unit_test.p.m.u": {
                "resource_type": "unit_test",
                "name": "u",
                "depends_on": {"nodes": ["model.p.m"]},
            }
        },
        "sources": {"source.p.s.t": {"resource_type": "source", "name": "t"}},
    }
    results = {
        "test.p.a": {"status": "fail", "message": "Got 2 results <", "at": "2026-01-01 08:00 UTC"},
        "unit_test.p.m.u": {"status": "pass", "message": "", "at": "2026-01-01 08:00 UTC"},
    }
    sources = {
        "results": [
            {"unique_id": "source.p.s.t", "status": "warn", "max_loaded_at": "2026-01-01T07:00:00Z"}
        ]
    }
    page = hooks.tests_page(manifest, results, sources)
    assert "1 fail, 1 not run, 1 pass." in page
    rows = re.findall("<tr>(.*)</tr>", page)
    plain = [re.sub("<[^>]+>", "", row).split() for row in rows if "<td" in row]
    assert plain == [
        ["t", "warn", "2026-01-01", "07:00"],
        ["m", "fail", "a", "2026-01-01", "08:00", "UTC", "Got", "2", "results", "&lt;"],
        ["m", "not", "run", "b"],
        ["m", "pass", "u", "2026-01-01", "08:00", "UTC"],
    ]
    assert "Nothing is known of them." in hooks.tests_page(manifest, {}, {})
