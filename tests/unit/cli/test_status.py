"""`cdc status`: what Delta's logs and dbt's artifacts tell, without Spark."""

from __future__ import annotations

import io
import json
import os
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from rich.console import Console

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.observe.delta_table import DeltaTable, read_table
from dbt_spark_cdc.observe.runs import runs_of
from dbt_spark_cdc.observe.status import Unread, present, statuses, unread_rows
from dbt_spark_cdc.observe.status_text import ago, duration, show, size
from dbt_spark_cdc.project import open_project
from tests.unit.cli.warehouses import (
    COUNTED,
    DAY,
    Delta,
    built,
    ledger_rows,
    manifest,
    node,
    project,
    raw_rows,
    results,
)

ROOT = Path(__file__).resolve().parents[3]


def run(folder: Path, *arguments: str, code: int = 0) -> str:
    command = ["status", *arguments, "--project-dir", str(folder), "--profiles-dir", str(folder)]
    ran = CliRunner().invoke(main, command)
    assert ran.exit_code == code, ran.output
    return ran.output


def status(folder: Path, table: str) -> dict[str, Any]:
    return json.loads(run(folder, table, "--json"))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Two tables landed into one raw table; `orders` has read all, `stock` not the second batch."""
    folder = project(tmp_path / "p", "orders", "stock")
    raw = Delta(folder / "warehouse" / "raw.db" / "shop")
    raw.commit(0, raw_rows("orders", 0), partition={"_table": "orders"})
    raw.commit(5, raw_rows("stock", 0), partition={"_table": "stock"})
    raw.commit(20, raw_rows("stock", 1, 4), partition={"_table": "stock"})
    built(folder, "orders")
    built(folder, "stock")
    return folder


def test_lag_is_counted_for_each_table_of_a_shared_raw_table(shop: Path) -> None:
    orders, stock = status(shop, "orders"), status(shop, "shop.stock")
    assert (orders["state"], orders["unread_rows"], orders["lag_seconds"]) == ("up to date", 0, 0)
    assert (stock["state"], stock["unread_rows"], stock["unread_rows_exact"]) == ("behind", 4, True)
    waited = datetime.now(timezone.utc) - datetime.fromtimestamp(DAY / 1000 + 1200, timezone.utc)
    assert abs(stock["lag_seconds"] - waited.total_seconds()) < 60
    assert stock["high_water_mark"] == 0
    assert stock["newest_event"] == "2026-01-01T00:00:00.000Z"


def test_rows_are_counted_where_a_file_holds_those_of_several_tables(shop: Path) -> None:
    raw = Delta(shop / "warehouse" / "raw.db" / "shop")
    raw.version = 2
    raw.commit(30, pa.concat_tables([raw_rows("stock", 2, 2), raw_rows("orders", 2, 5)]))
    assert status(shop, "orders")["unread_rows"] == 5
    assert status(shop, "stock")["unread_rows"] == 6


def raw_of(folder: Path, *batches: int, tables: list[str] | None = None) -> DeltaTable:
    """A raw table of one file, with a row for each arrival."""
    names = tables or ["orders"] * len(batches)
    Delta(folder).commit(0, pa.table({"_table": names, "_batch": list(batches)}))
    found = read_table(folder)
    assert found is not None
    return found


def test_of_a_file_with_read_and_unread_rows_the_unread_are_counted(tmp_path: Path) -> None:
    raw = raw_of(tmp_path, 0, 1, 2, 2)
    assert unread_rows(raw, "_batch", 1, True).rows == 2
    assert unread_rows(raw, "_batch", 0, ("_table", "orders")).rows == 3
    assert unread_rows(raw, "_batch", 2, True) == Unread(0)
    assert unread_rows(raw, "_batch", -1, True).rows == 4


def test_rows_that_only_a_query_tells_apart_are_an_upper_bound(tmp_path: Path) -> None:
    found = unread_rows(raw_of(tmp_path, 0, 1, 2), "_batch", 0, False)
    assert (found.rows, found.exact) == (2, False)


@pytest.mark.parametrize("option", ["where", "source_table"])
def test_a_declared_part_of_a_raw_table_is_an_upper_bound(tmp_path: Path, option: str) -> None:
    folder = project(tmp_path / "p", "orders")
    declared = manifest("orders", landed=False, arrival="_batch", **{option: "x"})
    (folder / "target" / "manifest.json").write_text(json.dumps(declared))
    Delta(folder / "warehouse" / "raw.db" / "shop").commit(0, raw_rows("orders", 1))
    built(folder, "orders")
    found = status(folder, "orders")
    assert (found["unread_rows"], found["unread_rows_exact"]) == (3, False)
    assert found["reason"] == "at most 3 raw rows not read"


def test_the_ledger_counts_where_the_log_counts_too(shop: Path) -> None:
    row = {"run_id": "r0", "run_started_at": datetime(2026, 1, 1), "node": "orders_history"}
    ledger = Delta(shop / "warehouse" / "s.db" / "cdc_runs")
    ledger.commit(0, ledger_rows(row | {"seconds": 3.0, "events_updated": 99}))
    assert status(shop, "orders")["last_run"]["counters"]["updated"] == 99


def test_lag_is_not_guessed_where_the_raw_log_is_too_short(shop: Path) -> None:
    raw = read_table(shop / "warehouse" / "raw.db" / "shop")
    assert raw is not None
    checkpoint = {"read_to": 1, "raw_version": 2, "run": {"id": "r", "counters": COUNTED}}
    Delta(shop / "history").commit(30, checkpoint=checkpoint)
    orders = open_project(shop, shop).table("orders")
    reader = read_table(shop / "history")
    (run,) = runs_of(orders, [], reader, raw)
    assert run.lag == timedelta(minutes=30)
    raw.commits = [commit for commit in raw.commits if commit.version]
    (run,) = runs_of(orders, [], reader, raw)
    assert run.lag is None


def test_a_killed_run_in_parts_counts_its_last_part(shop: Path) -> None:
    """The counters of each part are those of the run so far; only the first one has waited."""
    raw = read_table(shop / "warehouse" / "raw.db" / "shop")
    history = Delta(shop / "history")
    for minute, mark in ((30, 1), (40, 2)):
        counters = COUNTED | {"read": 10 * mark, "watermark_after": mark}
        run = {"id": "r", "counters": counters}
        history.commit(minute, checkpoint={"part": {"raw_version": 2}, "read_to": mark, "run": run})
    orders = open_project(shop, shop).table("orders")
    (run_of_parts,) = runs_of(orders, [], read_table(shop / "history"), raw)
    assert run_of_parts.counters["read"] == 20
    assert run_of_parts.high_water_mark == 2
    assert run_of_parts.lag == timedelta(minutes=30)


def test_files_and_counters_are_shown(shop: Path) -> None:
    found = status(shop, "orders_history")
    assert found["table"] == "orders"
    history, final = found["nodes"]
    assert (history["node"], history["rows"], history["files"]) == ("orders_history", 2, 1)
    assert (final["small_files"], final["deletion_vectors"]) == (1, 0)
    assert found["last_run"]["counters"]["inserted"] == COUNTED["inserted"]
    assert found["last_run"]["lag_seconds"] == 600  # landed at 0, committed ten minutes later
    assert (found["quarantined"], found["quarantined_exact"]) == (1, True)


def test_the_ledger_and_the_log_are_one_list_of_runs(shop: Path) -> None:
    row = {"run_id": "old", "run_started_at": datetime(2025, 12, 1), "node": "orders_history"}
    same = {"run_id": "r0", "run_started_at": datetime(2026, 1, 1), "node": "orders_history"}
    ledger = Delta(shop / "warehouse" / "s.db" / "cdc_runs")
    ledger.commit(0, ledger_rows(row | {"seconds": 2.0}, same | {"seconds": 3.0}))
    found = status(shop, "orders")
    assert found["quarantined"] == 2
    assert found["last_run"]["run_id"] == "r0"
    assert found["last_run"]["seconds"] == 3.0


def test_a_first_build_leaves_bad_events_uncounted(shop: Path) -> None:
    history = Delta(shop / "warehouse" / "s.db" / "stock_history")
    history.version = 0
    noted = {"id": "r1", "counters": {"read": 4, "watermark_after": 1}}
    history.commit(40, checkpoint={"read_to": 1, "raw_version": 2, "run": noted})
    found = status(shop, "stock")
    assert (found["quarantined"], found["quarantined_exact"]) == (1, False)
    assert ">= 1" in run(shop)
    assert ">= 0" not in run(shop)  # of tables with no bad event since


def test_an_audit_table_counts_them_all(shop: Path) -> None:
    path = shop / "target" / "manifest.json"
    known = json.loads(path.read_text())
    audit = node("audit", "model", [], ["macro.cdc.audit"], materialized="table")
    known["nodes"][audit["unique_id"]] = audit
    path.write_text(json.dumps(known))
    rows = pa.table({"table_name": ["orders"], "events_quarantined": [17]})
    Delta(shop / "warehouse" / "s.db" / "audit").commit(60, rows)
    assert status(shop, "orders")["quarantined"] == 17


def test_one_row_is_counted_in_the_singular(shop: Path) -> None:
    raw = Delta(shop / "warehouse" / "raw.db" / "shop")
    raw.version = 2
    raw.commit(30, raw_rows("orders", 2, 1), partition={"_table": "orders"})
    assert status(shop, "orders")["reason"] == "1 raw row not read"


def test_a_failed_node_is_told_with_its_message(shop: Path) -> None:
    results(
        shop,
        ("snapshot.p.orders_history", "error", "Database Error\n  no [such] thing"),
        ("model.p.orders", "skipped", ""),
        ("snapshot.p.stock_history", "success", ""),
    )
    found = status(shop, "orders")
    assert (found["state"], found["last_result"]["status"]) == ("failed", "error")
    assert found["reason"] == "Database Error no [such] thing"
    assert "orders: Database Error no [such] thing" in run(shop)


def test_results_of_other_commands_say_nothing_of_tables(shop: Path) -> None:
    results(shop, ("snapshot.p.orders_history", "error", "x"), command="show")
    assert status(shop, "orders")["state"] == "up to date"


def test_what_was_never_built_is_told(shop: Path, tmp_path: Path) -> None:
    fresh = project(tmp_path / "fresh", "orders")
    Delta(fresh / "warehouse" / "raw.db" / "shop").commit(0, raw_rows("orders", 0))
    found = status(fresh, "orders")
    assert (found["state"], found["unread_rows"]) == ("not built", 3)
    assert "orders_history, orders: run `dbt build`" in found["reason"]


def test_a_table_that_a_failed_test_kept_from_being_built_names_the_test(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "orders")
    known = manifest("orders")
    test = node("no_overlap_orders", "test", ["snapshot.p.orders_history"])
    test["unique_id"] += ".1a2b"
    known["nodes"][test["unique_id"]] = test
    (folder / "target" / "manifest.json").write_text(json.dumps(known))
    Delta(folder / "warehouse" / "s.db" / "orders_history").commit(40, pa.table({"id": [1]}))
    outcome = [("snapshot.p.orders_history", "success", ""), ("model.p.orders", "skipped", "")]
    results(folder, *outcome, (test["unique_id"], "fail", "Got 1 result"))
    found = status(folder, "orders")
    assert found["state"] == "not built"
    assert found["reason"] == (
        "no table orders: the last run skipped it after the failed test no_overlap_orders. Correct "
        "what it found and run `dbt build`, or leave it out: "
        "`dbt build --exclude no_overlap_orders`"
    )
    results(folder, *outcome)
    assert status(folder, "orders")["reason"] == "no table orders: run `dbt build`"


def test_a_final_table_behind_its_history_is_behind(shop: Path) -> None:
    history = Delta(shop / "warehouse" / "s.db" / "orders_history")
    history.version = 0
    history.commit(40, pa.table({"id": [1]}), {"read_to": 0, "raw_version": 0})
    found = status(shop, "orders")
    assert (found["state"], found["unread_versions"]) == ("behind", 1)


def test_a_damaged_log_is_told_and_the_other_tables_are_shown(shop: Path) -> None:
    log = shop / "warehouse" / "s.db" / "orders_history" / "_delta_log"
    (log / f"{0:020}.json").write_text("{")
    assert status(shop, "orders")["state"] == "unknown"
    said = run(shop)
    assert "is damaged" in said
    assert "behind" in said


def test_an_unknown_table_is_refused_with_near_names(shop: Path) -> None:
    assert "Did you mean orders" in run(shop, "oders", code=2)
    assert "Its tables are orders, stock." in run(shop, "xyzzy", code=2)
    # The raw table's name is no table's.
    assert "No table" in run(shop, "Shop", code=2)


def test_a_project_without_tables_is_told(tmp_path: Path) -> None:
    folder = project(tmp_path / "p")
    assert "no table of this package" in run(folder, "orders", code=2)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("{type: sparkcdc, schema: s, remote: 'sc://h:1'}", "Spark Connect server sc://h:1"),
        ("{type: sparkcdc}", "has no `schema`"),
        ("{type: sparkcdc, schema: \"{{ env_var('CDC_TEST_NOT_SET') }}\"}", "CDC_TEST_NOT_SET"),
    ],
)
def test_a_target_that_is_not_on_this_machine_is_refused(
    tmp_path: Path, target: str, said: str
) -> None:
    assert said in run(project(tmp_path / "p", "orders", target=target), code=2)


def test_a_profile_may_ask_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_TEST_SCHEMA", "s")
    target = "{type: sparkcdc, schema: \"{{ env_var('CDC_TEST_SCHEMA') }}\"}"
    assert "not built" in run(project(tmp_path / "p", "orders", target=target))


def test_no_project_is_told(tmp_path: Path) -> None:
    assert "There is no dbt_project.yml" in run(tmp_path, code=2)


def test_a_source_without_arrivals_is_compared_by_commits(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "orders")
    (folder / "target" / "manifest.json").write_text(json.dumps(manifest("orders", landed=False)))
    raw = Delta(folder / "warehouse" / "raw.db" / "shop").commit(0, raw_rows("orders", 0))
    built(folder, "orders")
    assert status(folder, "orders")["state"] == "up to date"
    raw.commit(50, raw_rows("orders", 1))
    found = status(folder, "orders")
    assert (found["state"], found["unread_rows"]) == ("behind", None)
    assert found["lag_seconds"] > 0


def test_files_without_a_log_are_compared_by_when_they_came(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "orders")
    found = manifest("orders", landed=False)
    (source,) = found["sources"].values()
    source["external"] = {"location": "landing/orders"}
    (folder / "target" / "manifest.json").write_text(json.dumps(found))
    files = folder / "landing" / "orders"
    files.mkdir(parents=True)
    (files / "old.csv").write_text("id\n1\n")
    # A copy keeps the time of its content, and came today all the same: after the build.
    os.utime(files / "old.csv", (0, 0))
    (files / ".gitkeep").touch()
    assert status(folder, "orders")["state"] == "not built"
    built(folder, "orders")
    late = status(folder, "orders")
    assert (late["state"], late["unread_rows"], late["lag_seconds"] > 0) == ("behind", None, True)
    assert late["reason"] == "rows not read"

    # Nothing was new in a later build, which therefore left no commit.
    results(folder, ("snapshot.p.orders_history", "success", ""))
    path = folder / "target" / "run_results.json"
    path.write_text(path.read_text().replace("2026-01-01T01:00:00Z", "2999-01-01T01:00:00Z"))
    read = status(folder, "orders")
    assert (read["state"], read["unread_rows"], read["lag_seconds"]) == ("up to date", 0, 0)
    path.write_text(path.read_text().replace("success", "error"))
    assert status(folder, "orders")["lag_seconds"] > 0


def test_deleted_rows_of_the_ledger_are_told(shop: Path) -> None:
    row = {"run_id": "a", "run_started_at": datetime(2026, 1, 1), "node": "x", "seconds": 1.0}
    ledger = Delta(shop / "warehouse" / "s.db" / "cdc_runs")
    ledger.commit(0, ledger_rows(row, row), deletionVector={"cardinality": 1})
    assert "cdc: 1 rows that were deleted from the ledger" in run(shop)


@pytest.mark.parametrize(("begun", "names"), [("or", "orders"), ("", "orders\nplain,stock")])
def test_shells_complete_names_of_tables(
    shop: Path, monkeypatch: pytest.MonkeyPatch, begun: str, names: str
) -> None:
    monkeypatch.chdir(shop)
    words = {
        "_CDC_COMPLETE": "bash_complete",
        "COMP_WORDS": f"cdc status {begun}",
        "COMP_CWORD": "2",
    }
    ran = CliRunner().invoke(main, prog_name="cdc", env=words)
    assert ran.output.strip() == f"plain,{names}"


def test_a_narrow_terminal_loses_nothing(shop: Path) -> None:
    console = Console(width=40, file=io.StringIO())
    show(console, statuses(open_project(shop, shop)), False, present())
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "up to date" in said
    assert "quarantined" in said
    assert "\u2026" not in said


def test_each_field_of_the_json_is_documented(shop: Path) -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    found = status(shop, "orders")
    assert "last_run" in found
    for names in (found, found["nodes"][0], found["last_run"]):
        assert not [name for name in names if f"`{name}`" not in page]


def test_each_command_and_option_is_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name in ("doctor", "status", "explain", "report"):
        assert f"## `cdc {name}`" in page
        for option in main.commands[name].params:
            assert option.name == "table" or f"`{option.opts[0]}" in page, option.opts
    assert set(main.commands) == set(re.findall(r"^\| \[`cdc (\w+)`\]", page, re.M))


def test_numbers_are_short() -> None:
    assert [size(n) for n in (None, 7, 1500, 2_500_000)] == ["-", "7 B", "1.5 kB", "2.5 MB"]
    spans = [timedelta(seconds=s) for s in (7, 90, 3600, 90_000)]
    assert [duration(span) for span in spans] == ["7 s", "1 min", "1 h", "1 d 1 h"]
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert ago(now - timedelta(minutes=5), now) == "5 min ago"
    assert ago(None, now) == "-"
