"""`cdc metrics`: the numbers of the report as Prometheus and OpenTelemetry take them."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.observe.metrics import DEFINITIONS, EVENTS, LAG, STATE, Sample, prometheus_text
from tests.unit.cli.warehouses import Delta, built, ledger_rows, project, raw_rows, results

DOCS = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ODD = 'a "quoted" \\name\\ of\ntwo lines, {with} = and ütf'


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = project(tmp_path / "p", "orders", "stock")
    raw = Delta(folder / "warehouse" / "raw.db" / "shop")
    for number in range(3):
        raw.commit(20 * number, raw_rows("orders", number), partition={"_table": "orders"})
    built(folder, "orders", raw_versions=2)
    ledger = Delta(folder / "warehouse" / "s.db" / "cdc_runs")
    at = datetime(2026, 1, 1, 0, 5)
    row = {"run_started_at": at, "node": "orders_history", "seconds": 2.5}
    ledger.commit(0, ledger_rows({"run_id": "r0", **row}, {"run_id": "long gone", **row}))
    results(
        folder,
        ("snapshot.p.orders_history", "success", ""),
        ("model.p.orders", "error", "no"),
        ("test.p.unique.1", "pass", ""),
    )
    return folder


def run(folder: Path, *options: str) -> Result:
    command = ["metrics", "--project-dir", str(folder), "--profiles-dir", str(folder)]
    return CliRunner().invoke(main, [*command, *options])


def parsed(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Samples by name and labels, as the official parser reads them."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        assert family.type in ("gauge", "counter"), family.name
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in series, sample
            assert sample.timestamp is None
            series[labels] = sample.value
    return found


def of_table(text: str, name: str, **labels: str) -> float | None:
    wanted = {"project": "p", "schema": "S", "table": "orders", **labels}
    return parsed(text).get(name, {}).get(tuple(sorted(wanted.items())))


def test_prometheus_reads_what_is_known_of_a_table(shop: Path) -> None:
    ran = run(shop)
    assert ran.exit_code == 0
    text = ran.stdout
    assert of_table(text, "cdc_table_state", state="failed") == 1
    assert of_table(text, "cdc_table_state", state="up to date") == 0
    assert of_table(text, "cdc_table_state", table="stock", state="not built") == 1
    assert of_table(text, "cdc_table_unread_rows") == 3
    waits_since = datetime(2026, 1, 1, 0, 40, tzinfo=timezone.utc)
    waited = (datetime.now(timezone.utc) - waits_since).total_seconds()
    assert of_table(text, "cdc_table_lag_seconds") == pytest.approx(waited, abs=60)
    assert of_table(text, "cdc_table_high_water_mark") == 1
    assert of_table(text, "cdc_table_newest_event_timestamp_seconds") == 1767225600
    assert of_table(text, "cdc_relation_rows", relation="orders_history") == 4
    assert of_table(text, "cdc_relation_rows", relation="orders") == 2
    # Of a table that is not there, nothing is known.
    assert of_table(text, "cdc_relation_rows", table="stock", relation="stock") is None


def test_counters_add_up_the_ledger_alone(shop: Path) -> None:
    text = run(shop).stdout
    # r1 stands in Delta's log only, which will forget it: a counter must not fall.
    assert of_table(text, "cdc_table_events_total", outcome="inserted") == 8
    assert of_table(text, "cdc_table_events_read_total") == 20
    events = parsed(text)["cdc_table_events_total"]
    assert sum(events.values()) == 20
    assert of_table(text, "cdc_table_events_late_total") == 4
    assert of_table(text, "cdc_table_events_read_total", table="stock") is None


def test_the_last_build_is_told(shop: Path) -> None:
    found = parsed(run(shop).stdout)
    labels = (("project", "p"), ("schema", "s"))
    assert found["cdc_build_duration_seconds"] == {labels: 12.5}
    assert found["cdc_build_failed_nodes"] == {labels: 1}
    assert {dict(key)["status"]: n for key, n in found["cdc_build_nodes"].items()} == {
        "success": 1,
        "error": 1,
        "pass": 1,
    }
    nodes = found["cdc_build_node_duration_seconds"]
    assert {dict(key)["node"] for key in nodes} == {"orders_history", "orders"}


def test_names_and_units_follow_the_conventions() -> None:
    for definition in DEFINITIONS:
        name = definition.prometheus_name
        assert re.fullmatch(r"cdc(_[a-z]+)+", name), name
        assert name.endswith("_total") == definition.counts
        assert ("_seconds" in name) == (definition.unit == "s")
        assert ("_bytes" in name) == (definition.unit == "By")
        assert re.fullmatch(r"cdc(\.[a-z_]+){2,}", definition.name)
        assert re.fullmatch(r"s|By|{[a-z]+}", definition.unit)
        assert definition.text.endswith(".")
    names = [definition.prometheus_name for definition in DEFINITIONS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", [ODD, "\\n", '\\"', "\\\\", "", "x\r\ny", "}"])
def test_odd_names_of_tables_come_back_as_they_are(name: str) -> None:
    labels = {"project": "p", "schema": "s", "table": name, "state": "behind"}
    found = parsed(prometheus_text([Sample(STATE, labels, 1)]))
    assert found == {"cdc_table_state": {tuple(sorted(labels.items())): 1}}


def test_each_family_stands_in_one_piece() -> None:
    labels = {"project": "p", "schema": "s", "outcome": "inserted"}
    samples = [
        Sample(definition, {**labels, "table": table}, 1)
        for table in ("a", "b")
        for definition in (LAG, EVENTS)
    ]
    text = prometheus_text(samples)
    kinds = [line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE")]
    assert kinds == [["cdc_table_lag_seconds", "gauge"], ["cdc_table_events_total", "counter"]]


def test_the_file_is_replaced_whole_and_others_may_read_it(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "collector" / "cdc.prom"
    seen: list[list[str]] = []
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        seen.append([path.name for path in file.parent.iterdir() if path.suffix == ".prom"])
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    before = os.umask(0o022)
    try:
        assert run(shop, "--output", str(file)).output == ""
        first = file.read_text()
        assert run(shop, "--output", str(file)).exit_code == 0
    finally:
        os.umask(before)
    assert parsed(first).keys() == parsed(run(shop).stdout).keys()
    # What is half written has another suffix than the one that the collector looks for.
    assert seen == [[], ["cdc.prom"]]
    assert [path.name for path in file.parent.iterdir()] == ["cdc.prom"]
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cdc.prom"
    file.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    ran = run(shop, "--output", str(file))
    assert (ran.exit_code, ran.output) == (2, "cdc: disk full\n")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["cdc.prom"]


def test_a_project_that_is_not_there_is_told(tmp_path: Path) -> None:
    ran = run(tmp_path)
    assert ran.exit_code == 2
    assert "There is no dbt_project.yml" in ran.output


class Collector:
    """An endpoint that keeps what it gets."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kind = self.headers["Content-Type"]
                collector.requests.append((self.path, kind, json.loads(body)))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    endpoint = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.url)
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


