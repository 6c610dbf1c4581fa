"""Checks the SQL that sqlfluff cannot see, because it stands in bodies of macros and generic tests.

A body renders only where the macro is called, so it is read as it is written: Jinja, comments and
quoted text are blanked out, what is left is SQL.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from sqlfluff.core.dialects import dialect_selector

NOT_SQL = re.compile(
    r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|/\*.*?\*/|--[^\n]*|'(?:[^'\\]|\\.)*'|\"[^\"]*\"|`[^`]*`",
    re.DOTALL,
)
# What macros rendered is not written by hand.
RENDERED = Path("tests/rendered/sql")
DIALECT = dialect_selector("sparksql")
KEYWORDS = DIALECT.sets("reserved_keywords") | DIALECT.sets("unreserved_keywords")


def problems(text: str) -> Iterator[tuple[int, str]]:
    """Yields line number and fault.

    Args:
        text: A file of SQL and Jinja.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if "\t" in line:
            yield number, "tab"
        if line != line.rstrip():
            yield number, "trailing blanks"
    if (text and not text.endswith("\n")) or text.endswith("\n\n"):
        yield text.count("\n") + 1, "the file does not end in one newline"

    # The package runs on plain dbt-spark too: what differs is dispatched, or asked of the relation.
    for number, line in enumerate(lines, start=1):
        if re.search(r"\btarget\.type\b", line):
            yield number, "target.type"

    sql = NOT_SQL.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    for number, line in enumerate(sql.split("\n"), start=1):
        for word in re.findall(r"\b[A-Z][A-Z_]+\b", line):
            if word in KEYWORDS:
                yield number, f"keyword {word} is not in lower case"
        # What follows Jinja on its line only looks as if it began one.
        if re.match(r"\s*,", line) and re.match(r"\s*,", lines[number - 1]):
            yield number, "comma at the start of a line"


def main(folders: list[str]) -> int:
    """Prints every fault in the SQL files of these folders; returns the exit code.

    Args:
        folders: Folders to search; those that do not exist hold no faults.
    """
    found_files = (file for folder in folders for file in Path(folder).rglob("*.sql"))
    files = sorted(file for file in found_files if not file.is_relative_to(RENDERED))
    found = 0
    for file in files:
        for number, fault in problems(file.read_text(encoding="utf-8")):
            print(f"{file}:{number}: {fault}")
            found += 1
    print(f"{len(files)} SQL files, {found} faults")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
