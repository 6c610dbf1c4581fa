"""The scripts behind the Makefile: what arrives when, what is reported, what the linter finds."""

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from dbt.adapters.sparkcdc.jvm import java
from rich.console import Console

from dbt_spark_cdc import invocation
from scripts import build, docs, lint_sql

ROOT = Path(__file__).resolve().parents[2]
SHELL = "/bin/sh"


def write(path: Path, text: str = "{}\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run_script(name: str, **env: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / name
    return subprocess.run([SHELL, str(script)], env=env, capture_output=True, text=True)


def fake_java(folder: Path, version: str) -> Path:
    binary = write(
        folder / "bin" / "java", f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n"
    )
    binary.chmod(0o755)
    return folder


def test_batches_are_ordered_by_number_and_other_files_are_left_out(tmp_path):
    for name in (
        "orders/batch_0010.jsonl.gz",
        "orders/batch_0002.jsonl.gz",
        "truth/orders.jsonl.gz",
    ):
        write(tmp_path / name)
    batches = build.captured(tmp_path)
    assert {number: [file.name for file in files] for number, files in batches.items()} == {
        2: ["batch_0002.jsonl.gz"],
        10: ["batch_0010.jsonl.gz"],
    }
    assert list(batches) == [2, 10]


def test_a_batch_waits_until_each_of_its_files_has_arrived(tmp_path):
    landing = tmp_path / "landing"
    for name in ("a/batch_0001.jsonl", "b/batch_0001.jsonl", "a/batch_0002.jsonl"):
        write(tmp_path / "data" / name)
    batches = build.captured(tmp_path / "data")
    assert build.waiting(batches, landing) == batches

    build.arrive(batches[1][:1], landing)
    assert build.waiting(batches, landing) == {1: batches[1][1:], 2: batches[2]}

    build.arrive(batches[1] + batches[2], landing)
    assert build.waiting(batches, landing) == {}
    assert sorted(file.name for file in landing.rglob("*.*")) == [
        "batch_0001.jsonl",
        "batch_0001.jsonl",
        "batch_0002.jsonl",
    ]


def test_a_file_that_changed_after_it_was_taken_is_refused(tmp_path):
    file = write(tmp_path / "data" / "orders" / "batch_0001.jsonl", "old")
    build.arrive([file], tmp_path / "landing")
    write(file, "new")
    with pytest.raises(SystemExit, match=r"orders/batch_0001\.jsonl.*make clean build"):
        build.waiting(build.captured(tmp_path / "data"), tmp_path / "landing")


def test_seconds_go_to_the_table_that_the_model_is_named_after():
    seconds = {
        "stg_shop__orders": 1.0,
        "orders_history": 2.0,
        "orders": 4.0,
        "stg_shop__order_lines": 8.0,
        "order_lines_quarantine": 16.0,
        "landing": 32.0,
    }
    assert build.per_table(seconds, ["orders", "order_lines"]) == {
        "orders": 7.0,
        "order_lines": 24.0,
    }


def test_the_table_adds_up_and_leaves_out_what_never_happened():
    counts = dict.fromkeys(build.COUNTS, 0)
    rows = [
        {"table_name": "orders", **counts, "events_read": 1200, "rows_now": 7},
        {"table_name": "stock", **counts, "events_read": 34, "versions": None},
    ]
    console = Console(width=100)
    with console.capture() as captured:
        console.print(build.audit_table(rows, {"orders": 1.5}))
    header, orders, stock, total = (line.split() for line in captured.get().splitlines())
    assert "superseded" not in header
    assert orders == ["orders", "1,200", "0", "0", "0", "7", "0", "1.5"]
    assert stock == ["stock", "34", "0", "0", "0", "0", "-", "0.0"]
    assert total == ["all", "1,234", "0", "0", "0", "7", "0", "1.5"]


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("success", None, "batch 1/4: 2 models ok in"),
        ("error", None, "batch 1/4: 2 of 2 failed, in"),
        ("success", "Runtime Error\n  no such [thing]", "batch 1/4: stopped after"),
    ],
)
def test_a_build_says_how_it_went(monkeypatch, status, error, expected):
    node = SimpleNamespace(name="orders", resource_type="model")
    result = SimpleNamespace(node=node, status=status, message="first\nsecond [x]")
    outcome = build.Outcome([result, result], error, ["old [setting]"])
    monkeypatch.setattr(build, "run_dbt", lambda arguments, on_event: outcome)
    console = Console(width=100)
    with console.capture() as captured:
        assert build.build(console, "batch 1/4", [], {"old"}).ok == (expected.endswith("ok in"))
    said = captured.get()
    assert expected in said
    assert "warning old [setting]" in said
    assert (error or "") in said
    assert ("model orders" in said and "second [x]" in said) == (status == "error")