def attributes(found: list[dict[str, Any]]) -> dict[str, str]:
    return {one["key"]: one["value"]["stringValue"] for one in found}


def test_opentelemetry_gets_the_same_numbers(shop: Path, collector: Collector) -> None:
    ran = run(shop, "--otlp")
    assert (ran.exit_code, ran.output) == (0, "")
    [(path, kind, body)] = collector.requests
    assert (path, kind) == ("/v1/metrics", "application/json")
    [resource] = body["resourceMetrics"]
    described = attributes(resource["resource"]["attributes"])
    assert described["service.name"] == "dbt-spark-cdc"
    [scope] = resource["scopeMetrics"]
    sent = {one["name"]: one for one in scope["metrics"]}
    known = {definition.name: definition for definition in DEFINITIONS}
    assert all(one["unit"] == known[name].unit for name, one in sent.items())
    printed = parsed(run(shop).stdout)
    assert {known[name].prometheus_name for name in sent} == printed.keys()

    events = sent["cdc.table.events"]["sum"]
    assert events["isMonotonic"] is True
    assert events["aggregationTemporality"] in (2, "AGGREGATION_TEMPORALITY_CUMULATIVE")
    inserted = next(
        point
        for point in events["dataPoints"]
        if attributes(point["attributes"])["cdc.outcome"] == "inserted"
    )
    assert int(inserted["asInt"]) == 8
    assert attributes(inserted["attributes"]) == {
        "cdc.project": "p",
        "cdc.schema": "S",
        "cdc.table": "orders",
        "cdc.outcome": "inserted",
    }
    # Counting began with the first run of the ledger, not with this process.
    assert inserted["startTimeUnixNano"] == "1767225900000000000"
    assert sent["cdc.table.last_change.lag"]["gauge"]["dataPoints"]


