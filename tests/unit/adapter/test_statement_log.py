"""What statements took is written down, a line each."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.sparkcdc.connections import SparkCdcConnectionManager
from dbt.adapters.sparkcdc.session import statement_log
from dbt.adapters.sparkcdc.session.statement_log import FILE, MOST_CHARS, StatementLog
from dbt_common.events.contextvars import log_contextvars
from dbt_common.invocation import get_invocation_id


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_statement_is_recorded_with_its_node(tmp_path: Path) -> None:
    path = tmp_path / "target" / FILE
    log = StatementLog(path)
    with log_contextvars(node_info={"unique_id": "model.p.orders"}), log.timed("\nselect 1\n"):
        pass
    with pytest.raises(ValueError, match="no"), log.timed("select 'ü\n'"):
        raise ValueError("no")
    first, second = lines(path)
    assert first.pop("started_at").endswith("+00:00")
    assert first.pop("seconds") >= 0
    assert first == {
        "run_id": get_invocation_id(),
        "node": "model.p.orders",
        "failed": False,
        "sql": "select 1",
    }
    assert (second["node"], second["failed"], second["sql"]) == ("", True, "select 'ü\n'")


def test_a_build_replaces_what_the_one_before_left(tmp_path: Path) -> None:
    path = tmp_path / FILE
    for build in ("first", "second"):
        log = StatementLog(path)
        for number in range(2):
            with log.timed(f"{build} {number}"):
                pass
    assert [line["sql"] for line in lines(path)] == ["second 0", "second 1"]


def test_long_statements_are_cut(tmp_path: Path) -> None:
    with StatementLog(tmp_path / FILE).timed("x" * 3 * MOST_CHARS):
        pass
    assert len(lines(tmp_path / FILE)[0]["sql"]) == MOST_CHARS


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    log = StatementLog(tmp_path / FILE)

    def run(number: int) -> None:
        with log.timed(f"{number} " + "y" * 2000):
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(200)))
    assert len({line["sql"].split()[0] for line in lines(tmp_path / FILE)}) == 200


def test_a_file_that_cannot_be_written_is_told_once_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(statement_log, "_logger", SimpleNamespace(warning=told.append))
    (tmp_path / "target").write_text("a file, no folder")
    log = StatementLog(tmp_path / "target" / FILE)
    for _ in range(3):
        with log.timed("select 1"):
            pass
    assert len(told) == 1
    assert str(tmp_path / "target" / FILE) in told[0]


def test_without_the_option_nothing_is_recorded(tmp_path: Path) -> None:
    manager = object.__new__(SparkCdcConnectionManager)
    with manager.timed("select 1"):
        pass
    assert manager.statement_log is None
    manager.statement_log = StatementLog(tmp_path / FILE)
    with manager.timed("select 1"):
        pass
    assert len(lines(tmp_path / FILE)) == 1
