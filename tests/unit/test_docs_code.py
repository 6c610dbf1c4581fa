"""The code in the documentation: each piece is checked, and each is run somewhere or excused."""

from __future__ import annotations

import configparser
import csv
import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import sqlglot
import tomllib
import yaml
from click.testing import CliRunner
from dbt.adapters.sparkcdc.credentials import SparkCdcCredentials
from dbt.cli.main import cli as dbt
from jinja2 import Environment, nodes
from sqlfluff.core import FluffConfig, Linter

from bench import at_scale
from cluster.__main__ import main as cluster
from dbt_spark_cdc.cli import main as cdc
from dbt_spark_cdc.observe.charts import read_declaration
from tests.functional import test_docs_code as running
from tests.pages import ROOT, WORD_FOR_WORD, Code, codes, codes_of, commands

CODES = codes()
NAMES = {code.key for code in CODES}
MACRO = re.compile(r"\{%-? *macro +(\w+) *\((.*?)\) *-?%\}", re.DOTALL)
# Programs that pages call beside ours: the shell's own, and those that a reader has.
PROGRAMS = {".", "cd", "echo", "eval", "exec", "exit", "export", "flock", "jq", "set", "source"}
PROGRAMS |= {"node_exporter"}
# What an argument of a page stands for, where the command looks at it before it runs.
PLACES = ("changes/", "customers.csv", "target_before", "shop/dbt_project.yml", "orders.jsonl.gz")


@pytest.fixture(autouse=True)
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a reader, with the files that commands name."""
    for place in PLACES:
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if "." not in path.name and place != "shop" else path.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path))
    return tmp_path


# ---- commands


def parsed(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Lets a command of click read its arguments, and nothing more."""
    name = command.name or ""
    context = command.make_context(name, list(words), parent=parent)
    if isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if rest:
            _, under, rest = command.resolve_command(context, rest)
            assert under is not None
            parsed(under, rest, context)


def command_problem(words: list[str]) -> str:
    """What is wrong with a command of a page; empty if nothing is."""
    name, arguments = words[0].rpartition("/")[2], words[1:]
    try:
        if name == "dbt":
            parsed(dbt, arguments)
            return operation_problem(arguments) if arguments[:1] == ["run-operation"] else ""
        if name == "cdc":
            if arguments:  # without any it shows its help
                parsed(cdc, arguments)
            return ""
        if arguments[:2] == ["-m", "cluster"]:
            parsed(cluster, arguments[2:])
            return ""
    except click.exceptions.Exit as exc:  # the help, which ends well
        return "" if exc.exit_code == 0 else str(exc)
    except click.ClickException as exc:
        return exc.format_message()
    if name == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return "" if arguments[0] in targets else f"make has no target {arguments[0]}"
    if name == "pip":
        return installed_problem(arguments)
    if name in ("python", "python3"):
        return module_problem(arguments)
    return "" if name in PROGRAMS else f"{name} is no program that pages call"


def operation_problem(words: list[str]) -> str:
    """What is wrong with a `run-operation`: the macro, or an argument."""
    known = signatures()
    name = words[1]
    if name not in known:
        return f"there is no operation {name}"
    given = yaml.safe_load(words[words.index("--args") + 1]) if "--args" in words else {}
    surplus = sorted(set(given) - set(known[name]))
    return f"{name} takes no {', '.join(surplus)}" if surplus else ""


