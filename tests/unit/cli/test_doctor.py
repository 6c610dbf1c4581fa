"""`cdc doctor`: each thing that it looks for, broken on purpose."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections import namedtuple
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from dbt.adapters.factory import reset_adapters
from dbt.adapters.sparkcdc.jvm import jars, metastore

from dbt_spark_cdc import doctor
from dbt_spark_cdc.cli import main
from dbt_spark_cdc.project import load_credentials
from tests.unit.cli.warehouses import Delta, ledger_rows

ROOT = Path(__file__).resolve().parents[3]

PROJECT = """\
name: shop
version: 1.0.0
profile: shop
dispatch:
  - {macro_namespace: dbt, search_order: [shop, cdc, dbt]}
on-run-start: "{{ cdc.validate() }}"
on-run-end: "{{ cdc.record_run(results) }}"
"""
SOURCE = """\
sources:
  - name: shop
    tables:
      - name: orders
        config: {meta: {cdc: {format: flagged, keys: [id], sequence_by: at, operation: flag}}}
        columns: [{name: id, data_type: int}]
"""


def profile(folder: Path, output: str) -> Path:
    (folder / "profiles.yml").write_text(f"shop: {{target: a, outputs: {{a: {output}}}}}\n")
    return folder


def checks(folder: Path, *arguments: str, code: int | None = None) -> dict[str, dict[str, Any]]:
    command = ["doctor", "--json", "--project-dir", str(folder), "--profiles-dir", str(folder)]
    ran = CliRunner().invoke(main, [*command, *arguments])
    assert code is None or ran.exit_code == code, ran.output
    return {check["name"]: check for check in json.loads(ran.output)}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project without fault that has the package installed as `dbt deps` does it."""
    folder = tmp_path / "shop"
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "cdc").symlink_to(ROOT)
    (folder / "dbt_project.yml").write_text(PROJECT)
    (folder / "models" / "sources.yml").write_text(SOURCE)
    (folder / "packages.yml").write_text(f"packages: [{{local: '{ROOT}'}}]\n")
    yield profile(folder, "{type: sparkcdc, schema: s}")
    reset_adapters()  # dbt leaves the last one to whoever comes next in this process


def credentials(folder: Path, output: str) -> Any:
    found: Any = load_credentials(profile(folder, output), folder, None)
    found.anchor(folder)
    return found


def test_a_good_project_and_its_faults_without_spark(project: Path) -> None:
    found = checks(project, code=0)
    told = {name: check["finding"] for name, check in found.items() if check["status"] != "ok"}
    assert not set(told) - {"disk", "jars", "memory", "package"}, told
    assert found["declarations"]["finding"] == "no problems in 1 source table"

    path = project / "models" / "sources.yml"
    path.write_text(SOURCE.replace("format: flagged", "format: flaged"))
    finding = checks(project, code=1)["declarations"]["finding"]
    assert "flaged" in finding
    assert "shop.orders" in finding

    (project / "models" / "m.sql").write_text("select * from {{ ref('nowhere') }}")
    assert "nowhere" in checks(project, code=1)["project"]["finding"]
    assert not (project / "warehouse").exists()


RESOLVER = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(
        materialized="incremental", incremental_strategy="merge", unique_key="_event_id"%s
    )
    return resolve_keys(dbt, session, dbt.ref("stg_orders"))
