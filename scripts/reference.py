"""Writes docs/reference.md: every public name, from the one place where it is defined.

    python scripts/reference.py            # write the page
    python scripts/reference.py --check    # exit 1 if it would change

| section | from |
|---|---|
| macros, tests, operations | the YAML of their folders; defaults from their SQL |
| options of a declaration | the list that `cdc.validate` checks, and the pages that explain them |
| options of models | the list below, which must be what the macros read |
| columns | the docs blocks of macros/columns.md |
| profile | the credentials of the adapter |
| commands | the command `cdc` itself |
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials

from dbt_spark_cdc import cli
from dbt_spark_cdc.generate import config_table

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/reference.md"

SIGNATURE = re.compile(r"\{%-?\s*(macro|test)\s+(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)")
BLOCK = re.compile(r"\{% docs (\w+) %\}\n(.*?)\n\{% enddocs %\}", re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^()\s]+)\)")
# Pages with tables of options, the one that explains an option first.
OPTION_PAGES = ("docs/declaration.md", "docs/formats/debezium.md")
# What a macro is, where its name does not tell.
STRATEGIES = {"snapshot_scd2_strategy": "strategy: cdc.scd2"}

# dbt's options that mean something to the package, by the kind of model.
MODEL_OPTIONS: dict[str, dict[str, str]] = {
    "History: a snapshot": {
        "strategy": "`cdc.scd2`; required",
        "unique_key": "the columns of the key, as declared; required",
        "partition_by": "further columns to partition by, after `_cdc_is_latest`",
        "file_format": "`delta` or `iceberg`",
        "write_mode": (
            "`merge-on-read` to mark changed rows in deletion vectors or delete files,"
            " `copy-on-write` to rewrite their files"
        ),
        "format_version": "with `iceberg`: 2, the default, or 3",
        "tblproperties": "further table properties; the change feed is on unless they turn it off",
    },
    "Final table: a model whose body is `cdc.current`": {
        "materialized": "`incremental`, or `view` to store only the history",
        "incremental_strategy": (
            "`merge`, or `insert_overwrite` to rewrite the touched partitions; required for"
            " `incremental`"
        ),
        "unique_key": "the columns of the key, as declared; required for `incremental`",
        "partition_by": "columns to partition by, also computed ones of the declaration",
        "file_format": (
            "`delta`, `iceberg`, or `parquet` with `insert_overwrite` for plain Parquet files"
        ),
        "write_mode": "see the history",
        "format_version": "see the history",
        "tblproperties": "further table properties",
    },
    "Consumer: a model whose body is `cdc.changelog`": {
        "materialized": "`incremental` to append what is new; as a table it holds all changes",
        "incremental_strategy": "`merge`; required for `incremental`",
    },
    "Landing: a Python model": {
        "landing_folder": "the folder of the change files; `cdc_erase` removes lines from them",
        "topics": (
            "with Kafka: names of topics, or a regular expression;"
            " [further options](kafka.md) of the model"
        ),
        "raw_table": "the raw table, with its schema; `cdc_optimize` and `cdc_vacuum` reach it",
    },
}
# Options that the macros look at without giving them a meaning of their own, or refuse.
PASSED_ON = {
    "alias", "clustered_by", "contract", "grants", "incremental_predicates", "location_root",
    "meta", "on_schema_change", "persist_docs", "pre-hook", "pre_hook", "post-hook", "post_hook",
}  # fmt: skip
VARIABLES = {
    "cdc_rebuild": (
        "histories that `--full-refresh` may rebuild even if versions are lost whose events are"
        " gone: a name, a list of names, or `true` for all"
    ),
}

# Columns that the package adds, by the table that has them, with the docs block of each.
COLUMNS: dict[str, dict[str, str]] = {
    "Staging model (`cdc.events`)": {
        "_op": "cdc_op",
        "_seq": "cdc_seq",
        "_ts": "cdc_ts",
        "_event_id": "cdc_event_id",
        "_unset": "cdc_unset",
        "_old_<key>": "cdc_old_key",
        "_arrived": "cdc_arrived",
        "_row_id": "cdc_row_id",
    },
    "Quarantine (`cdc.quarantine`)": {
        "_reason": "cdc_reason",
        "_payload": "cdc_payload",
        "_origin": "cdc_origin",
        "_arrived": "cdc_arrived",
    },
    "History (`strategy: cdc.scd2`)": {
        "dbt_valid_from": "cdc_valid_from",
        "dbt_valid_to": "cdc_valid_to",
        "dbt_updated_at": "cdc_updated_at",
        "dbt_scd_id": "cdc_scd_id",
        "_seq": "cdc_version_seq",
        "_seq_end": "cdc_version_seq_end",
        "_cdc_created_at": "cdc_created_at",
        "_cdc_seq": "cdc_current_seq",
        "_cdc_is_latest": "cdc_is_latest",
        "_event_id": "cdc_event_id",
        "_events": "cdc_events",
        "_entity_id": "cdc_entity_id",
    },
    "Final table (`cdc.current`)": {
        "_cdc_created_at": "cdc_created_at",
        "_cdc_updated_at": "cdc_updated_at",
        "_cdc_seq": "cdc_current_seq",
        "_cdc_deleted_at": "cdc_deleted_at",
        "_row_id": "cdc_row_id",
        "_entity_id": "cdc_entity_id",
    },
    "Changelog (`cdc.changelog`)": {
        "_row_kind": "cdc_row_kind",
        "_commit_version": "cdc_commit_version",
        "_commit_timestamp": "cdc_commit_timestamp",
    },
}


class Incomplete(Exception):
    """The sources of the reference contradict each other: all that is wrong, a line each."""


def page() -> str:
    """Returns the whole page.

    Raises:
        Incomplete: A public name is described nowhere, or what is described is not there.
    """
    problems = [*_option_problems(), *_model_option_problems(), *_column_problems()]
    if problems:
        raise Incomplete("\n".join(problems))
    entries = _entries()
    parts = [
        "# Reference",
        "Every public name, with its arguments and options. This page is generated from the sources"
        " by `python scripts/reference.py`.",
        "## Macros",
        *_macro_parts(name for name in entries if not _is_operation(name) and not _is_test(name)),
        "## Operations",
        "Run them with `dbt run-operation <name> --args '{<argument>: <value>}'`."
        " See [Operations](operations.md).",
        *_macro_parts(name for name in entries if _is_operation(name)),
        "## Generic tests",
        "See [Testing your tables](testing.md) for examples.",
        *_macro_parts(name for name in entries if _is_test(name)),
        "## Options of a declaration",
        "Declare them under `config.meta.cdc` of a source or of one of its tables."
        " See [The declaration](declaration.md).",
        _table(("option", "type", "default", "meaning"), _declaration_rows()),
        "## Options of models",
        "dbt's options that have a meaning for the package. Histories and final tables"
        " need `file_format: delta` or `iceberg`; a final table can also be plain `parquet`.",
        *_model_option_parts(),
        "### Variables",
        _table(("variable", "meaning"), ((f"`{k}`", v) for k, v in VARIABLES.items())),
        "## Columns",
        "What the package adds to the columns that are declared. The ledger `cdc_runs` is described"
        " in [Operations](operations.md#the-ledger), the resolver's columns in"
        " [Keys that change](keys.md#what-it-adds-to-an-event).",
        *_column_parts(),
        "## Profile",
        "Fields of an output with `type: sparkcdc`. See [The adapter](adapter.md#settings) for the"
        " settings of Spark.",
        _table(("field", "default", "meaning"), _profile_rows()),
        "## Commands",
        *_command_parts("cdc", cli.main),
        "## Control table",
        "Columns of `seeds/cdc_tables.csv` and `seeds/cdc_columns.csv`, in their order."
        " See [A project from a control table](generate.md#the-columns).",
        f"- `cdc_tables.csv`: {_code_list(config_table.HEADER)}\n"
        f"- `cdc_columns.csv`: {_code_list(config_table.COLUMNS_HEADER)}",
    ]
    return "\n\n".join(parts) + "\n"


# Macros, tests and operations


def _entries() -> dict[str, dict[str, Any]]:
    """YAML entries of public macros and tests by name, in the order of the folders' names."""
    found = {}
    for file in sorted((ROOT / "macros").glob("*/*.yml")):
        for entry in yaml.safe_load(file.read_text(encoding="utf-8"))["macros"]:
            name = entry["name"]
            if not name.startswith("_") and "__" not in name:
                found[name] = entry
    return dict(sorted(found.items()))


