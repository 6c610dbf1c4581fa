"""`cdc explain`: what is to be read, and what each event did, from what dbt answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.observe.explain import explained, parse_key, query
from dbt_spark_cdc.observe.status import statuses
from dbt_spark_cdc.project import BadProject, CdcTable, open_project
from tests.unit.cli.warehouses import Delta, built, manifest, node, project, raw_rows, source


def event(seq: int, op: str, arrived: int | None = None, **values: Any) -> dict[str, Any]:
    row = {"id": 7, "a": None, "_op": op, "_seq": seq, "_event_id": seq, "_unset": []}
    return {**row, "_old_id": None, "_arrived": arrived, "_is_at_key": True, **values}


def effects(*events: dict[str, Any], read_to: int | None = None) -> list[str]:
    return [told.effect for told in explained(events, ["id"], [], read_to)]


def test_events_say_what_they_did() -> None:
    assert effects(
        event(1, "I", a="x"),
        event(2, "U", a="y"),
        event(2, "U", a="y"),
        event(3, "U", a="y"),
        event(4, "D"),
        event(5, "D"),
        event(6, "U", _unset=["a"]),
        event(7, "T", id=None, _is_at_key=None),
        event(8, "T", id=None, _is_at_key=None),
    ) == [
        "began the row",
        "changed a: x -> y",
        "a duplicate",
        "changed nothing",
        "ended the row",
        "there was no row to end",
        "began the row; not given: a",
        "ended the row",
        "there was no row to end",
    ]


def test_columns_that_are_not_given_keep_their_values() -> None:
    told = effects(event(1, "I", a="x"), event(2, "U", _unset=["a"]), event(3, "U"))
    assert told[1:] == ["changed nothing", "changed a: x -> NULL"]


def test_moves_are_told_at_both_keys() -> None:
    moved = event(2, "U", id=8, _old_id=7, a="x")
    here = effects(event(1, "I", a="x"), {**moved, "_is_at_key": False})
    assert here[1] == "moved the row to the key 8"
    assert effects(moved) == ["began the row by a move from the key 7"]


def test_what_arrived_late_or_was_not_read_is_told() -> None:
    told = effects(event(1, "I", 1, a="x"), event(2, "U", 3, a="y"), event(3, "U", 2), read_to=2)
    assert told[1] == "not read yet"
    told = effects(event(1, "I", 1, a="x"), event(2, "U", 3, a="y"), event(3, "U", 2))
    assert told[1] == "changed a: x -> y; late-arriving, after events of arrival 2"


def test_the_history_says_which_version_an_event_is_in() -> None:
    versions = [
        {"_event_id": 2, "_events": [{"_event_id": 1}, {"_event_id": 2}]},
        {"_event_id": 3, "_events": None},
    ]
    events = [event(1, "I"), event(2, "U"), event(3, "U", a="z"), event(4, "D")]
    told = explained(events, ["id"], versions, None)
    assert [one.version for one in told] == [1, 1, 2, None]


def table_of(**declared: Any) -> CdcTable:
    staging = node("stg_t", "model", [], materialized="view") | {"package_name": "p"}
    final = node("t", "model", [], ["macro.cdc.current"]) | {"package_name": "p"}
    return CdcTable("t", source("t", **declared), staging, None, None, final)


def test_keys_are_given_by_value_or_by_column() -> None:
    assert parse_key(table_of(), ["7"]) == {"id": "7"}
    assert parse_key(table_of(), ["ID=7"]) == {"id": "7"}
    assert parse_key(table_of(), ["x=y"]) == {"id": "x=y"}
    assert parse_key(table_of(keys=[]), ["5"]) == {"_row_id": "5"}
    both = table_of(keys=["a", "b"])
    assert parse_key(both, ["b=2", "a=1=1"]) == {"a": "1=1", "b": "2"}
    for given in (["1"], ["a=1"], ["a=1", "c=2"], ["a=1", "a=2"]):
        with pytest.raises(BadProject, match=r"The key of t is a, b: give --key a=VALUE"):
            parse_key(both, given)


def run(folder: Path, *arguments: str, code: int = 0) -> str:
    command = ["explain", *arguments, "--project-dir", str(folder), "--profiles-dir", str(folder)]
    ran = CliRunner().invoke(main, command)
    assert ran.exit_code == code, ran.output
    return ran.output


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = project(tmp_path / "p", "orders", "stock")
    raw = Delta(folder / "warehouse" / "raw.db" / "shop")
    raw.commit(0, raw_rows("orders", 0), partition={"_table": "orders"})
    built(folder, "orders")
    return folder


def test_with_nothing_new_everything_is_left(shop: Path) -> None:
    said = run(shop, "orders")
    assert "orders is up to date" in said
    assert said.count("  leaves ") == 3
    assert "no model on cdc.quarantine shows them" in said


def test_what_is_new_is_read_and_written(shop: Path) -> None:
    raw = Delta(shop / "warehouse" / "raw.db" / "shop")
    raw.version = 0
    raw.commit(30, raw_rows("orders", 1), partition={"_table": "orders"})
    said = run(shop, "orders")
    assert "3 rows after 0 in 1 file (" in said
    assert said.count("  writes ") == 2
    assert "(1 file, " in said


def test_a_table_that_was_never_built_is_made_from_all(shop: Path) -> None:
    said = run(shop, "stock")
    assert said.count("the first build makes it, from all events") == 2


def test_files_without_a_log_are_named(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "orders")
    found = manifest("orders", landed=False)
    (source,) = found["sources"].values()
    source["external"] = {"location": "landing/orders"}
    (folder / "target" / "manifest.json").write_text(json.dumps(found))
    (folder / "landing" / "orders").mkdir(parents=True)
    (folder / "landing" / "orders" / "1.csv").touch()
    files = folder / "landing" / "orders"
    assert f"reads   orders: all files in {files}" in run(folder, "orders")
    built(folder, "orders")
    assert f"reads   orders: all files in {files}" in run(folder, "orders")
    (files / "1.csv").unlink()
    assert f"leaves  orders: no file came into {files} since" in run(folder, "orders")


def test_what_is_not_there_is_refused(shop: Path) -> None:
    assert "Did you mean orders" in run(shop, "order", code=2)
    assert "--key id=VALUE" in run(shop, "orders", "--key", "a=1", "--key", "b=2", code=2)


def test_a_row_of_a_table_that_was_never_built_is_refused_without_spark(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dbt_spark_cdc.observe.explain.dbt_result", lambda *_: pytest.fail("asks Spark")
    )
    said = run(shop, "stock", "--key", "7", code=2)
    assert (
        "stock is not built: no table stock_history, stock holds the row. Run `dbt build`" in said
    )
    assert "--key id=VALUE" in run(shop, "stock", "--key", "a=1", "--key", "b=2", code=2)


def test_values_of_keys_are_no_code(shop: Path) -> None:
    known = open_project(shop, shop)
    orders = known.table("orders")
    for one in (orders.staging, orders.history, orders.final):
        one["package_name"] = "p"  # type: ignore[index]
    (found,) = statuses(known, [orders])
    text = query(found, {"id": "1' or {{ x }} -- ${y}"})
    assert text.count("union all") == 2
    assert "{{ ref('p', 'orders_history') }}" in text
    assert not {"{{ x", "--", "${"} & {text[i : i + n] for n in (2, 4) for i in range(len(text))}
    assert "unhex('312720" in text
    assert "coalesce(`_old_id`, `id`)" in text