"""


@pytest.mark.parametrize("more", [', file_format="iceberg"', ""])
def test_a_resolver_in_iceberg_is_refused(project: Path, more: str) -> None:
    profile(project, "{type: sparkcdc, schema: s, iceberg_catalog: lake}")
    # What a project says of all its models holds for the resolver as well.
    formats = "models: {+file_format: ICEBERG}" if not more else ""
    (project / "dbt_project.yml").write_text(PROJECT + formats)
    models = project / "models"
    (models / "stg_orders.sql").write_text("{{ cdc.events(source('shop', 'orders')) }}")
    (models / "orders_keys.py").write_text(RESOLVER % more)
    (models / "other.py").write_text(RESOLVER.replace("_event_id", "id") % more)
    finding = checks(project, code=1)["declarations"]["finding"]
    assert "1 problem(s)" in finding
    assert "- orders_keys: it has `file_format: iceberg`" in finding
    assert "the keys of shop.orders" in finding
    assert 'Write `file_format="delta"`' in finding

    (models / "orders_keys.py").write_text(RESOLVER % ', file_format="delta"')
    assert "no problems" in checks(project)["declarations"]["finding"]


def wiring(folder: Path, settings: str) -> dict[str, doctor.Check]:
    return {check.name: check for check in doctor._wiring(folder, yaml.safe_load(settings))}


def test_what_a_project_has_to_say_to_dbt_is_looked_for(project: Path) -> None:
    assert {check.status for check in wiring(project, PROJECT).values()} <= {"ok", "warning"}
    turned = PROJECT.replace("[shop, cdc, dbt]", "[shop, dbt, cdc]")
    remedy = wiring(project, turned)["dispatch"].remedy
    assert "search_order: [shop, cdc, dbt]" in remedy
    found = wiring(project, "name: shop")
    assert found["dispatch"].status == "problem"
    assert 'on-run-start: "{{ cdc.validate() }}"' in found["on-run-start"].remedy
    assert found["on-run-end"].status == "warning"


def test_a_package_that_is_not_installed_is_told(project: Path) -> None:
    (project / "dbt_packages" / "cdc").unlink()
    found = wiring(project, PROJECT)
    assert list(found) == ["package"]
    assert found["package"].status == "problem"
    assert "dbt deps" in found["package"].remedy


def test_no_project_still_has_the_machine_looked_at(tmp_path: Path) -> None:
    found = checks(tmp_path, code=1)
    for name in ("profile", "project"):
        assert found[name]["finding"] == f"There is no dbt_project.yml in {tmp_path}."
        assert found[name]["remedy"] == "Name its folder: --project-dir"
    assert {"java", "jars", "memory", "disk"} <= set(found)


@pytest.mark.parametrize(
    ("output", "status", "said"),
    [
        ("{type: sparkcdc}", "problem", "has no `schema`"),
        ("{type: nonesuch, schema: s}", "problem", "nonesuch"),
        ("{type: sparkcdc, schema: s, method: thrift}", "problem", "type: spark"),
        ("{type: sparkcdc, schema: s", "problem", "profiles.yml"),
        ("{type: spark, method: session, host: h, schema: s}", "warning", "type spark"),
    ],
)
def test_a_profile_that_does_not_fit_is_told(
    project: Path, output: str, status: str, said: str
) -> None:
    check = doctor._profile(profile(project, output), project, None)
    assert check.status == status
    assert said in check.finding + check.remedy
    assert check.remedy


def test_a_target_that_is_not_there_is_told(project: Path) -> None:
    assert "prod" in doctor._profile(project, project, "prod").finding


def test_no_java_is_told_with_the_ways_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    check = doctor._java()
    assert check.status == "problem"
    assert "Spark needs Java 17 or 21" in check.finding
    assert "apt-get install" in check.remedy


def test_jars_that_were_never_fetched_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBT_SPARK_CDC_CACHE", str(tmp_path))
    check = doctor._jars({"spark.jars.packages": "a:b:1"})
    assert (check.status, "a:b:1" in check.finding) == ("warning", True)
    assert "python -m dbt.adapters.sparkcdc.prepare" in check.remedy
    home = jars._home(jars.packages({"spark.jars.packages": "a:b:1"}))
    home.mkdir(parents=True)
    (home / "x.jar").touch()
    assert doctor._jars({"spark.jars.packages": "a:b:1"}).status == "ok"


@pytest.mark.parametrize(
    ("asked", "machine", "status"),
    [
        ("4g", 16, "ok"),
        ("15g", 16, "warning"),
        ("64g", 16, "problem"),
        ("65536", 16, "problem"),  # MiB
        ("lots", 16, "problem"),
        ("512m", 1, "warning"),
    ],
)
def test_memory_is_compared_with_the_machine(
    monkeypatch: pytest.MonkeyPatch, asked: str, machine: int, status: str
) -> None:
    monkeypatch.setattr(doctor, "machine_memory", lambda: machine * doctor.GIB)
    check = doctor._memory({"spark.driver.memory": asked})
    assert (check.status, bool(check.remedy)) == (status, status != "ok")


def test_folders_that_cannot_be_made_are_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "file").touch()
    creds = credentials(project, "{type: sparkcdc, schema: s, warehouse: file/x}")
    warehouse, log = doctor._paths(creds)
    assert (warehouse.status, log.status) == ("problem", "ok")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert [check.status for check in doctor._paths(creds)] == ["problem", "problem"]


@pytest.mark.skipif(metastore.fcntl is None, reason="this system has no such locks")
def test_a_warehouse_that_is_held_is_told_with_its_holder(project: Path) -> None:
    creds = credentials(project, "{type: sparkcdc, schema: s}")
    assert doctor._metastore(creds).status == "ok"
    assert not Path(creds.warehouse).exists()
    holder = metastore.hold(Path(creds.warehouse) / ".metastore")
    try:
        check = doctor._metastore(creds)
    finally:
        metastore.release(holder)
    assert check.status == "warning"
    assert f"(process {os.getpid()})" in check.finding
    assert "Wait until" in check.remedy
    assert doctor._metastore(creds).status == "ok"


@pytest.mark.parametrize(
    ("setting", "status"),
    [
        ("spark.sql.session.timeZone: Europe/Berlin", "warning"),
        ("spark.driver.extraJavaOptions: '-Duser.timezone=Asia/Tokyo'", "warning"),
        ("spark.driver.extraJavaOptions: '-Xss4m'", "ok"),
        ("spark.sql.session.timeZone: utc", "ok"),
    ],
)
def test_time_zones_are_told(project: Path, setting: str, status: str) -> None:
    output = f"{{type: sparkcdc, schema: s, server_side_parameters: {{{setting}}}}}"
    zone, clock = doctor._time(credentials(project, output))
    assert (zone.status, clock.status) == (status, "ok")


def test_a_clock_behind_the_last_run_is_told(project: Path) -> None:
    creds = credentials(project, "{type: sparkcdc, schema: s}")
    row = {"run_id": "a", "run_started_at": datetime(2026, 1, 1), "node": "x", "seconds": 1.0}
    century = 100 * 365 * 24 * 60
    Delta(Path(creds.warehouse) / "s.db" / "cdc_runs").commit(century, ledger_rows(row))
    _, clock = doctor._time(creds)
    assert clock.status == "warning"


@pytest.mark.parametrize(("free", "status"), [(0.5, "problem"), (3, "warning"), (50, "ok")])
def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, free: float, status: str) -> None:
    usage = namedtuple("usage", "total used free")
    size = int(free * doctor.GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2 * size, size, size))
    assert {check.status for check in doctor._disk(None)} == {status}


def test_a_server_that_does_not_answer_is_told() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert doctor._server(f"sc://127.0.0.1:{port}").status == "problem"
        server.listen()
        assert doctor._server(f"sc://127.0.0.1:{port}/;user_id=x").status == "ok"


def test_packages_of_another_version_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "requires", lambda name: ["pyspark==3.5.*", "nonesuch>=1"])
    (check,) = doctor._versions()
    assert check.status == "problem"
    assert "is not ==3.5.*" in check.finding
    assert "nonesuch is missing" in check.finding