def test_a_warning_is_printed_once(monkeypatch):
    monkeypatch.setattr(build, "run_dbt", lambda *_: build.Outcome([], None, ["unused path"]))
    console, known = Console(width=100), set()
    with console.capture() as captured:
        build.build(console, "batch 1/2", [], known)
        build.build(console, "batch 2/2", [], known)
    assert captured.get().count("unused path") == 1


@pytest.mark.parametrize("error", ["", "Parsing Error [x]"])
def test_a_build_ends_with_the_path_of_its_report(tmp_path, monkeypatch, error):
    monkeypatch.setattr(build, "ROOT", tmp_path)
    console = Console(width=100)
    with console.capture() as captured:
        build.write(console, error)
    if error:
        path = tmp_path / "target" / "cdc_report.html"
        assert captured.get() == f"Report: {path}\n"
        assert error in path.read_text()
    else:  # there is nothing to report
        assert "could not be written: There is no dbt_project.yml" in captured.get()


def test_asking_leaves_the_results_of_the_build(monkeypatch):
    asked = []
    runner = SimpleNamespace(
        invoke=lambda a: asked.append(a) or SimpleNamespace(exception=None, result=None)
    )
    monkeypatch.setattr(invocation, "dbtRunner", lambda **_: runner)
    build.run_dbt([*build.SHOW, "--inline", "select 1"])
    assert asked[0].index("--no-write-json") < asked[0].index("show")


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("{% macro m() %}\nSELECT 1\n{% endmacro %}\n", (2, "keyword SELECT is not in lower case")),
        ("select a\n    , b\n", (2, "comma at the start of a line")),
        ("select\ta\n", (1, "tab")),
        ("select a \n", (1, "trailing blanks")),
        ("select a", (1, "the file does not end in one newline")),
    ],
)
def test_faults_in_sql_are_found_where_they_stand(sql, fault):
    assert list(lint_sql.problems(sql)) == [fault]


def test_macros_do_not_ask_for_the_adapter():
    sql = "{% if target.type == 'spark' %}select 1{% endif %}\n"
    assert list(lint_sql.problems(sql)) == [(1, "target.type")]


def test_words_in_jinja_comments_and_quotes_are_no_keywords():
    sql = (
        "{# MERGE #}\n{% set text = 'SELECT' %}\n"
        "select 'I AND U', \"NULL\" as `ORDER` -- FROM here\n"
        "{% for c in columns %}, {{ c }}{% endfor %}\n"
    )
    assert list(lint_sql.problems(sql)) == []


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2", "21"])
def test_java_17_and_21_will_do(tmp_path, version):
    home = fake_java(tmp_path, version)
    assert run_script("check_java.sh", JAVA_HOME=str(home), PATH="/usr/bin:/bin").returncode == 0


def test_java_in_path_makes_up_for_a_bad_java_home(tmp_path):
    good = fake_java(tmp_path / "good", "17.0.1")
    path = f"{good / 'bin'}:/usr/bin:/bin"
    assert run_script("check_java.sh", JAVA_HOME=str(tmp_path), PATH=path).returncode == 0


def test_another_java_is_named_with_the_ways_out_that_the_adapter_names(tmp_path):
    home = fake_java(tmp_path, "1.8.0_392")
    path = f"{fake_java(tmp_path / 'path', '11.0.2') / 'bin'}:/usr/bin:/bin"
    done = run_script("check_java.sh", JAVA_HOME=str(home), PATH=path)
    assert done.returncode == 1
    assert f"{home}/bin/java is Java 1.8.0" in done.stderr
    assert "is Java 11.0.2" in done.stderr
    assert java.INSTALL in done.stderr


