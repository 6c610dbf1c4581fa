"""The rules for sqlfluff: which SQL they report, and that their own examples are right."""

from __future__ import annotations

import importlib.metadata
import re
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest
from sqlfluff.core import FluffConfig, Linter
from sqlfluff.core.rules import get_ruleset
from sqlfluff.core.rules.base import BaseRule
from sqlfluff.utils.testing.rules import RuleTestCase, load_test_cases

ROOT = Path(__file__).resolve().parents[3]
NAMES, CASES = load_test_cases(str(Path(__file__).parent / "cases" / "*.yml"))
# What a project has that lints its models without dbt: something in place of each macro.
LIBRARY = "def deduplicate(*args, **kwargs):\n    return 'select 1 as id'\n"
EXAMPLE = re.compile(
    r"\*\*Anti-pattern\*\*.*?\.\. code-block:: (?P<wrong>.*?)"
    r"\*\*Best practice\*\*.*?\.\. code-block:: (?P<right>.*)",
    re.DOTALL,
)


def rules() -> dict[str, type[BaseRule]]:
    """The rules that sqlfluff found in the installed wheel, by code."""
    register = get_ruleset()._register
    return {code: entry.rule_class for code, entry in register.items() if code.startswith("CDC_")}


def lint(folder: Path, sql: str, **core: str) -> list[tuple[str, int]]:
    """Codes and lines of what is reported in a model of a project with its own .sqlfluff.

    Args:
        folder: Where to make the project; each in a folder of its own, for sqlfluff remembers them.
        sql: The model.
        **core: Options of the section `sqlfluff`.
    """
    options = {"dialect": "sparksql", "templater": "jinja", "rules": "cdc", **core}
    lines = [f"{key} = {value}" for key, value in options.items()]
    folder = Path(tempfile.mkdtemp(dir=folder))
    (folder / ".sqlfluff").write_text(
        "[sqlfluff]\n" + "\n".join(lines) + "\n[sqlfluff:templater:jinja]\nlibrary_path = library\n"
    )
    (folder / "library").mkdir()
    (folder / "library" / "dbt_utils.py").write_text(LIBRARY)
    (folder / "model.sql").write_text(sql)
    linter = Linter(config=FluffConfig.from_path(str(folder / "model.sql")))
    found = linter.lint_paths((str(folder / "model.sql"),)).get_violations()
    return [(violation.rule_code(), violation.line_no) for violation in found]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sqlfluff also reads the configuration of the working directory: not the repository's."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_case(case: RuleTestCase) -> None:
    case.evaluate()


def test_the_entry_point_is_installed() -> None:
    found = importlib.metadata.entry_points(group="sqlfluff", name="dbt_spark_cdc")
    assert [entry.value for entry in found] == ["dbt_spark_cdc.sqlfluff_rules"]


def test_every_rule_has_cases_that_fail_and_that_pass() -> None:
    failing = {case.rule for case in CASES if case.fail_str}
    passing = {case.rule for case in CASES if case.pass_str}
    assert failing == passing == set(rules()) and len(rules()) == 9


def block(text: str) -> str:
    """The SQL of a `code-block`, after its language and options."""
    lines = [line for line in text.split("\n")[1:] if line.strip() != ":force:"]
    return textwrap.dedent("\n".join(lines)).strip() + "\n"


@pytest.mark.parametrize("code", sorted(rules()))
def test_the_examples_of_a_rule_are_what_it_says(code: str, tmp_path: Path) -> None:
    examples = EXAMPLE.search(rules()[code].__doc__ or "")
    assert examples
    wrong, right = block(examples["wrong"]), block(examples["right"])
    assert code in [found for found, _ in lint(tmp_path, wrong)]
    # Nothing else is wrong with it either: neither by our rules nor for the parser.
    assert lint(tmp_path, right) == []


MODEL = """\
{{ config(materialized='incremental', unique_key='id') }}

with events as (

    {{ dbt_utils.deduplicate(
        relation=ref('events'),
        partition_by='id',
        order_by='lsn desc',
    ) }}

)

select *
from events
{% if is_incremental() %}
    where updated_at > (select max(updated_at) from {{ this }})
{% endif %}
"""


def test_a_dbt_model_is_linted_without_dbt(tmp_path: Path) -> None:
    assert lint(tmp_path, MODEL) == [("CDC_NU01", 5), ("CDC_RD01", 16)]


def test_a_macro_with_a_safe_body_is_not_reported(tmp_path: Path) -> None:
    assert lint(tmp_path, MODEL, dialect="databricks") == [("CDC_RD01", 16)]


def test_what_a_macro_renders_is_not_reported(tmp_path: Path) -> None:
    macro = "{% macro numbered() %}row_number() over (partition by id order by ts){% endmacro %}"
    assert lint(tmp_path, macro + "\nselect {{ numbered() }} as n from events\n") == []
    join = "{% macro both() %}a natural join b{% endmacro %}"
    assert lint(tmp_path, join + "\nselect a.id from {{ both() }}\n") == []


@pytest.mark.parametrize("chosen", ["cdc.watermark", "CDC_RD01"])
def test_rules_are_chosen_by_name_or_code(tmp_path: Path, chosen: str) -> None:
    assert lint(tmp_path, MODEL, rules=chosen) == [("CDC_RD01", 16)]
    assert lint(tmp_path, MODEL, exclude_rules=chosen) == [("CDC_NU01", 5)]


def test_the_page_lists_every_rule_and_option() -> None:
    page = (ROOT / "docs" / "sqlfluff.md").read_text(encoding="utf-8")
    rows: dict[str, Any] = dict(re.findall(r"^\| `(CDC_\w+)` \| `([\w.]+)` \|", page, re.MULTILINE))
    assert rows == {code: rule.name for code, rule in rules().items()}
    options = {option for rule in rules().values() for option in rule.config_keywords}
    listed = set(re.findall(r"^\| `(cdc_\w+)` \|", page, re.MULTILINE))
    assert listed == options and len(options) == 5
