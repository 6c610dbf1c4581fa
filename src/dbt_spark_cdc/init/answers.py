"""The options of `cdc init`, and what is wrong with them by themselves."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from dbt_spark_cdc import words
from dbt_spark_cdc.generate.sql_expression import fault
from dbt_spark_cdc.init.files import Package
from dbt_spark_cdc.project import BadProject, project_settings
from dbt_spark_cdc.samples.describe import identifier_of
from dbt_spark_cdc.samples.records import RECORDS

_RESERVED_NAMES = ("cdc", "dbt", "dbt_spark")
_RELATION = re.compile(r"[A-Za-z_]\w*\.(?=.*\w)(\w|\{table\})+", re.ASCII)
_GIT = re.compile(
    r"(?:git\+)?(?P<address>(?:https?|ssh|git|file)://\S+?|git@\S+?)(?:@(?P<tag>[^@/:]+))?"
)
_ARCHIVE = re.compile(r"https?://\S+\.tar\.gz")
_SOURCES = ("--events", "--ddl", "--postgres", "--table")


@dataclass(frozen=True)
class Answers:
    """What the options of `cdc init` say, and what was answered.

    Attributes:
        folder: Folder of the project.
        events: File or folder of change events.
        ddl: Schema dump.
        postgres: Whether to ask the database of PostgreSQL's environment variables.
        table: A table of the warehouse that holds change events.
        raw_table: Table that holds the events; empty: they are landed from files.
        payload: Column of the raw table that holds the event's text.
        format: Change format.
        name: Name of the project.
        system: Name of the dbt source.
        schema: Schema that dbt builds in.
        warehouse: Folder of the tables.
        package: Folder or git address of the dbt package.
        only: Tables to take; empty: all.
        keys: Keys, each `TABLE=COLUMN,COLUMN` or without the table.
        sequence_by: What orders the events, each `TABLE=EXPRESSION` or without the table.
        operation: Column of the flag, for the format flagged.
        limit: Records to read at most.
    """

    folder: Path
    events: Path | None = None
    ddl: Path | None = None
    postgres: bool = False
    table: str = ""
    raw_table: str = ""
    payload: str = ""
    format: str = ""
    name: str = ""
    system: str = ""
    schema: str = ""
    warehouse: str = ""
    package: str = ""
    only: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    operation: str = ""
    limit: int = RECORDS

    @property
    def looks_at(self) -> list[str]:
        """The options that say what to look at."""
        given = (self.events is not None, self.ddl is not None, self.postgres, bool(self.table))
        return [option for option, is_given in zip(_SOURCES, given, strict=True) if is_given]

    @property
    def project_name(self) -> str:
        """The project's name: the folder's, unless another was given."""
        return self.name or identifier_of(self.folder.resolve().name.replace(".", "_"))


class Problem(NamedTuple):
    """A wrong or missing answer.

    Attributes:
        option: The option that it belongs to.
        text: What is wrong, with the remedy.
        table: The table that it is about; empty for none.
        columns: The columns that the table has.
    """

    option: str
    text: str
    table: str = ""
    columns: tuple[str, ...] = ()


class BadAnswers(Exception):
    """All that is wrong with the answers."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(f"{p.option}: {p.text}" for p in self.problems))


def wrong_answers(answers: Answers) -> Iterator[Problem]:
    """Yields what is wrong before anything is looked at.

    Args:
        answers: Options and answers.
    """
    yield from _wrong_names(answers)
    yield from _wrong_options(answers)
    yield from _taken(answers)


def _wrong_names(answers: Answers) -> Iterator[Problem]:
    name = answers.project_name
    if not words.is_identifier(name) or name.lower() in _RESERVED_NAMES:
        given = "" if answers.name else ", from the folder's name,"
        yield Problem(
            "--name",
            f"`{name}`{given} is not a valid name of a dbt project. Use letters, digits and "
            "underscores, no digit first, and none of "
            f"{', '.join(_RESERVED_NAMES)}, which are packages.",
        )
    for option, given in (("--system", answers.system), ("--schema", answers.schema)):
        if given and not words.is_identifier(given):
            yield Problem(
                option,
                f"`{given}` is not a valid name. Use letters, digits and underscores, and no digit "
                "first.",
            )


def _wrong_options(answers: Answers) -> Iterator[Problem]:
    given = answers.looks_at
    if len(given) != 1:
        said = f"{' and '.join(given)} are given" if given else "there is no input"
        yield Problem(
            given[1] if given else "--events",
            f"{said}. Name one: --events FILE_OR_FOLDER (change events), --ddl FILE (a schema "
            "dump), --postgres (a live database) or --table SCHEMA.TABLE (a table of events).",
        )
    if answers.format and answers.format not in words.FORMATS:
        yield Problem(
            "--format",
            f"unknown format `{answers.format}`. The formats are {', '.join(words.FORMATS)}.",
        )
    if answers.operation and answers.format not in ("", "flagged"):
        yield Problem(
            "--operation",
            f"it names the column of the flag, which the format {answers.format} does not have. "
            "Leave it out, or write --format flagged.",
        )
    if answers.raw_table and not _RELATION.fullmatch(answers.raw_table):
        yield Problem(
            "--raw-table",
            f"`{answers.raw_table}` is not a table name. Write SCHEMA.TABLE; {{table}} stands for "
            "the name of each table.",
        )
    if answers.raw_table and answers.table:
        yield Problem("--raw-table", "--table names the raw table already. Leave --raw-table out.")
    if answers.payload and not answers.raw_table:
        yield Problem(
            "--payload", "it names a column of --raw-table, which is not given. Name both, or none."
        )
    if answers.table and not re.fullmatch(r"\w+\.\w+", answers.table):
        yield Problem("--table", f"`{answers.table}` is not a table name. Write SCHEMA.TABLE.")
    if answers.table and not warehouse_of(answers).is_dir():
        yield Problem(
            "--warehouse",
            f"{warehouse_of(answers)} is not a folder. Name the folder that holds the table "
            f"{answers.table}: `warehouse` of the profile that wrote it.",
        )
    if "://" in answers.warehouse:
        yield Problem(
            "--warehouse",
            f"{answers.warehouse} is an address. Start with a folder, and put the address into "
            "profiles.yml later, as `warehouse`, with a folder for `metastore` beside it, and with "
            "Hadoop's connector of the store in `spark.jars.packages` of `server_side_parameters`.",
        )
    if "'" in answers.warehouse or '"' in answers.warehouse:
        yield Problem("--warehouse", f"`{answers.warehouse}` holds a quote. Choose another folder.")
    for text in answers.sequence_by:
        expression = of_table(text)[1]
        if found := fault(expression):
            yield Problem("--sequence-by", f"`{expression}`: {found}.")