def _is_operation(name: str) -> bool:
    return name.startswith("cdc_")


def _is_test(name: str) -> bool:
    return name.startswith("test_")


def _sources() -> dict[str, tuple[Path, str]]:
    """File and arguments by name of the macro, as its SQL has them."""
    found = {}
    for file in [*ROOT.glob("macros/*/*.sql"), *ROOT.glob("tests/generic/*.sql")]:
        for kind, name, arguments in SIGNATURE.findall(file.read_text(encoding="utf-8")):
            found["test_" * (kind == "test") + name] = (file, arguments)
    return found


def _defaults(arguments: str) -> dict[str, str]:
    """Defaults by name of the argument."""
    outside = re.split(r",(?![^\[{]*[\]}])", arguments)
    pairs = (part.split("=", 1) for part in outside if "=" in part)
    return {name.strip(): value.strip() for name, value in pairs}


def _macro_parts(names: Iterable[str]) -> Iterator[str]:
    entries, sources = _entries(), _sources()
    for name in names:
        file, arguments = sources[name]
        shown = name.removeprefix("test_") if _is_test(name) else name
        title = STRATEGIES.get(name, shown if _is_operation(name) else f"cdc.{shown}")
        yield f"### `{title}`"
        where = file.relative_to(ROOT)
        yield f"{_meaning(entries[name]['description'])} ([source](../{where}))"
        # dbt itself hands a strategy its arguments, and a test its model.
        listed = entries[name].get("arguments") or []
        if name in STRATEGIES:
            continue
        defaults = _defaults(arguments)
        rows = [
            (
                f"`{argument['name']}`",
                str(argument.get("type", "")),
                _default(str(argument.get("type", "")), defaults.get(argument["name"])),
                _meaning(argument["description"]),
            )
            for argument in listed
            if not (_is_test(name) and argument["name"] == "model")
        ]
        if rows:
            yield _table(("argument", "type", "default", "meaning"), rows)