def installed_problem(words: list[str]) -> str:
    """What is wrong with a `pip install` of this project: an extra that there is not."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = re.fullmatch(r"(?:\.{1,2}/)?dbt-spark-cdc(?:\[(\w+)])?", words[1])
    if not named:
        return f"{words[1]} is not this project"
    return f"there is no extra {named[1]}" if named[1] and named[1] not in extras else ""


def module_problem(words: list[str]) -> str:
    """What is wrong with `python -m`: the module, or an option that it does not have."""
    assert words[0] == "-m", words
    if words[1] == "venv":
        return ""
    if words[1] == "bench.at_scale":
        try:
            return "" if at_scale.main(words[2:]) == 0 else "it failed"
        except SystemExit:
            return "bench.at_scale does not take this"
    found = importlib.util.find_spec(words[1])
    if found is None or found.origin is None:
        return f"there is no module {words[1]}"
    texts = Path(found.origin).parent.glob("*.py")
    text = "\n".join(file.read_text(encoding="utf-8") for file in texts)
    unknown = [word for word in words if word.startswith("--") and f'"{word}"' not in text]
    return f"{words[1]} takes no {', '.join(unknown)}" if unknown else ""


def signatures() -> dict[str, list[str]]:
    """The arguments of each macro of the package."""
    found = {}
    for file in ROOT.glob("macros/**/*.sql"):
        for name, text in MACRO.findall(file.read_text(encoding="utf-8")):
            parts = (part.partition("=")[0].strip() for part in text.split(","))
            found[name] = [part for part in parts if part]
    return found


# ---- SQL


def macro_problems(text: str) -> Iterator[str]:
    """Calls of macros of the package that it does not have, or not with these arguments."""
    known = signatures()
    for call in Environment().parse(text).find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and getattr(call.node.node, "name", "") == "cdc":
            name = call.node.attr
            if name not in known:
                yield f"there is no macro cdc.{name}"
                continue
            given = [keyword.key for keyword in call.kwargs]
            if len(call.args) + len(given) > len(known[name]) or set(given) - set(known[name]):
                yield f"cdc.{name} takes {', '.join(known[name])}"


def rendered(text: str) -> str:
    """The SQL of a model, with the names of tables in place of what macros give."""

    class Package:
        def __getattr__(self, name: str) -> Callable[..., str]:
            return lambda *_, **__: "select * from a_table"

    context = {
        "cdc": Package(),
        "config": lambda **_: "",
        "is_incremental": lambda: True,
        "ref": lambda name: name,
        "source": lambda source, table: f"{source}.{table}",
        "this": "this_table",
    }
    return Environment().from_string(text).render(context)


def sql_problem(text: str) -> str:
    """What Spark's parser would say of a statement."""
    try:
        parsed = sqlglot.parse(rendered(text), dialect="spark")
    except sqlglot.errors.ParseError as exc:
        return str(exc)
    unknown = [one.sql() for one in parsed if isinstance(one, sqlglot.exp.Command)]
    return f"not understood: {unknown}" if unknown else ""


# ---- files


def declarations(document: Any) -> Iterator[dict[str, Any]]:
    """Everything under `meta.cdc` in a YAML document."""
    if isinstance(document, dict):
        if isinstance(document.get("meta"), dict) and "cdc" in document["meta"]:
            yield document["meta"]["cdc"]
        for value in document.values():
            yield from declarations(value)
    elif isinstance(document, list):
        for value in document:
            yield from declarations(value)


def known_options() -> set[str]:
    source = (ROOT / "macros/declare/_declaration_problems.sql").read_text(encoding="utf-8")
    listed = source.partition("set known = [")[2].partition("]")[0]
    return set(re.findall(r'"(\w+)"', listed))


def yaml_problem(text: str) -> str:
    document = yaml.safe_load(text)
    if not isinstance(document, (dict, list)):
        return "no mapping and no list"
    for declaration in declarations(document):
        if unknown := set(declaration) - known_options():
            return f"no options of a declaration: {', '.join(sorted(unknown))}"
    return ""


def check_shell(code: Code) -> str:
    if code.text.startswith("#!") and (bash := shutil.which("bash")):
        ran = subprocess.run([bash, "-n"], input=code.text, capture_output=True, text=True)
        if ran.returncode:
            return ran.stderr
    found = list(commands(code.text, prompt=code.language == "console"))
    problems = [problem for words in found if (problem := command_problem(words))]
    return "; ".join(problems) if found else "no command"


def check_sql(code: Code) -> str:
    problems = list(macro_problems(code.text))
    if code.key not in running.NOT_RUN:
        problems += [problem] if (problem := sql_problem(code.text)) else []
    return "; ".join(problems)


def check_yaml(code: Code) -> str:
    return yaml_problem(code.text)


def check_json(code: Code) -> str:
    json.loads(code.text.replace(", ...", ""))
    return ""


def check_labelled(code: Code) -> str:
    for value in re.split(r"^\w+ +", code.text, flags=re.MULTILINE)[1:]:
        json.loads(value)
    return ""


def check_python(code: Code) -> str:
    compile(code.text, code.key, "exec")
    return ""


def check_rows(code: Code) -> str:
    lines = code.text.strip().split("\n")
    apart = re.compile(r"  +")
    table = code.language == "table"
    found = [apart.split(line) for line in lines] if table else list(csv.reader(lines))
    return "" if len({len(row) for row in found}) == 1 else "rows of different width"


def check_ini(code: Code) -> str:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(code.text)
    if code.file != ".sqlfluff":
        return "" if parser.sections() else "no section"
    defaults = configparser.ConfigParser()
    defaults.read(ROOT / "src/dbt_spark_cdc/sqlfluff_rules/defaults.cfg")
    ours = {option for section in defaults.sections() for option in defaults[section]}
    said = {o for s in parser.sections() if s.startswith("sqlfluff:rules") for o in parser[s]}
    return "" if said <= ours else f"no options of the rules: {', '.join(sorted(said - ours))}"