def warehouse_of(answers: Answers) -> Path:
    """Returns the folder of the tables, which may be relative to the project.

    Args:
        answers: Options and answers.
    """
    return (answers.folder / Path(answers.warehouse or "warehouse").expanduser()).resolve()


def _taken(answers: Answers) -> Iterator[Problem]:
    """Whether the folder is free but for hidden files, an environment and what is looked at."""
    folder = answers.folder
    if folder.exists() and not folder.is_dir():
        yield Problem("FOLDER", f"{folder} is a file. Name an empty or a new folder.")
        return
    own = {path.resolve() for path in (answers.events, answers.ddl) if path}
    if answers.table:
        own.add(warehouse_of(answers))
    there = sorted(folder.iterdir()) if folder.is_dir() else []
    names = [
        path.name
        for path in there
        if path.name[0] != "."
        and not (path / "pyvenv.cfg").exists()
        and not any(path.resolve() in (mine, *mine.parents) for mine in own)
    ]
    if names:
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        yield Problem(
            "FOLDER",
            f"{folder.resolve()} is not empty: it holds {shown}. Name an empty or a new folder: "
            "cdc init FOLDER.",
        )


def of_table(text: str) -> tuple[str, str]:
    """Returns the table and the value of `TABLE=VALUE`; no table where the value is for all.

    Args:
        text: What an option says.
    """
    match = re.match(r"\s*(\w+)\s*=(?!=)(.*)", text, re.S)
    return (match[1], match[2].strip()) if match else ("", text.strip())


def package_of(answers: Answers, problems: list[Problem]) -> Package | None:
    """Returns where the dbt package is; None if that is wrong or nothing says.

    Args:
        answers: Options and answers.
        problems: Gets what is wrong.
    """
    given = answers.package or installed_package()
    if not given:
        problems.append(
            Problem(
                "--package",
                "nothing says where the dbt package is: dbt-spark-cdc was installed from a wheel "
                "or an index. Name the folder of the package, its git address with a tag "
                "(--package ADDRESS@TAG), or its archive on a web server (https://....tar.gz).",
            )
        )
        return None
    git = _GIT.fullmatch(given)
    if git is None:
        return _local_package(answers, given, problems)
    is_archive = _ARCHIVE.fullmatch(given) is not None
    if urlsplit(git["address"]).password:
        problems.append(
            Problem(
                "--package",
                f"the address of {urlsplit(git['address']).hostname} holds a password, which "
                "would be written into packages.yml. Leave it out, and let git ask for it.",
            )
        )
        return None
    if is_archive:
        return Package(given)
    if not git["tag"]:
        problems.append(
            Problem("--package", f"`{given}` names no revision. Write {given}@TAG or @COMMIT.")
        )
        return None
    return Package(git["address"], git["tag"])


def _local_package(answers: Answers, given: str, problems: list[Problem]) -> Package | None:
    folder = Path(given).expanduser()
    if not _is_package(folder):
        problems.append(
            Problem(
                "--package",
                f"{given} holds no dbt package `cdc`. Name the folder of its dbt_project.yml, or "
                "its git address with a tag: ADDRESS@TAG.",
            )
        )
        return None
    if "'" in given:
        problems.append(
            Problem(
                "--package", f"`{given}` holds a quote. Name it by another path, such as a link."
            )
        )
        return None
    if folder.is_absolute():
        return Package(folder.as_posix())
    # dbt takes it relative to the project.
    return Package(Path(os.path.relpath(folder.resolve(), answers.folder.resolve())).as_posix())


def installed_package() -> str:
    """Returns where the dbt package is that this wheel was installed with; empty if nothing says.

    A checkout has both. Otherwise pip notes the folder or the git address that it installed from.
    """
    checkout = Path(__file__).resolve().parents[3]
    if _is_package(checkout):
        return str(checkout)
    try:
        noted = json.loads(distribution("dbt-spark-cdc").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return ""
    address = str(noted.get("url") or "")
    if commit := (noted.get("vcs_info") or {}).get("commit_id"):
        return f"{address}@{commit}"
    folder = Path(unquote(urlsplit(address).path)) if address.startswith("file://") else None
    return str(folder) if folder and _is_package(folder) else ""


def _is_package(folder: Path) -> bool:
    try:
        return project_settings(folder).get("name") == "cdc"
    except BadProject:
        return False
