"""A warehouse in S3: the example, two processes that write the same tables, and bad addresses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import build
from tests.e2e.many import Many
from tests.e2e.test_cluster import SHOP

pytest.importorskip("moto.moto_server", reason="moto is missing: run `make e2e`")

from tests.e2e.object_store import BUCKET, KEYS, Store, s3_server
from tests.pages import ROOT, codes_of

PAGE = Path("docs/object_stores.md")
WAREHOUSE = f"s3a://{BUCKET}/warehouse"
TABLES = 3
APPENDS = 20
DBT = [sys.executable, "-c", "from dbt.cli.main import cli; cli()"]
SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": 1,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": False,
}
# What a metastore forgot: tables that are there.
REGISTER = """
{% macro register() %}
    {% do run_query("create database if not exists many") %}
    {% for table in var("tables") %}
        {% set location = target.warehouse ~ "/many.db/" ~ table %}
        {% set there = " using delta location '" ~ location ~ "'" %}
        {% do run_query("create table many." ~ table ~ there) %}
    {% endfor %}
{% endmacro %}

{% macro append(writer) %}
    {% do run_query("create database if not exists many") %}
    {% set columns = "(writer int, number int)" %}
    {% do run_query("create table if not exists many.appended " ~ columns ~ " using delta") %}
    {% for number in range(var("appends")) %}
        {% do run_query("insert into many.appended values (" ~ writer ~ ", " ~ number ~ ")") %}
    {% endfor %}
{% endmacro %}
"""


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_server() as found:
        yield found


def profile(name: str, schema: str, store: Store, **more: Any) -> str:
    """The page's profile, for the server of the test."""
    given = yaml.safe_load(next(codes_of(PAGE, ROOT)).text)["shop"]["outputs"]["lake"]
    settings = given["server_side_parameters"] | SMALL
    settings |= {
        "spark.hadoop.fs.s3a.endpoint": store.endpoint,
        "spark.hadoop.fs.s3a.path.style.access": True,
    }
    place = {"warehouse": WAREHOUSE, "schema": schema, "metastore": "{{ env_var('METASTORE') }}"}
    lake = given | place | {"threads": 4, "server_side_parameters": settings} | more
    return yaml.safe_dump({name: {"target": "lake", "outputs": {"lake": lake}}})


def test_the_shop(store: Store, tmp_path: Path) -> None:
    """Two builds, landing included; its tests compare each table with the source's snapshot."""
    shop = tmp_path / "shop"
    for part in SHOP:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        (shop / part).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / part, shop / part)
    (shop / "profiles.yml").write_text(profile("cdc", "shop", store))
    first, *others = build.captured(ROOT / "data").values()
    landing = f"s3a://{BUCKET}/landing"
    places = {"cdc_landing": landing, "cdc_truth": str(ROOT / "data" / "truth")}

    def dbt(*arguments: str) -> tuple[int, str]:
        ran = subprocess.run(
            [*DBT, *arguments, "--vars", json.dumps(places)],
            cwd=shop,
            env=os.environ
            | KEYS
            | {"CDC_REFERENCE_PROJECT": "1", "DBT_PROFILES_DIR": str(shop)}
            | {"METASTORE": str(tmp_path / "metastore")},
            capture_output=True,
            text=True,
        )
        return ran.returncode, ran.stdout + ran.stderr

    for files, options in (
        (first, ["--exclude", "tag:final"]),
        ([file for batch in others for file in batch], []),
    ):
        for file in files:
            store.put(file, f"landing/{file.relative_to(ROOT / 'data')}")
        status, said = dbt("build", "--exclude-resource-type", "unit_test", *options)
        assert not status, said
    assert " ERROR=0 " in said and "cdc_matches_source" in said
    assert not (shop / "warehouse").exists()
    tables = {name.split("/")[2] for name in store.names("warehouse/shop.db/")}
    assert {"orders", "orders_history", "landing", "cdc_runs"} <= tables
    # An erasure has to read and remove files itself, and must not end half way.
    arguments = {"table": "customers", "where": "customer_id = 1", "dry_run": False}
    status, said = dbt("run-operation", "cdc_erase", "--args", json.dumps(arguments))
    assert status and "on a disk of this machine" in said, said
    assert not store.names("warehouse/shop.db/cdc_erased")


@pytest.fixture
def two(store: Store, tmp_path: Path) -> list[Many]:
    """The same project for two processes, each with a metastore of its own."""
    projects = []
    for name in ("one", "other"):
        metastore = str(tmp_path / name / "metastore")
        many = Many(tmp_path / name, TABLES, KEYS | {"METASTORE": metastore})
        (many.folder / "profiles.yml").write_text(profile("many", "many", store))
        (many.folder / "macros" / "register.sql").write_text(REGISTER)
        projects.append(many)
    # Both read the same raw tables.
    shutil.rmtree(projects[1].raw)
    projects[1].raw.symlink_to(projects[0].raw)
    return projects


def run(many: Many, *arguments: str) -> str:
    status, said = many.dbt(*arguments)
    assert not status, said
    return said


def shown(many: Many, sql: str) -> list[Any]:
    said = run(many, "--quiet", "show", "--inline", sql, "--output", "json", "--limit", "-1")
    return [tuple(row.values()) for row in json.loads(said[said.index("{") :])["show"]]


def test_two_processes_build_the_same_tables(two: list[Many], store: Store) -> None:
    """Each event is in the tables once, whoever read it."""
    one, other = two
    run(one, "run-operation", "make_raw")
    one.build()
    names = [name for table in one.tables for name in (table, f"{table}_history")]
    run(other, "run-operation", "make_raw")
    run(other, "run-operation", "register", "--vars", json.dumps({"tables": names}))
    for _ in range(2):
        one.put()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Many.build, two))
    current = " union all ".join(f"select '{t}' as t, id, v from many.{t}" for t in one.tables)
    versions = " union all ".join(
        f"select '{t}' as t, id, v, dbt_valid_from, count(*) as n from many.{t}_history"
        " group by all"
        for t in one.tables
    )
    for many in two:
        assert sorted(shown(many, current)) == sorted(one.expected())
        assert {row[-1] for row in shown(many, versions)} == {1}


def test_every_commit_of_two_processes_stays(two: list[Many], store: Store) -> None:
    """Delta's own log store loses some of them, without a word."""
    run(two[0], "run-operation", "append", "--args", "{writer: 9}", "--vars", "{appends: 1}")
    run(two[1], "run-operation", "register", "--vars", "{tables: [appended]}")
    refused = store.refused

    def append(writer: int) -> str:
        arguments = json.dumps({"writer": writer})
        count = json.dumps({"appends": APPENDS})
        return run(two[writer], "run-operation", "append", "--args", arguments, "--vars", count)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(append, range(2)))
    counted = "select writer, count(distinct number) as n from many.appended group by writer"
    assert sorted(shown(two[0], counted)) == [(0, APPENDS), (1, APPENDS), (9, 1)]
    assert store.refused > refused, "they never met: the test proves nothing"


def test_a_bucket_that_is_not_there_is_named(two: list[Many], store: Store) -> None:
    many = two[0]
    text = profile("many", "many", store, warehouse="s3a://nowhere/warehouse")
    (many.folder / "profiles.yml").write_text(text)
    status, said = many.dbt("run-operation", "make_raw")
    assert status and "nowhere" in said and "\tat " not in said, said