def check_crontab(code: Code) -> str:
    jobs = [line for line in code.text.strip().split("\n") if "=" not in line.partition(" ")[0]]
    times = [line.split(maxsplit=5)[:5] for line in jobs]
    every = re.compile(r"[\d*/,-]+")
    return "" if all(every.fullmatch(part) for time in times for part in time) else "no times"


CHECKS: dict[str, Callable[[Code], str]] = {
    "console": check_shell,
    "crontab": check_crontab,
    "csv": check_rows,
    "ini": check_ini,
    "json": check_json,
    "labelled json": check_labelled,
    "python": check_python,
    "shell": check_shell,
    "sql": check_sql,
    "table": check_rows,
    "yaml": check_yaml,
}
# These are run by tests/functional/test_docs_code.py, or that says why not. Commands and the
# examples of the formats it finds by itself.
PLACED = {"labelled json", "python", "sql", "yaml"}


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.key)
def test_every_piece_of_code_is_what_it_should_be(code: Code) -> None:
    assert code.language in CHECKS, f"{code.key}: nothing says what this is"
    assert CHECKS[code.language](code) == ""


def homes(code: Code) -> list[str]:
    """Where a piece of code is run or excused."""
    there = {"files": running.FILES, "queries": running.QUERIES, "not run": running.NOT_RUN}
    found = [name for name, keys in there.items() if code.key in keys]
    found += ["word for word"] if code.page in WORD_FOR_WORD else []
    return found + (["queries"] if code.key == running.VIEW else [])


def test_every_piece_of_code_is_run_or_excused() -> None:
    placed = [code for code in CODES if code.language in PLACED]
    assert len(placed) > 60
    assert [code.key for code in placed if len(homes(code)) != 1] == []


def test_what_is_said_of_code_is_said_of_code_that_is_there() -> None:
    said = [*running.FILES, *running.QUERIES, *running.NOT_RUN, running.VIEW]
    assert [key for key in said if key not in NAMES] == []
    named = {word for reason in running.NOT_RUN.values() for word in reason.split()}
    files = {word.strip(",;") for word in named if "/" in word}
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_pages_that_are_run_word_for_word_have_their_tests() -> None:
    for page, file in WORD_FOR_WORD.items():
        assert Path(page).name in (ROOT / file).read_text(encoding="utf-8")


def test_operations_have_their_place_in_the_order() -> None:
    assert len(running.operations("a run")) > 12
    assert {"doctor", "status", "explain"} <= {words[0] for words in running.printing()}


def test_each_format_shows_an_event() -> None:
    for page in (ROOT / "docs/formats").glob("*.md"):
        assert page.stem in running.MESSAGES or page.stem == "wal2json_v2", page.stem
    assert all(running.events_of(name) for name in running.MESSAGES)


# ---- what needs no warehouse


def code(key: str) -> Code:
    return next(code for code in CODES if code.key == key)


def test_the_part_of_a_mart_is_in_that_mart() -> None:
    mart = (ROOT / "models/marts/segments_over_time.sql").read_text(encoding="utf-8")
    assert " ".join(code("docs/marts.md: from moments").text.split()) in " ".join(mart.split())


def test_the_chart_of_the_page_is_one() -> None:
    (model,) = yaml.safe_load(code("docs/cli.md: models:").text)["models"]
    assert read_declaration(model)[1] == []


@pytest.mark.parametrize("key", ["README.md: my_profile:", "docs/adapter.md: profiles.yml"])
def test_profiles_have_fields_that_exist(key: str) -> None:
    (profile,) = yaml.safe_load(code(key).text).values()
    fields = dict(profile["outputs"][profile["target"]])
    assert fields.pop("type") == "sparkcdc" and fields.pop("threads")
    SparkCdcCredentials(**fields)


def test_alerts_ask_for_metrics_that_exist() -> None:
    alerts = yaml.safe_load(code("docs/metrics.md: cdc_alerts.yml").text)
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    asked = {
        name
        for group in alerts["groups"]
        for rule in group["rules"]
        for name in re.findall(r"\bcdc_\w+", rule["expr"])
    }
    assert len(asked) == 3 and [name for name in asked if f"| `{name}` |" not in page] == []


