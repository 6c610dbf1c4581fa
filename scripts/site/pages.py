"""Hooks of mkdocs: what the site has beside docs/, and lists as code hosts read them.

The pages link to files all over the repository. These become pages of the site: Markdown as it is,
everything else as a listing. So no link leaves the site for a host where the repository may be.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File
from mkdocs.structure.nav import Link, Section

from dbt_spark_cdc.observe.lineage import as_json, read_tables
from dbt_spark_cdc.project import BadProject, read_artifact, target_folder

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# What dbt writes for `dbt docs generate --static`, and where the site has it.
LINEAGE, LINEAGE_PAGE = "static_index.html", "lineage.html"
# What `make build` keeps of the tests.
RESULTS = ROOT / "warehouse" / ".results.json"
WORKER = Path(__file__).with_name("iframe-worker.js")
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
# Pages that the site has by another name.
HOME = {"README.md": "index.md"}
LANGUAGES = {".sql": "sql", ".py": "python", ".yml": "yaml", ".csv": "text", ".md": "markdown"}

# Browsers load an icon of dbt's page by its template, `{{ getIcon(..) }}`, before it is filled in.
TEMPLATE, FILLED_LATER = 'xlink:href="{{', 'ng-attr-href="{{'
# It asks for a favicon whose name dbt's own build of it has left as code.
FAVICON = re.compile(r'<link [^>]*href="\$\{require\([^>]*>')

# How the page about columns begins.
COLUMNS = """# Columns of the reference project

