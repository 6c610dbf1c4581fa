"""The loop of `cdc watch`: what it builds when, and when it ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from dbt.adapters.factory import reset_adapters

from dbt_spark_cdc import invocation
from dbt_spark_cdc import watch as watching
from dbt_spark_cdc.cli import main
from dbt_spark_cdc.invocation import Outcome, run_dbt
from dbt_spark_cdc.watch import (
    DbtProject,
    InputsUnknown,
    Pace,
    Watch,
    _listing,
    _project_files,
    printed,
)

GOOD = Outcome([], None, [])
BAD = Outcome([], "no", [])


class Clock:
    """Time that passes only in pauses."""

    def __init__(self, rounds: int) -> None:
        self.now = 0.0
        self.rounds = rounds
        self.waited: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.now += seconds
        self.rounds -= 1
        return self.rounds == 0


class Project:
    """Source tables whose states are listed by round, and outcomes by build."""

    def __init__(self, states: Sequence[object], outcomes: Sequence[Outcome] = ()) -> None:
        self.states = list(states)
        self.outcomes = list(outcomes)
        self.built: list[list[str]] = []

    def inputs(self) -> dict[str, str | None]:
        state = self.states.pop(0)
        if isinstance(state, Outcome):
            raise InputsUnknown(state)
        assert isinstance(state, dict)
        return state

    def build(self, selectors: Sequence[str]) -> Outcome:
        self.built.append(list(selectors))
        return self.outcomes.pop(0) if self.outcomes else GOOD


def run(project: Project, pace: Pace | None = None) -> tuple[bool, Clock]:
    clock = Clock(len(project.states))
    watch = Watch(project, pace or Pace(), lambda *_: None, clock.pause, clock)
    return watch.run(), clock


def test_everything_is_built_first_and_then_what_changed():
    one, two = {"a": "1", "b": "1"}, {"a": "1", "b": "2"}
    project = Project([one, one, two, two])
    assert run(project)[0]
    assert project.built == [[], ["b"]]


def test_a_build_takes_on_so_many_tables_and_the_longest_waiting_first():
    first = {name: "1" for name in "abc"}
    second = {name: "2" for name in "abc"}
    third = {"a": "3", "b": "2", "c": "2"}
    project = Project([first, second, third, third, third])
    _, clock = run(project, Pace(at_once=2))
    assert project.built == [[], ["a", "b"], ["c", "a"]]
    assert clock.waited == [0.0, 0.0, 0.0, 1.0, 1.0]


def test_a_backlog_is_built_without_pauses_beside_a_table_whose_state_is_unknown():
    first = {"a": None, "b": "1", "c": "1"}
    second = {"a": None, "b": "2", "c": "2"}
    project = Project([first, second, second, second, second])
    _, clock = run(project, Pace(at_once=1))
    assert project.built == [[], ["a"], ["b"], ["c"], ["a"]]
    assert clock.waited == [1.0, 0.0, 0.0, 1.0, 1.0]


def test_after_a_failure_a_build_takes_on_all_tables():
    first = {name: "1" for name in "abc"}
    second = {name: "2" for name in "abc"}
    project = Project([first, second, second, second], [GOOD, BAD, GOOD])
    run(project, Pace(at_once=1))
    assert project.built == [[], ["a"], ["a", "b", "c"]]


def test_what_arrives_during_a_build_is_built_next():
    states = {"a": "1"}
    project = Project([dict(states), {"a": "2"}, {"a": "2"}])
    run(project)
    assert project.built == [[], ["a"]]


def test_a_table_whose_state_is_unknown_is_built_each_time():
    project = Project([{"a": None, "b": "1"}] * 3)
    run(project)
    assert project.built == [[], ["a"], ["a"]]


def test_a_failed_build_is_repeated_after_longer_pauses_and_with_what_came_since():
    project = Project(
        [{"a": "1", "b": "1"}, {"a": "2", "b": "1"}, {"a": "2", "b": "2"}, {"a": "2", "b": "2"}],
        [GOOD, BAD, GOOD],
    )
    _, clock = run(project, Pace(interval=2.0))
    assert project.built == [[], ["a"], ["a", "b"]]
    assert clock.waited == [0.0, 4.0, 0.0, 2.0]


def test_builds_of_tables_whose_state_is_unknown_have_pauses_between_them():
    _, clock = run(Project([{"a": None, "b": "1"}] * 3), Pace(interval=2.0))
    assert clock.waited == [2.0] * 3


def test_a_first_build_that_fails_is_repeated_as_a_whole():
    project = Project([{"a": "1"}] * 3, [BAD, GOOD])
    run(project)
    assert project.built == [[], []]


def test_it_gives_up_after_failures_in_a_row():
    project = Project([{"a": "1"}] * 9, [BAD, BAD, BAD])
    ended, clock = run(project, Pace(most_failures=3))
    assert not ended
    assert len(project.built) == 3
    assert len(clock.waited) == 2


def test_a_first_look_that_fails_is_a_failure():
    project = Project([BAD, BAD, {"a": "1"}])
    ended, clock = run(project)
    assert ended and project.built == [[]]
    assert clock.waited == [2.0, 4.0, 0.0]


def test_a_look_that_fails_is_a_failure_and_no_reason_to_forget():
    project = Project([{"a": "1"}, BAD, {"a": "2"}])
    reported: list[Outcome] = []
    clock = Clock(3)
    watch = Watch(
        project, Pace(), lambda _, outcome, __: reported.append(outcome), clock.pause, clock
    )
    assert watch.run()
    assert reported == [GOOD, BAD, GOOD]
    assert project.built == [[], ["a"]]


def test_everything_is_built_again_after_a_while():
    project = Project([{"a": "1"}] * 5)
    run(project, Pace(interval=1.0, full_every=3.0))
    assert project.built == [[], []]


def test_files_that_appear_change_or_go_change_the_state_of_a_folder(tmp_path: Path):
    seen = [_listing(tmp_path)]
    file = tmp_path / "part" / "a.json"
    file.parent.mkdir()
    file.write_text("{}")
    seen.append(_listing(tmp_path))
    os.utime(file, ns=(1, 1))
    seen.append(_listing(tmp_path))
    (file.parent / "_b.json.partial").write_text("")
    assert _listing(tmp_path) == seen[-1]
    file.unlink()
    assert _listing(tmp_path) == seen[0]
    assert len(set(seen)) == 3


def test_only_what_dbt_reads_is_a_reason_to_parse_again(tmp_path: Path):
    ignored = ("target/manifest.sql", "logs/x.sql", "models/notes.txt", ".venv-2/lib/x.py")
    for name in ("models/a.sql", *ignored):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text("")
    assert [Path(path).name for path, _ in _project_files(tmp_path)] == ["a.sql"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_build_is_a_line(as_json: bool, capsys: pytest.CaptureFixture[str]):
    node = SimpleNamespace(name="orders", resource_type="model")
    failed = SimpleNamespace(node=node, status="error", message="no such\ncolumn")
    show = printed(as_json)
    show(["source:app.orders"], Outcome([failed], None, []), 1.25)
    out = capsys.readouterr().out
    if as_json:
        line = json.loads(out)
        assert line["sources"] == ["app.orders"]
        assert line["failed"] == {"orders": "no such\ncolumn"}
        assert (line["seconds"], line["nodes"], line["error"]) == (1.25, 1, None)
    else:
        first, *rest = out.splitlines()
        assert first.endswith("app.orders: 1 of 1 failed in 1.2 s")
        assert rest == ["  orders", "    no such", "    column"]


def test_a_commit_that_does_not_say_what_it_is_counts_as_new_each_time(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text('{"add": {"path": "a.parquet"}}\n')
    project = DbtProject.__new__(DbtProject)
    project.folders = {"app.orders": ("delta", tmp_path)}
    assert project._state("app.orders") is None


CDC = "config: {meta: {cdc: {format: flagged, keys: [id], sequence_by: at, operation: flag}}}"
FILES = {
    "dbt_project.yml": "{name: shop, version: 1.0.0, profile: shop}",
    "profiles.yml": "shop: {target: a, outputs: {a: {type: sparkcdc, schema: s}}}",
    "models/sources.yml": "sources:\n  - name: app\n    tables:\n"
    + "".join(f"      - {{name: {name}, {CDC}}}\n" for name in ("orders", "items", "others"))
    + """