def test_the_control_table_gives_the_files_of_the_page(reader: Path) -> None:
    table, columns = (
        next(c.text for c in CODES if c.key == f"docs/generate.md: {first}")
        for first in (
            "table_name,system,schema,format,keys,columns,group",
            "table_name,column_name,data_type,description",
        )
    )
    output = code("docs/generate.md: $ cdc generate").text.split("\n")[1:]
    (reader / "dbt_project.yml").write_text("name: shop\n")
    (reader / "seeds").mkdir()
    (reader / "seeds/cdc_tables.csv").write_text(table)
    ran = CliRunner().invoke(cdc, ["generate"])
    assert ran.exit_code == 0, ran.output
    assert [line for line in output if line not in ("", "...") and line not in ran.output] == []
    # The same columns from a file of their own.
    (reader / "seeds/cdc_columns.csv").write_text(columns)
    cells = table.replace('"id int, name string, balance decimal(12,2)"', "")
    (reader / "seeds/cdc_tables.csv").write_text(cells)
    ran = CliRunner().invoke(cdc, ["generate"])
    assert ran.exit_code == 0, ran.output
    declared = (reader / "models/sources/shop__customers.yml").read_text()
    assert "Number of the customer." in declared


def test_a_described_file_is_declared_as_on_the_page(reader: Path) -> None:
    (reader / "employees.csv").write_text(
        "flag,emp_no,salary,hired,seq\n"
        "I,1,10.50,2026-01-01,1\n"
        "U,1,11.00,2026-01-01,2\n"
        "D,1,11.00,2026-01-01,3\n"
    )
    ran = CliRunner().invoke(cdc, ["describe", "employees.csv"])
    assert ran.exit_code == 0, ran.output
    shown = code("docs/describe.md: # employees.csv: flagged, likely").text
    declared = ran.output.partition("\n-- models/")[0]
    assert yaml.safe_load(declared) == yaml.safe_load(shown)
    comments = [line for line in shown.split("\n") if line.startswith("#")]
    assert [line for line in comments if line not in ran.output] == []


def test_the_linter_takes_the_configuration_of_the_page(reader: Path) -> None:
    settings = [c.text for c in CODES if c.file == ".sqlfluff"]
    (reader / ".sqlfluff").write_text("\n".join(settings))
    (reader / "sqlfluff_library").mkdir()
    for file in (c for c in CODES if c.file.startswith("sqlfluff_library/")):
        (reader / file.file).write_text(file.text)
    model = reader / "model.sql"
    model.write_text(
        "select id from {{ ref('events') }}\n"
        "where updated_at > (select max(updated_at) from {{ this }})\n"
        "union all {{ cdc.events(source('a', 'b')) }}\n"
        "union all {{ dbt_utils.deduplicate(ref('a'), 'b', 'c') }}\n"
    )
    linted = Linter(config=FluffConfig.from_path(str(model))).lint_paths((str(model),))
    found = {one["code"] for file in linted.as_records() for one in file["violations"]}
    assert {"CDC_RD01", "CDC_NU01"} <= found and not found & {"TMP", "PRS"}


# ---- the checks can fail


@pytest.mark.parametrize(
    ("language", "text", "problem"),
    [
        ("shell", "cdc status --jsn", "--jsn"),
        ("shell", "dbt build --selct a", "--selct"),
        ("shell", "FOO=1 .venv/bin/dbt biuld", "biuld"),
        ("shell", "cd a && make buidl", "buidl"),
        ("shell", "dbt run-operation cdc_vacum", "cdc_vacum"),
        ("shell", "dbt run-operation cdc_vacuum --args '{hours: 1}'", "takes no hours"),
        ("shell", "pip install 'dbt-spark-cdc[all]'", "no extra all"),
        ("shell", "python -m bench.at_skale", "no module"),
        ("shell", "python -m bench.at_scale --tabels 1", "does not take this"),
        ("shell", "curl x", "no program"),
        ("console", "no prompt", "no command"),
        ("sql", "select a fron b where", ""),
        ("sql", "select * from ({{ cdc.as_of(ref('a'), seqence=3) }})", "cdc.as_of takes"),
        ("sql", "{{ cdc.event(source('a', 'b')) }}", "no macro cdc.event"),
        ("yaml", "config: {meta: {cdc: {formt: flagged}}}", "formt"),
        ("csv", "a,b\n1", "width"),
        ("crontab", "every day ./run", "no times"),
    ],
)
def test_what_is_wrong_is_found(language: str, text: str, problem: str) -> None:
    found = CHECKS[language](Code("page", "page: x", language, "", text))
    assert found != "" and problem in found


def test_new_code_needs_a_home(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        "Text.\n\n    select 1\n\nMore.\n\n```yaml\n# a.yml\nb: 1\n```\n\n    ???\n\n"
        "    -- models/a.sql\n    select 1\n\n    # b.yml\n    c: 1\n"
    )
    found = list(codes_of(Path("page.md"), tmp_path))
    assert [(one.language, one.file) for one in found] == [
        ("sql", ""),
        ("yaml", "a.yml"),
        ("", ""),
        ("sql", "models/a.sql"),
        ("yaml", "b.yml"),
    ]
    assert [homes(one) for one in found] == [[]] * 5