What each column is made of, and what is made of it: follow the links to the events, or to the
marts. The declarations say it of tables of the package, and SQL of other models, read by
[sqlglot](https://github.com/tobymao/sqlglot). [`cdc lineage`](cli.md#cdc-lineage) shows the same of
your own project."""
TESTS = """# Tests and freshness

What the tests of the reference project said when `make build` last ran them, and how old its
sources were when this site was made."""
ONE_LINE = 'style="white-space: nowrap"'
QUOTED = re.compile("`([^`]+)`")

LINK = re.compile(r"(\]\()((?!\w+:|#)[^()\s#]+)(#[^()\s]*)?(\))")
CODE = re.compile(r"^( {4}|\t).*$|`[^`\n]+`", re.MULTILINE)
ITEM = re.compile(r"^(?:\d+\.|-) (?=\S)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists every decision in the navigation."""
    for section in config.nav or []:
        if "Decisions" in section:
            section["Decisions"] += [f"decisions/{path.name}" for path in _decisions()]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages that are not in docs/, and whatever a page of docs/ links to outside of it."""
    waiting = [ROOT / name for name in ROOT_PAGES]
    waiting += [path for file in files for path in _linked(Path(config.docs_dir) / file.src_uri)]
    added: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in added or path.is_relative_to(config.docs_dir):
            continue
        added.add(path)
        files.append(File.generated(config, place(path), content=_page(path)))
        if path.suffix == ".md":
            waiting += _linked(path)
    files.append(File.generated(config, "decisions/index.md", content=_list_of_decisions()))
    files.append(File.generated(config, f"assets/{WORKER.name}", abs_src_path=str(WORKER)))
    lineage = target_folder(ROOT) / LINEAGE
    page = repaired(lineage.read_text(encoding="utf-8")) if lineage.exists() else _no_lineage()
    files.append(File.generated(config, LINEAGE_PAGE, content=page))
    files.append(File.generated(config, "columns.md", content=_columns_page()))
    files.append(File.generated(config, "tests.md", content=_tests_page()))
    return files


def on_nav(nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
    """Leads from the reference to the lineage, which is no page of mkdocs."""
    for section in nav.items:
        if isinstance(section, Section) and section.title == "Reference":
            section.children.append(Link("Lineage of the reference project", LINEAGE_PAGE))
    return nav


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links outside of docs/ to the pages made of their files, and widens numbered lists."""
    if page.file.generated_by is None:
        markdown = _relinked(markdown, Path(config.docs_dir) / page.file.src_uri)
    return widened(markdown)


def place(path: Path) -> str:
    """Where the site has a file or folder of the repository.

    Args:
        path: An absolute path below the root of the repository.
    """
    name = path.relative_to(ROOT).as_posix()
    if path == ROOT / "docs" / "decisions":
        return "decisions/index.md"
    if path.is_relative_to(ROOT / "docs"):
        return path.relative_to(ROOT / "docs").as_posix()
    if path.suffix == ".md":
        return HOME.get(name, name)
    return f"source/{name}.md"


def repaired(page: str) -> str:
    """The page of the lineage without two faults, which browsers report as errors.

    Args:
        page: What `dbt docs generate --static` writes.

    Returns:
        The same page where dbt has repaired them.
    """
    return FAVICON.sub("", page).replace(TEMPLATE, FILLED_LATER)


def columns_page(tables: list[dict[str, Any]]) -> str:
    """A page that tells of each column what it is made of, and what is made of it.

    Args:
        tables: What `dbt_spark_cdc.observe.lineage.as_json` returns of all tables.
    """
    return "\n\n".join([COLUMNS, *(_section(table) for table in tables)]) + "\n"


def tests_page(
    manifest: Mapping[str, Any], results: Mapping[str, Any], sources: Mapping[str, Any]
) -> str:
    """A page that tells what the tests of each table said, and how old each source is.

    Args:
        manifest: dbt's manifest.
        results: Status, message and time by unique id of the test, as `make build` keeps them.
        sources: What `dbt source freshness` writes to sources.json.
    """
    tests = {**manifest["nodes"], **manifest.get("unit_tests", {})}
    names = {key: node["name"] for key, node in {**tests, **manifest["sources"]}.items()}
    by_table: dict[str, list[str]] = {}
    for test_id, test in sorted(tests.items()):
        if test["resource_type"] in ("test", "unit_test"):
            reads = test["depends_on"]["nodes"]
            table = test.get("attached_node") or (reads[-1] if reads else "")
            by_table.setdefault(names.get(table, "no table"), []).append(test_id)
    rows = "".join(
        f"<tr><td {ONE_LINE}><code>{escape(table)}</code></td>"
        f" <td {ONE_LINE}>{escape(said.get('status', 'not run'))}</td>"
        f' <td style="overflow-wrap: anywhere">{escape(tests[one]["name"])}</td>'
        f" <td>{escape(said.get('at', ''))}</td> <td>{escape(said.get('message', ''))}</td></tr>\n"
        for table, ids in sorted(by_table.items())
        for one in ids
        for said in [results.get(one, {})]
    )
    ages = "".join(
        f"<tr><td {ONE_LINE}><code>{escape(names.get(one['unique_id'], one['unique_id']))}</code>"
        f"</td> <td>{escape(one['status'])}</td>"
        f" <td>{escape(str(one.get('max_loaded_at') or '')[:16].replace('T', ' '))}</td></tr>\n"
        for one in sorted(sources.get("results", []), key=lambda one: one["unique_id"])
    )
    ran = (
        results.get(one, {}).get("status", "not run") for ids in by_table.values() for one in ids
    )
    counts = Counter(ran)
    counted = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    return "\n\n".join(
        [
            TESTS,
            f"## Freshness of sources\n\n{_grid(('Source', 'State', 'Newest row (UTC)'), ages)}",
            f"## Tests\n\n{counted or 'There are none'}.",
            _grid(("Table", "Result", "Test", "When", "Message"), rows) + "\n",
        ]
    )


def widened(markdown: str) -> str:
    """Lists with the four blanks that Python-Markdown wants inside an item.

    Code hosts take as many as the marker is wide: three for `1. `, two for `- `.

    Args:
        markdown: A page as it is in the repository.
    """
    lines, width = [], 4
    for line in markdown.split("\n"):
        item = ITEM.match(line)
        if item:
            width = len(item[0])
        elif line and not line.startswith(" "):
            width = 4
        inside = width < 4 and line.startswith(" " * width)
        lines.append(" " * (4 - width) + line if inside else line)
    return "\n".join(lines)


def _decisions() -> list[Path]:
    return sorted((ROOT / "docs" / "decisions").glob("*.md"))


def _list_of_decisions() -> str:
    """A page with the titles of all decisions."""
    titles = ((path, path.read_text(encoding="utf-8").split("\n")[0]) for path in _decisions())
    listed = "\n".join(f"- [{title.strip('# ')}]({path.name})" for path, title in titles)
    return f"# Decisions\n\nWhat was decided, why, and what it costs.\n\n{listed}\n"


def _page(path: Path) -> str:
    """The page made of a file or a folder of the repository."""
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        inside = (child for child in sorted(path.rglob("*")) if child.is_file())
        listed = "\n".join(f"- `{child.relative_to(path).as_posix()}`" for child in inside)
        return f"# {name}/\n\n{listed}\n"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return _relinked(text, path)
    return f"# {name}\n\n~~~~{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n~~~~\n"


def _linked(page: Path) -> Iterator[Path]:
    """Files and folders of the repository, outside of docs/, that a page links to."""
    if page.suffix != ".md":
        return
    for match in LINK.finditer(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / match[2]).resolve()
        if target.exists() and target.is_relative_to(ROOT):
            yield target


def _relinked(markdown: str, page: Path) -> str:
    """A page whose links lead to the places that the site has for their targets."""
    start = os.path.dirname(place(page))

    def there(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return match[0]
        path = os.path.relpath(place(target), start or ".")
        return f"{match[1]}{path}{match[3] or ''}{match[4]}"

    return LINK.sub(there, markdown)


def _columns_page() -> str:
    try:
        tables = read_tables(ROOT)
    except BadProject:
        return f"{COLUMNS}\n\nRun `make docs`: it asks dbt for the columns, and puts them here.\n"
    return columns_page(as_json(tables, tables))


def _tests_page() -> str:
    target = target_folder(ROOT)
    manifest = read_artifact(target / "manifest.json")
    if not manifest:
        return f"{TESTS}\n\nRun `make build` and `make docs`, which put them here.\n"
    return tests_page(manifest, read_artifact(RESULTS), read_artifact(target / "sources.json"))


def _grid(headings: tuple[str, ...], rows: str) -> str:
    """A table of HTML, in which names with underscores stay what they are."""
    if not rows:
        return "Nothing is known of them."
    head = " ".join(f"<th>{name}</th>" for name in headings)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>"


def _section(table: dict[str, Any]) -> str:
    """A heading and a table. It is HTML, in which names with underscores stay what they are."""

    def linked(columns: list[dict[str, str]]) -> str:
        return "<br>\n".join(
            f'<a href="#{escape(one["id"])}.{escape(one["column"])}">'
            f"{escape(one['table'])}.{escape(one['column'])}</a>"
            for one in columns
        )

    def said(how: str | None) -> str:
        if table["kind"] in ("final", "model"):
            return f"<code>{escape(how)}</code>" if how else ""
        return QUOTED.sub(r"<code>\1</code>", escape(how or ""))

    # Between cells a blank, which tells words apart in the search.
    rows = "\n".join(
        f'<tr id="{escape(table["id"])}.{escape(column["name"])}">'
        f"<td {ONE_LINE}><code>{escape(column['name'])}</code></td>"
        f" <td>{escape(column['type'])}</td>"
        f" <td>{linked(column['from'])}</td> <td>{said(column['how'])}</td>"
        f" <td>{linked(column['used_by'])}</td></tr>"
        for column in table["columns"]
    )
    untraced = f"{table['untraced']}\n\n" if table["untraced"] else ""
    grid = _grid(("Column", "Type", "From", "How", "Used by"), rows + "\n")
    return f"## {table['table']} ({table['kind']})\n\n{untraced}{grid}"


def _no_lineage() -> str:
    return (
        "<!doctype html>\n<title>Lineage</title>\n<p>Run <code>make docs</code>: it asks dbt for"
        " the lineage of every model and column, and puts it here.</p>\n"
    )