models:
  - name: items
    data_tests:
      - relationships: {arguments: {to: ref('orders'), field: id}, column_name: id}
""",
    "models/stg_orders.sql": "select * from {{ source('app', 'orders') }}",
    "models/orders.sql": "select * from {{ ref('stg_orders') }}",
    "models/items.sql": "select * from {{ source('app', 'items') }}",
    "models/others.sql": "select * from {{ source('app', 'others') }}",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of three tables. Nothing reads it but dbt's parser: no Spark is there."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(watching, "_session", lambda *_: None)
    monkeypatch.setattr(DbtProject, "_state", lambda *_: "1")
    yield tmp_path
    reset_adapters()


SELECTED: dict[tuple[str, ...], list[str]] = {
    (): ["orders", "items", "others"],
    # A test of another table, which looks at this one as well, is no reason to look at that.
    ("orders",): ["orders"],
    ("items others",): ["items", "others"],
    ("+orders,stg_orders", "source:app.others"): ["orders", "others"],
    ("test_type:generic",): ["orders", "items"],
}


def test_only_what_the_selected_nodes_are_made_of_is_looked_at(shop: Path) -> None:
    project = DbtProject(shop, shop, None, ["orders"], [], None)
    assert list(project.inputs()) == ["source:app.orders"]
    # What is selected may change with the project.
    (shop / "models" / "orders.sql").write_text("select * from {{ ref('items') }}")
    assert list(project.inputs()) == ["source:app.items"]
    (shop / "models" / "orders.sql").write_text(FILES["models/orders.sql"])
    manifest = project._parse()
    for select, names in SELECTED.items():
        project.select = list(select)
        found = project._sources_above(manifest)
        assert sorted(found) == sorted(f"source.shop.app.{name}" for name in names), select


def test_what_an_option_names_is_built_each_with_the_table(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = DbtProject(shop, shop, None, ["orders items", "+others,others"], [], None)
    ran: list[Sequence[str]] = []
    monkeypatch.setattr(watching, "run_dbt", lambda arguments, *_: ran.append(arguments) or GOOD)
    project.build(["source:app.items"])
    project.build([])
    kept = ["orders", "items", "+others,others"]
    assert list(ran[0][-3:]) == [f"source:app.items+,{one}" for one in kept]
    assert list(ran[1][-4:]) == ["--select", *kept]


def test_a_selection_of_nothing_is_an_error(shop: Path) -> None:
    with pytest.raises(InputsUnknown, match="`--select stg_orders,items` matches no node"):
        DbtProject(shop, shop, None, ["orders", "stg_orders,items"], [], None)
    with pytest.raises(InputsUnknown, match="`--first landng` matches no node"):
        DbtProject(shop, shop, None, [], ["landng"], None)
    project = DbtProject(shop, shop, None, ["items"], [], None)
    # A model that goes while the project is watched is a failure, until it is there again.
    (shop / "models" / "items.sql").rename(shop / "models" / "items.txt")
    (shop / "models" / "sources.yml").write_text(FILES["models/sources.yml"].split("models:")[0])
    for _ in range(2):
        with pytest.raises(InputsUnknown, match="`--select items` matches no node"):
            project.inputs()
    (shop / "models" / "items.txt").rename(shop / "models" / "items.sql")
    assert list(project.inputs()) == ["source:app.items"]


def test_a_selection_that_dbt_refuses_is_bad_input(shop: Path) -> None:
    with pytest.raises(InputsUnknown, match="is not a valid method"):
        DbtProject(shop, shop, None, ["selector:nowhere"], [], None)


@pytest.mark.parametrize("error", [MemoryError(), AssertionError(), SystemExit(), ValueError("no")])
def test_an_exception_without_a_text_is_a_failure(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = SimpleNamespace(exception=error, result=None)
    runner = SimpleNamespace(invoke=lambda _: ran)
    monkeypatch.setattr(invocation, "dbtRunner", lambda **_: runner)
    outcome = run_dbt(["build"])
    assert not outcome.ok and outcome.error in (type(error).__name__, "no")


def test_a_table_with_an_odd_name_is_built(shop: Path) -> None:
    names = ["Order Details", "public.orders", "a.b.c", "x,y", "plus+1", "[z]"]
    tables = "".join(f"      - {{name: '{name}', {CDC}}}\n" for name in names)
    head = "sources:\n  - name: the shop\n    tables:\n"
    (shop / "models" / "sources.yml").write_text(head + tables)
    for file in (shop / "models").glob("*.sql"):
        file.unlink()
    for number, name in enumerate(names):
        text = f"select * from {{{{ source('the shop', '{name}') }}}}"
        (shop / "models" / f"m{number}.sql").write_text(text)
    project = DbtProject(shop, shop, None, [], [], None)
    for number, name in enumerate(project.inputs()):
        selected = project._selected("", [f"{project.selectors[name]}+"], project._parse())
        assert sorted(one.rpartition(".")[2] for one in selected if one[0] == "m") == [f"m{number}"]


def test_files_that_go_while_the_project_is_looked_at_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `git pull`, an editor, or a link that leads nowhere."""
    for name in ("models/a.sql", "models/b.sql", "gone/c.sql"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "models" / "link.sql").symlink_to("nowhere.sql")
    real = Path.iterdir

    def iterdir(self: Path) -> Iterator[Path]:
        if self.name == "gone":
            raise FileNotFoundError(str(self))
        found = list(real(self))
        (tmp_path / "models" / "b.sql").unlink(missing_ok=True)
        return iter(found)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert [Path(path).name for path, _ in _project_files(tmp_path)] == ["a.sql"]


def test_a_signal_while_spark_starts_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []

    def start(*_: object) -> SimpleNamespace:
        os.kill(os.getpid(), signal.SIGTERM)
        return SimpleNamespace(inputs=lambda: {}, build=lambda names: built.append(names) or GOOD)

    monkeypatch.setattr(watching, "DbtProject", start)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ended = CliRunner().invoke(main, ["watch"])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (ended.exit_code, built) == (0, [])
