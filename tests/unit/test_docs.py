"""The documentation: links lead somewhere, and what it names is there."""

from __future__ import annotations

import fnmatch
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import report

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]

FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^(?: {4}|\t).*$", re.MULTILINE)
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
MACRO = re.compile(r"{%-? *macro +(\w+)")
PATH = re.compile(r"[\w.-]+(?:/[\w.<>-]+)+\.\w+")
OURS = re.compile(r"_[a-z]+(?:_[a-z]+)+|(?:spark|sparkcdc|default)__\w+")
# Where a message has a name or value: the ellipsis, and the examples of the quarantine's page.
GAPS = re.compile(r"\.\.\.|\b(?:W|U|id|x|price|1\.255|int|decimal\(6,2\))(?!\w)")
# Columns, which are named like macros of ours.
COLUMNS = {"_event_id", "_cdc_is_latest"}


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return INDENTED.sub("", FENCED.sub("", page.read_text(encoding="utf-8")))


def links(page: Path) -> list[str]:
    """Targets of the links of a page that lead to files of this repository."""
    found = LINK.findall(CODE.sub("", prose(page)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(slug + (f"-{seen[slug]}" if seen[slug] else ""))
        seen[slug] += 1
    return found


def broken_links(page: Path) -> Iterator[str]:
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and anchor not in anchors(file):
            yield f"{target}: no such heading"


def spans(text: str) -> list[str]:
    """What stands in code spans."""
    return [" ".join(span.split()) for _, span in CODE.findall(text)]


def macros() -> set[str]:
    """Names of all macros of the package and of the adapter."""
    files = [*ROOT.glob("macros/**/*.sql"), *ROOT.glob("src/dbt/include/**/*.sql")]
    return {name for file in files for name in MACRO.findall(file.read_text(encoding="utf-8"))}


def messages() -> str:
    """The sources of the package with their texts in one piece, as messages show them."""
    files = [*ROOT.glob("macros/**/*.sql"), *ROOT.glob("src/**/*.py")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return re.sub(r"[\"']\s*~?\s*f?[\"']", "", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page: `x`\n\n[right](#a-page-x) [gone](gone.md) [wrong](#a-page)\n\n"
        "    [code](no.md)\n"
    )
    assert list(broken_links(page)) == ["gone.md: no such file", "#a-page: no such heading"]


def test_the_readme_leads_to_every_page() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            targets = (target.partition("#")[0] for target in links(page))
            waiting += [(page.parent / target).resolve() for target in targets if target]
    # It links to their folder.
    decisions = set((DOCS / "decisions").glob("*.md"))
    assert set(PAGES) - reached - decisions == set()


def test_pages_of_the_bench_have_the_titles_of_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    titles = {
        name: title for title, name in re.findall(r"- (.+): (benchmarks\w*)\.md$", menu, re.M)
    }
    assert titles == {name: title for name, (title, _) in report.PAGES.items()}
    assert titles.keys() == {page.stem for page in DOCS.glob("benchmarks*.md")}
    for name, title in titles.items():
        page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {title}\n"), f"run `python -m bench.report {name}`"


def test_the_page_on_a_batch_names_files_and_macros_that_exist() -> None:
    named = spans((DOCS / "batch.md").read_text(encoding="utf-8"))
    paths = [found for span in named for found in PATH.findall(span) if "<" not in found]
    assert len(paths) > 20 and [path for path in paths if not (ROOT / path).exists()] == []
    public = {span[4:] for span in named if re.fullmatch(r"cdc\.[a-z]+_?[a-z]+", span)}
    private = {span for span in named if OURS.fullmatch(span)} - COLUMNS
    assert len(private) > 30 and sorted((public | private) - macros()) == []


def first_columns(text: str) -> list[str]:
    """Code spans in the first columns of tables."""
    cells = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    return [span for cell in cells for span in spans(cell)]


def test_the_map_of_the_code_is_whole_and_names_what_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Where the code is\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([^`]+)`", section))
    folders = {path.name for path in (ROOT / "macros").iterdir() if path.is_dir()}
    assert folders <= {name.removeprefix("macros/") for name in named}
    files = {path.name for part in ("src", "macros") for path in (ROOT / part).rglob("*.*")}
    for name in named:
        if name.endswith((".py", ".sql")):
            pattern = name.rpartition("/")[2]
            assert fnmatch.filter(files, pattern), f"{name} is not there"


def test_messages_are_those_of_the_software() -> None:
    errors = (DOCS / "troubleshooting.md").read_text(encoding="utf-8").partition("## No error")[0]
    reasons = (DOCS / "quarantine.md").read_text(encoding="utf-8").partition("## Reasons")[2]
    said = " ".join(messages().split())
    quoted = [
        part.strip(" `")
        for span in first_columns(errors) + first_columns(reasons)
        for part in GAPS.split(span)
        if part.strip(" `:()")
    ]
    assert len(quoted) > 80
    assert [part for part in quoted if part not in said] == []


def test_every_option_of_a_declaration_is_documented() -> None:
    source = (ROOT / "macros/declare/_declaration_problems.sql").read_text(encoding="utf-8")
    known = set(re.findall(r'"(\w+)"', source.partition("set known = [")[2].partition("]")[0]))
    pages = [DOCS / "declaration.md", DOCS / "formats" / "debezium.md"]
    found = {span for page in pages for span in first_columns(page.read_text(encoding="utf-8"))}
    assert len(known) > 20 and sorted(known - found) == []


def uncited(page: str) -> list[str]:
    """Questions whose answer names no thread with the day on which it was opened."""
    thread = r"\[[^]]+]\(https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/(\d+)\)"
    cited = re.compile(
        rf"^Threads?: (?:{thread}, [\w.-]+/[\w.-]+ #\d+, \d{{4}}-\d\d-\d\d[;.] ?)+$", re.M
    )
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    return [section.split("\n")[0] for section in sections if not cited.search(section)]


@pytest.mark.parametrize("page", sorted((DOCS / "formats").glob("*.md")), ids=lambda p: p.stem)
def test_every_format_says_what_orders_changes_at_one_position(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "the hash of their content" in text or "there are no ties" in text


def test_every_answer_names_its_threads_with_their_dates() -> None:
    page = (DOCS / "faq.md").read_text(encoding="utf-8")
    assert page.count("\n## ") > 15 and uncited(page) == []
    for number, named in re.findall(r"/(?:issues|pull)/(\d+)\), \S+ #(\d+)", page):
        assert number == named
    assert uncited("## Why?\n\nBecause.\n") == ["Why?"]


def test_every_claim_of_the_comparison_has_a_source_with_a_date() -> None:
    text, _, sources = (DOCS / "comparison.md").read_text(encoding="utf-8").partition("## Sources")
    rows = re.findall(
        r"^\| \[(\d+)] \| .*\(https://\S+\).* \| \d{4}-\d\d(?:-\d\d)? \|$", sources, re.M
    )
    assert rows == [str(number) for number in range(1, len(rows) + 1)] and len(rows) > 10
    assert set(re.findall(r"\[(\d+)]", text)) == set(rows)


@pytest.mark.parametrize("picture", sorted(DOCS.rglob("*.svg")), ids=lambda file: file.name)
def test_pictures_are_whole_by_themselves(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    ET.fromstring(text)
    outside = re.findall(r"(?:href|src|url)[=(\s]*[\"']?(?!#)\w+://[^\"')]+", text)
    assert outside == [] and "@import" not in text
    if not picture.name.startswith("benchmarks"):
        assert "prefers-color-scheme: dark" in text