def test_otlp_and_a_file_go_together(shop: Path, collector: Collector, tmp_path: Path) -> None:
    ran = run(shop, "--otlp", "--output", str(tmp_path / "cdc.prom"))
    assert (ran.exit_code, ran.output) == (0, "")
    assert len(collector.requests) == 1
    assert parsed((tmp_path / "cdc.prom").read_text())


def test_the_service_can_be_named(
    shop: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    assert run(shop, "--otlp").exit_code == 0
    resource = collector.requests[0][2]["resourceMetrics"][0]["resource"]
    described = attributes(resource["attributes"])
    assert described["service.name"] == "shop"
    assert described["deployment.environment.name"] == "test"


def test_an_endpoint_that_refuses_is_told(shop: Path, collector: Collector) -> None:
    collector.status = 403
    ran = run(shop, "--otlp")
    assert ran.exit_code == 1
    assert f"cdc: {collector.url}/v1/metrics did not take the metrics." in ran.output
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in ran.output
    assert "403" in ran.output


def test_an_endpoint_that_is_no_address_is_told(
    shop: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "collector:4318")
    ran = run(shop, "--otlp")
    assert ran.exit_code == 2
    assert "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is 'collector:4318'" in ran.output
    assert collector.requests == []


def test_a_busy_endpoint_is_asked_until_time_is_up(
    shop: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.status = 503
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    ran = run(shop, "--otlp")
    assert ran.exit_code == 1
    assert len(collector.requests) > 1
    assert ran.output.count("Transient error") == 1


def test_a_variable_that_the_exporter_does_not_understand_is_told(
    shop: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "lzma")
    ran = run(shop, "--otlp")
    assert ran.exit_code == 0
    assert ran.output == "cdc: Unsupported compression type: lzma\n"


def test_without_the_packages_otlp_says_what_to_install(
    shop: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.json.http.metric_exporter", None)
    ran = run(shop, "--otlp")
    assert ran.exit_code == 2
    assert "pip install 'dbt-spark-cdc[otel]'" in ran.output
    assert run(shop).exit_code == 0


def test_the_page_lists_every_metric() -> None:
    text = DOCS.read_text(encoding="utf-8")
    rows = [
        [cell.strip().strip("`") for cell in line.split("|")[1:6]]
        for line in text.splitlines()
        if line.startswith("| `cdc_")
    ]
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        (definition.prometheus_name, definition.name, definition.unit, definition.text)
        for definition in DEFINITIONS
    ]


def test_the_alerts_of_the_page_name_metrics_and_labels_that_are_there() -> None:
    block = DOCS.read_text(encoding="utf-8").split("# cdc_alerts.yml\n")[1].split("\n\n")[0]
    rules = yaml.safe_load(block)["groups"][0]["rules"]
    known = {definition.prometheus_name: definition for definition in DEFINITIONS}
    assert len(rules) == 4
    for rule in rules:
        for name in re.findall(r"cdc_[a-z_]+", rule["expr"]):
            used = re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))
            used += re.findall(r"(\w+)=", rule["expr"].split("{")[1]) if "{" in rule["expr"] else []
            assert set(used) <= set(known[name].labels), rule