def test_a_python_that_does_not_fit_is_refused_with_the_ways_out(tmp_path):
    old = write(tmp_path / "python", "#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = run_script("find_python.sh", PYTHON=str(old), PATH="/usr/bin:/bin")
    assert done.returncode == 1
    assert re.search(r"Python 3\.10 to 3\.13 .* is needed", done.stderr)
    assert "apt-get install python3 python3-venv" in done.stderr


def test_what_holds_at_the_end_only_is_built_with_the_last_batch():
    before_last = ["--exclude", "tag:final"]
    assert build.selection(last=False, changed=True, built=False) == before_last
    assert build.selection(last=False, changed=True, built=True) == before_last
    assert build.selection(last=True, changed=True, built=True) == []


def test_with_nothing_new_only_edited_models_are_built_beside_the_way_of_the_data():
    assert build.selection(last=True, changed=False, built=False) == []
    assert "nothing_new" in build.selection(last=True, changed=False, built=True)


def test_files_put_into_the_landing_folder_by_hand_are_noticed(tmp_path, monkeypatch):
    landing, state = tmp_path / "landing", tmp_path / "state"
    write(landing / "orders" / "batch_0001.jsonl.gz")
    write(tmp_path / "target" / "manifest.json")
    assert not build.dropped_in(landing, state)  # nothing was built yet
    monkeypatch.setattr(build, "ROOT", tmp_path)
    build.remember(landing, state)
    assert not build.dropped_in(landing, state)
    write(landing / "orders" / "_half.jsonl.partial")
    assert not build.dropped_in(landing, state)
    write(landing / "orders" / "mine.jsonl")
    assert build.dropped_in(landing, state)
    build.remember(landing, state)
    write(landing / "orders" / "mine.jsonl", "{}\n{}\n")  # a replaced file has to be reported
    assert build.dropped_in(landing, state)


def test_tests_that_did_not_run_keep_what_they_said(tmp_path):
    def result(name, status, kind="test"):
        node = SimpleNamespace(unique_id=f"{kind}.p.{name}", resource_type=kind)
        return SimpleNamespace(node=node, status=status, message=None)

    file = tmp_path / "results.json"
    build.keep_results([result("a", "pass"), result("b", "fail"), result("m", "ok", "model")], file)
    build.keep_results([result("b", "pass"), result("u", "error", "unit_test")], file)
    kept = {key: said["status"] for key, said in json.loads(file.read_text()).items()}
    assert kept == {"test.p.a": "pass", "test.p.b": "pass", "unit_test.p.u": "error"}


def test_tables_and_columns_without_a_description_are_named():
    described = {"description": "It."}

    def node(kind, columns, **more):
        return {"resource_type": kind, "columns": columns, **described, **more}

    manifest = {
        "nodes": {
            "model.p.good": node("model", {"A": described}),
            "model.p.bad": node("model", {"a": described}, description=""),
            "seed.p.bad": node("seed", {"a": described}),
            "test.p.any": node("test", {}, description=""),
        },
        "sources": {"source.p.s.t": node("source", {"a": {"description": ""}})},
    }
    built = {"a": {}, "b": {}}
    catalog = {
        "nodes": {"model.p.good": {"columns": {"a": {}}}, "seed.p.bad": {"columns": built}},
        "sources": {"source.p.s.t": {"columns": {"value": {}}}},
    }
    assert list(docs.undescribed(manifest, catalog)) == [
        "model.p.bad has no description",
        "seed.p.bad has columns without a description: b",
        "source.p.s.t has columns without a description: a",
    ]


def test_files_in_trouble_are_named():
    told = build.troubles(
        [
            {"_table": "a", "_file": "a/x.gz", "lines": 17, "problem": "gzip file is cut off"},
            {"_table": "b", "_file": "b/y.jsonl", "lines": 1, "problem": None},
        ]
    )
    assert told[2:] == [
        "  a/x.gz: gzip file is cut off; 17 lines of it were read",
        "  b/y.jsonl: landed, but no source reads a table of the name b",
    ]
