"""The arithmetic of the live workloads: load, latencies from logs and files, and their report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import goals, report
from bench.live import arrivals, load, processes
from bench.live.arrivals import Latency, Log
from bench.live.load import DELETED_FROM, INSERTED_FROM, LAST, Phase
from bench.results import Results
from bench.scales import SCALES, scale_of
from bench.session import Timing
from bench.workloads import landing_rate, latency

ROWS = 50


def frame(*rows: tuple[int, int, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["id", "version", "at"])


def commit(table: Path, number: int, at: float, *actions: dict[str, Any]) -> None:
    log = table / "_delta_log" / f"{number:020}.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    os.utime(log, (at, at))


def added(table: Path, name: str, is_change: bool = True, **columns: list[Any]) -> dict[str, Any]:
    table.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), table / name.replace("%3D", "="))
    return {"add": {"path": name, "dataChange": is_change}}


def schema(**physical: str) -> dict[str, Any]:
    fields = [
        {"name": name, "metadata": {"delta.columnMapping.physicalName": other} if other else {}}
        for name, other in physical.items()
    ]
    return {"metaData": {"schemaString": json.dumps({"fields": fields})}}


@pytest.mark.parametrize(
    ("rate", "a_second", "size"), [(10, 10, 1), (100, 100, 1), (10_000, 100, 100)]
)
def test_a_higher_rate_makes_larger_transactions(rate: int, a_second: int, size: int) -> None:
    phase = Phase(rate, 3, 10, ROWS)
    assert (phase.a_second, phase.size, phase.transactions) == (a_second, size, 3 * a_second)
    assert phase.count == 3 * rate + 10


def test_each_row_is_inserted_and_deleted_once_in_all_phases() -> None:
    phase = Phase(10, 7, 3, ROWS)
    inserts: list[tuple[int, int]] = []
    deletes: list[tuple[int, int]] = []
    kinds = np.zeros(3, dtype=int)
    for rate in (100, 200):
        for number in range(phase.transactions):
            changes = phase.changes(number)
            table = number % phase.tables
            inserts += [(table, key) for key in changes.inserts]
            deletes += [(table, key) for key in changes.deletes]
            assert len(set(changes.updates)) == len(changes.updates)
            assert all(LAST < key <= ROWS for key in changes.updates)
            kinds += [len(keys) for keys in changes]
        last, phase = phase, phase.next(rate, 7)
    assert len(set(inserts)) == len(inserts) and len(set(deletes)) == len(deletes)
    assert min(key for _, key in inserts) >= INSERTED_FROM > max(key for _, key in deletes)
    there = range(DELETED_FROM, DELETED_FROM + load.deletable(last))
    assert all(key in there for _, key in deletes)
    shares = kinds / kinds.sum()
    assert shares == pytest.approx([0.6, 0.2, 0.2], abs=0.03)


def test_versions_grow_from_phase_to_phase() -> None:
    first = Phase(100, 2, 2, ROWS)
    second = first.next(1_000, 1)
    assert second.version == first.last_version == 201
    committed = second.committed(1, np.array([5.0, 6.0, 7.0, 8.0]))
    assert set(committed["version"]) == {203, 205}
    assert set(committed["at"]) == {6.0, 8.0}
    changes = second.changes(1)
    assert set(committed.loc[committed["version"] == 203, "id"]) == {
        *changes.updates,
        *changes.inserts,
    }


def test_a_log_is_read_without_spark(tmp_path: Path) -> None:
    table = tmp_path / "t"
    first = added(table, "a.parquet", **{"col-1": [1, 2, 9], "col-2": [1, 1, None]})
    commit(table, 0, 100.0, {"commitInfo": {}}, schema(id="col-1", version="col-2"), first)
    log = Log(table)
    assert log.rows().to_dict("list") == {"id": [1, 2], "version": [1, 1], "at": [100.0, 100.0]}
    # A row of the first file is marked as deleted, and there is a new one.
    second = added(table, "p%3D1.parquet", **{"col-1": [1], "col-2": [2]})
    commit(table, 1, 103.5, {"remove": {"path": "a.parquet"}}, first, second)
    compacted = added(table, "c.parquet", False, **{"col-1": [1, 2], "col-2": [2, 1]})
    commit(table, 2, 200.0, compacted)
    assert sorted(log.rows()["at"]) == [100.0, 100.0, 103.5]
    assert Log(tmp_path / "none").rows().empty


def test_landed_files_have_the_time_at_which_they_were_written(tmp_path: Path) -> None:
    folder = tmp_path / "t0"
    folder.mkdir()
    values = [{"name": "id", "value": 4}, {"name": "version", "value": 7}]
    lines = [{"action": "I", "columns": values}, {"action": "D", "identity": values}]
    file = folder / "01-02-0001.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "_hidden.jsonl.part").write_text("half a li")
    os.utime(file, (50.0, 50.0))
    assert arrivals.landed(folder).to_dict("records") == [
        {"id": 4, "version": 7, "at": 50.0, "file": f"t0/{file.name}"}
    ]


def test_a_change_has_arrived_with_its_version_or_a_later_one() -> None:
    committed = frame((1, 1, 10.0), (2, 2, 10.5), (1, 3, 11.0), (3, 4, 11.5), (1, 5, 12.0))
    # Version 3 of row 1 came together with version 5, and a copy of version 1 after them.
    arrived = frame((1, 1, 12.0), (2, 2, 12.0), (1, 5, 13.0), (1, 1, 14.0), (7, 9, 11.0))
    assert arrivals.latencies(committed, arrived).tolist() == [2.0, 1.5, 2.0, np.inf, 1.0]
    assert arrivals.latencies(committed, frame()).tolist() == [np.inf] * 5


def test_an_older_version_that_arrives_late_counts_from_the_newer_one() -> None:
    assert arrivals.latencies(frame((1, 1, 0.0)), frame((1, 2, 3.0), (1, 1, 9.0))).tolist() == [3.0]


def test_percentiles_are_values_that_were_measured() -> None:
    values = np.arange(1.0, 101.0)
    assert [arrivals.percentile(values, share) for share in (0.5, 0.95, 0.99)] == [50.0, 95.0, 99.0]
    values[-3:] = np.inf
    assert arrivals.percentile(values, 0.95) == 95.0
    assert arrivals.percentile(values, 0.99) is None


def test_a_backlog_that_grows_is_noticed() -> None:
    at = pd.Series(np.arange(90.0))
    steady = pd.Series(3 + np.arange(90) % 5 * 1.0)
    assert not Latency.of(at, steady).grows
    growing = pd.Series(3 + np.arange(90) / 10)
    assert Latency.of(at, growing).grows
    # The order is that of the commits, whatever the order of the values.
    assert Latency.of(at[::-1].reset_index(drop=True), growing[::-1].reset_index(drop=True)).grows
    late = growing.copy()
    late[80:] = np.inf
    found = Latency.of(at, late)
    assert (found.changes, found.missing, found.p95, found.grows) == (90, 10, None, True)


def test_waiting_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SECONDS_BETWEEN_LOOKS", 0.01)
    assert not processes.until(lambda: False, 0.02)
    assert processes.until(lambda: True, 0)


def test_a_process_that_fails_is_reported_with_what_it_printed(tmp_path: Path) -> None:
    child = processes.Child(["-c", "raise SystemExit('no such slot')"], tmp_path / "capture.log")
    with pytest.raises(RuntimeError, match="capture ended with 1: no such slot"):
        child.wait()
    with pytest.raises(RuntimeError, match="capture ended"):
        processes.until(lambda: False, 60, [child])


def test_without_a_server_the_workloads_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise SystemExit("PostgreSQL 15 was not found.")

    monkeypatch.setattr(processes.server, "find_programs", missing)
    results = Results()

    class Workshop:
        folder = tmp_path

    scale = scale_of("tiny", [])
    for workload in (latency, landing_rate):
        workload.run(Workshop(), scale, set(workload.NAMES), results)  # type: ignore[arg-type]
    rows = [latency.row_name(rate) for rate in scale.live_rates]
    rows += [landing_rate.CAPTURE, landing_rate.LANDING, landing_rate.BOTH]
    assert set(results.details) == set(rows)
    for row in rows:
        assert results.details[row]["cdc"] == {"skipped": "PostgreSQL 15 was not found."}
    text = "\n".join(report._reasons(results.details))
    assert text.count("PostgreSQL 15 was not found.") == 1 and all(row in text for row in rows)


def test_the_report_has_latencies_and_rates() -> None:
    results = Results()
    row = latency.row_name(1_000)
    known = {
        **{"changes": 800, "missing": 0, "p50": 3.04, "p95": 4.9, "p99": 6.0, "grows": False},
        **{"committed_a_second": 999.6, "drained_seconds": 4.2},
    }
    results.add(row, "cdc", [Timing(4.9, 4.9)], **known, stages={"file": 0.31, "raw table": 1.6})
    behind = known | {"missing": 300, "p95": None, "p99": None, "drained_seconds": None}
    results.fail(row, "foreach_batch", RuntimeError("too slow"))
    results.details[row]["foreach_batch"].update(behind, stages={"file": 0.3})
    results.add(row, "cdc_history", [Timing(5.5, 5.5)], **known | {"grows": True}, stages={})
    lines = list(report._latencies(results.details))
    for line in (
        "| 1,000 a second | cdc | 3.0 | 4.9 | 6.0 | 1,000 | 4.2 |  |",
        "| 1,000 a second | cdc_history | 3.0 | 4.9 | 6.0 | 1,000 | 4.2 | the backlog grows |",
        "| 1,000 a second | foreach_batch | 3.0 | longer | longer | 1,000 | longer |"
        " 300 of 800 changes did not arrive |",
        "| changes | system | file | raw table | final table |",
        "| 1,000 a second | cdc | 0.3 | 1.6 | 3.0 |",
        "| 1,000 a second | foreach_batch | 0.3 |  | 3.0 |",
    ):
        assert line in lines
    assert not list(report._latencies({}))

    phase = Phase(100, 1, 2, ROWS)
    landing_rate._add(results, landing_rate.CAPTURE, phase, Timing(0.0, 0.005))
    assert "| W14 capture | 102 | 20,400 |" in list(report._landing(results.details))
    assert not list(report._landing({}))
    results.add(landing_rate.LANDING, "cdc", [Timing(1.0, 1.0)], changes_a_second=19_999)
    found = list(goals.table_of(results.seconds, {"details": results.details}))
    for line in (
        "| p95 from commit to final table, 1,000 changes a second |  | 5.0 s | 4.9 s |  | met |",
        "| the same with histories |  | 5.0 s | 5.5 s |  | missed |",
        "| changes captured |  | 20,000 a second | 20,400 a second |  | met |",
        "| changes landed |  | 20,000 a second | 19,999 a second |  | missed |",
    ):
        assert line in found


def test_the_goals_are_rows_of_the_live_scale() -> None:
    scale = SCALES["live"]
    assert goals.LATENCY in {latency.row_name(rate) for rate in scale.live_rates}
    assert scale.live_tables == 10
    assert [phase.seconds for phase in latency.phases_of(scale)] == [420, 120, 120, 120]
    phases = landing_rate.phases_of(scale)
    assert [phase.count - phase.tables for phase in phases] == [100_000, 1_000_000, 1_000_000]
    assert scale.measures("foreach_batch")