def _default(kind: str, value: str | None) -> str:
    """An argument that is not optional, and is none all the same, is asked for by the macro."""
    if value is None or (value == "none" and not kind.startswith("optional")):
        return "required"
    return "none" if value == "none" else f"`{value}`"


def _meaning(text: str) -> str:
    """A description without what heading and table say already."""
    plain = re.sub(r" Default \w+\.$", "", _sentence(text)).removeprefix("Operation that ")
    return plain[0].upper() + plain[1:]


# Options of a declaration


def _known_options() -> list[str]:
    """The options that `cdc.validate` accepts, in its order."""
    file = ROOT / "macros/declare/_declaration_problems.sql"
    listed = file.read_text(encoding="utf-8").partition("set known = [")[2].partition("]")[0]
    return re.findall(r'"(\w+)"', listed)


def _explained_options() -> dict[str, tuple[str, str, str]]:
    """Type, default and meaning by option, from the pages' tables."""
    found: dict[str, tuple[str, str, str]] = {}
    for name in OPTION_PAGES:
        columns: list[str] = []
        for line in (ROOT / name).read_text(encoding="utf-8").split("\n"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not cells or cells[0] == "option":
                columns = cells
            elif columns and not set(cells[0]) <= set("-:"):
                row = dict(zip(columns, cells, strict=True))
                for option in re.findall(r"`(\w+)`", cells[0]):
                    texts = (row.get(column, "") for column in ("type", "default", "meaning"))
                    kind, default, meaning = (_rebased(text, name) for text in texts)
                    found.setdefault(option, (kind, default, meaning))
    return found


def _declaration_rows() -> Iterator[Sequence[str]]:
    explained = _explained_options()
    return ((f"`{option}`", *explained[option]) for option in _known_options())


def _option_problems() -> Iterator[str]:
    explained = _explained_options()
    for option in _known_options():
        if option not in explained:
            yield f"option `{option}`: no table of {' or '.join(OPTION_PAGES)} explains it."


def _rebased(text: str, name: str) -> str:
    """A text of one page with its links as the reference has to write them."""
    folder = Path(name).parent.relative_to("docs")

    def target(match: re.Match[str]) -> str:
        path, mark, anchor = match[1].partition("#")
        return f"]({(folder / (path or Path(name).name)).as_posix()}{mark}{anchor})"

    return LINK.sub(target, text)


# Options of models


def _read_options() -> set[str]:
    """dbt's options that macros of the package ask for."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in ROOT.glob("macros/*/*.sql"))
    found = set(re.findall(r"\bconfig\.get\(\"([\w-]+)\"", text))
    return found | set(re.findall(r"\bconfig\.(?!get\b)([a-z_]+)\b", text))


def _model_option_problems() -> Iterator[str]:
    listed = {option for options in MODEL_OPTIONS.values() for option in options}
    for option in sorted(_read_options() - listed - PASSED_ON):
        yield f"model option `{option}`: macros read it. Add it to MODEL_OPTIONS or PASSED_ON."
    for option in sorted(listed - _read_options()):
        yield f"model option `{option}`: no macro reads it. Remove it from MODEL_OPTIONS."
    text = "\n".join(file.read_text(encoding="utf-8") for file in ROOT.glob("macros/*/*.sql"))
    for name in sorted(set(re.findall(r"\bvar\(\"(\w+)\"", text)) ^ VARIABLES.keys()):
        yield f"variable `{name}`: it stands in macros or in VARIABLES, and not in both."


def _refused_options() -> list[str]:
    """Options of a snapshot that the package refuses, as its check lists them."""
    file = ROOT / "macros/declare/_node_problems.sql"
    listed = file.read_text(encoding="utf-8").partition("for option, reason in {")[2]
    return re.findall(r'^ *"(\w+)":', listed.partition("}.items()")[0], re.MULTILINE)


def _model_option_parts() -> Iterator[str]:
    for kind, options in MODEL_OPTIONS.items():
        yield f"### {kind}"
        yield _table(("option", "meaning"), ((f"`{name}`", text) for name, text in options.items()))
        if kind.startswith("History"):
            yield f"Refused: {_code_list(_refused_options())}."


# Columns


def _blocks() -> dict[str, str]:
    text = (ROOT / "macros/columns.md").read_text(encoding="utf-8")
    return {name: " ".join(body.split()) for name, body in BLOCK.findall(text)}


def _column_problems() -> Iterator[str]:
    used = {block for columns in COLUMNS.values() for block in columns.values()}
    for block in sorted(used ^ _blocks().keys()):
        yield f"docs block `{block}`: it stands in macros/columns.md or in COLUMNS, not in both."


def _column_parts() -> Iterator[str]:
    blocks = _blocks()
    for kind, columns in COLUMNS.items():
        yield f"### {kind}"
        yield _table(
            ("column", "meaning"), ((f"`{name}`", blocks[block]) for name, block in columns.items())
        )


# Profile and commands


def _profile_rows() -> Iterator[Sequence[str]]:
    text = inspect.getdoc(SparkCdcCredentials) or ""
    attributes = re.split(r"\n    (?=\w+:)", text.partition("Attributes:")[2])[1:]
    defaults = {field.name: field.default for field in dataclasses.fields(SparkCdcCredentials)}
    for attribute in attributes:
        name, _, meaning = attribute.partition(":")
        shown = "required" if name == "schema" else _profile_default(defaults[name])
        yield f"`{name}`", shown, " ".join(meaning.split())


def _profile_default(value: object) -> str:
    """A default as YAML has it; nothing for a field that is unset, or whose default is computed."""
    if isinstance(value, str):
        return f"`{value}`"
    return f"`{json.dumps(value)}`" if isinstance(value, bool | int) else ""


def _command_parts(path: str, group: click.Group) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        if command.hidden:
            continue
        if isinstance(command, click.Group):
            yield from _command_parts(f"{path} {name}", command)
            continue
        arguments = [p for p in command.params if isinstance(p, click.Argument)]
        words = [_metavar(argument) for argument in arguments]
        yield f"### `{' '.join([path, name, *words])}`"
        yield from (" ".join(text.split()) for text in (command.help or "").split("\n\n"))
        options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
        yield _table(("option", "default", "meaning"), (_option_row(option) for option in options))


def _metavar(argument: click.Argument) -> str:
    word = (argument.name or "").upper()
    return word if argument.required else f"[{word}]"


def _option_row(option: click.Option) -> Sequence[str]:
    """Names, default and meaning; a default may be told at the end of the help."""
    meaning, _, told = (option.help or "").partition(" [default: ")
    plain = isinstance(option.default, str | int | float) and not option.is_flag
    default = f"`{option.default}`" if plain and option.default != "" else told.removesuffix("]")
    return _code_list(option.opts), default, meaning


# Markdown


def _code_list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    # A bar inside a cell would end it; those of the pages are escaped there already.
    cells = ([re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row] for row in [header, *rows])
    head, *body = ("| " + " | ".join(row) + " |" for row in cells)
    return "\n".join([head, "|" + "---|" * len(header), *body])


def main(arguments: Mapping[str, bool], file: Path = ROOT / PAGE) -> int:
    """Writes or checks the page; returns the exit code.

    Args:
        arguments: `check`: write nothing, and return 1 if the page is not up to date.
        file: The page.
    """
    try:
        text = page()
    except Incomplete as exc:
        print(f"reference: {exc}", file=sys.stderr)
        return 2
    if arguments["check"]:
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            print(
                f"{PAGE} is out of date: run `python scripts/reference.py` and commit it.",
                file=sys.stderr,
            )
            return 1
        return 0
    file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if outdated")
    sys.exit(main(vars(parser.parse_args())))
