"""The code in the documentation: every block of every page, divided into files and commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / f"{folder}/README.md" for folder in ("data", "integration_tests")),
    ROOT / "bench/introduction.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Pages that a test of their own runs word for word.
WORD_FOR_WORD = {
    "docs/start.md": "tests/functional/test_init.py",
    "docs/tutorial.md": "tests/functional/test_tutorial.py",
}

# A comment that names the file of the lines below it.
FILE = re.compile(
    r"^(?:#|--) ([\w./-]+\.(?:cfg|py|service|sh|sql|timer|ya?ml)|\.sqlfluff|crontab)\b(?![\w.]).*$"
)
LANGUAGES = {
    "bash": "shell",
    "cfg": "ini",
    "crontab": "crontab",
    "py": "python",
    "service": "ini",
    "sh": "shell",
    "sqlfluff": "ini",
    "timer": "ini",
    "yml": "yaml",
}
# What a block begins with, where neither a fence nor a file says what it is.
BEGINNINGS = [
    (re.compile(r"\$ "), "console"),
    (re.compile(r"\{(?![{%])"), "json"),
    (re.compile(r"key +\{"), "labelled json"),
    (re.compile(r"\w+  +\w+  +\w+"), "table"),
    (re.compile(r"from [\w.]+ import |import |def |\w+ = "), "python"),
    (re.compile(r"\{\{|\{%|--|(?:select|create|insert|from)\b", re.I), "sql"),
    (re.compile(r"(?:- )?[\w-]+:(?: |$)|# \w+\.csv:"), "yaml"),
    (re.compile(r"[A-Z_]+=|[\w./]+(?: |$)"), "shell"),
    (re.compile(r"[^,\s]+(?:,[^,]*)+$"), "csv"),
]


class Code(NamedTuple):
    """A file, a list of commands or another piece of code of a page.

    Attributes:
        page: The page, relative to the repository.
        key: The page with the file or the first line, by which tests name the piece.
        language: Such as `sql` or `shell`; empty if nothing shows it.
        file: The file that the piece says it is; empty where it says none.
        text: The piece, without the line that names the file.
    """

    page: str
    key: str
    language: str
    file: str
    text: str


def codes() -> list[Code]:
    """All pieces of code of all pages, in their order."""
    return [code for page in PAGES for code in codes_of(page.relative_to(ROOT))]


def codes_of(page: Path, root: Path = ROOT) -> Iterator[Code]:
    """The pieces of code of one page."""
    seen: Counter[str] = Counter()
    for token in MarkdownIt().parse((root / page).read_text(encoding="utf-8")):
        if token.type not in ("fence", "code_block"):
            continue
        for file, text in _pieces(token.content):
            first = text.split("\n")[0]
            key = f"{page}: {file or first.strip()[:60].strip()}"
            seen[key] += 1
            if seen[key] > 1:
                key = f"{key} ({seen[key]})"
            language = _language(token.info, file, first)
            yield Code(str(page), key, language, file, text)


def _pieces(block: str) -> Iterator[tuple[str, str]]:
    """The files of a block with their texts; one without a name where the block has none."""
    file, lines = "", list[str]()
    for line in block.rstrip("\n").split("\n"):
        found = FILE.match(line)
        if found and not any(one.strip() and not one.startswith("#!") for one in lines):
            file = found[1]
        elif found:
            yield file, _text(lines)
            file, lines = found[1], []
        else:
            lines.append(line)
    text = _text(lines)
    if file or _language("", "", text) not in _DATA:
        yield file, text
    else:  # an event or a row, and below it how it is declared or what is done with it
        yield from (("", _text([part])) for part in text.split("\n\n"))


def _text(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n") + "\n"


def _language(info: str, file: str, first: str) -> str:
    stated = file.rsplit(".")[-1] if file else info.strip()
    if stated:
        return LANGUAGES.get(stated, stated)
    return next((name for start, name in BEGINNINGS if start.match(first)), "")


def commands(text: str, *, prompt: bool = False) -> Iterator[list[str]]:
    """The commands of a shell script as lists of words, without what the shell itself does.

    Args:
        text: The script.
        prompt: Whether only lines that begin with `$ ` are commands; the others are output.
    """
    lines = text.replace("\\\n", " ").split("\n")
    for line in lines:
        if prompt and not line.startswith("$ "):
            continue
        parsed = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=";&|()<>")
        parsed.whitespace_split = True
        words = list[str]()
        for word in [*parsed, ";"]:
            if set(word) <= set(";&|()"):
                if command := _command(words):
                    yield command
                words = []
            else:
                words.append(word)


def _command(words: list[str]) -> list[str]:
    """A command without keywords, redirections and variables of the shell."""
    for at, word in enumerate(words):
        if set(word) <= set("<>"):
            words = words[: at - 1 if words[at - 1].isdigit() else at]
            break
    while words and (words[0] in _KEYWORDS or re.match(r"\w+=", words[0])):
        words = words[1:]
    return [] if words[:1] in (["for"], ["["]) else words


_DATA = {"csv", "json", "table"}
_KEYWORDS = {"do", "done", "else", "fi", "if", "then", "{", "}"}
