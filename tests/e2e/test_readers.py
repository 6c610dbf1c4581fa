"""What delta-rs, DuckDB and pyiceberg read of the tables, in every way of writing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import pytest
from dbt.tests.util import run_dbt, write_file
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.table import StaticTable

from tests.functional.history.tables import append

CATALOG = "ice"
WAYS = {
    "delta": "file_format='delta'",
    "delta_cow": "file_format='delta', write_mode='copy-on-write'",
    "lake": "file_format='iceberg'",
    "lake_cow": "file_format='iceberg', write_mode='copy-on-write'",
    "lake_3": "file_format='iceberg', format_version=3",
}
SOURCES = """
version: 2
sources:
  - name: app
    schema: "{{ target.schema }}"
    config: {meta: {cdc: {format: flagged, keys: [id], sequence_by: seq, operation: op,
      arrival: batch, event_time: seen MORE}}}
    tables:
      - name: items
        columns:
          - {name: id, data_type: int}
          - {name: NAME, data_type: string}
          - {name: price, data_type: 'decimal(12,2)'}
          - {name: day, data_type: date}
          - {name: tags, data_type: 'array<string>'}
          - {name: place, data_type: 'struct<x:int,y:double>'}
          - {name: seen, data_type: timestamp}
"""
FINAL = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key=['id'],
    {written}) }}}}
{{{{ cdc.current(ref('{name}_history')) }}}}
"""
RAW = (
    "id int, seq int, op string, name string, title string, price decimal(12,2), day date,"
    " tags array<string>, place struct<x:int,y:double>, seen timestamp, batch int"
)


def snapshots() -> str:
    text = "version: 2\nsnapshots:\n"
    for name, written in WAYS.items():
        given = written.replace("=", ": ").replace("'", "")
        text += (
            f"  - name: {name}_history\n    relation: ref('stg_items')\n"
            f"    config: {{strategy: cdc.scd2, unique_key: [id], {given}}}\n"
        )
    return text


def with_name(name: str, renames: str = "") -> str:
    return SOURCES.replace("NAME", name).replace(" MORE", renames)


def of_delta_rs(path: Path) -> Any:
    query = QueryBuilder().register("t", DeltaTable(str(path)))
    return pyarrow.table(query.execute("select * from t").read_all())


def of_duckdb(path: Path) -> Any:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for extension in ("avro", "iceberg", "delta"):
        folder = Path(import_module(f"duckdb_extension_{extension}").__path__[0])
        (file,) = folder.glob(f"extensions/*/{extension}.duckdb_extension")
        connection.execute(f"load '{file}'")
    function = "iceberg_scan" if (path / "metadata").is_dir() else "delta_scan"
    return connection.execute(f"select * from {function}('{path}')").to_arrow_table()


def of_pyiceberg(path: Path) -> Any:
    newest = (path / "metadata" / "version-hint.text").read_text().strip()
    table = StaticTable.from_metadata(str(path / "metadata" / f"v{newest}.metadata.json"))
    return table.scan().to_arrow()


READERS: dict[str, list[Callable[[Path], Any]]] = {
    "delta": [of_delta_rs, of_duckdb],
    "lake": [of_pyiceberg, of_duckdb],
}


class TestReaders:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        return {**dbt_profile_target, "iceberg_catalog": CATALOG}

    @pytest.fixture(scope="class")
    def packages(self) -> dict[str, Any]:
        return {"packages": [{"local": str(Path(__file__).parents[2])}]}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"dispatch": [{"macro_namespace": "dbt", "search_order": ["test", "cdc", "dbt"]}]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {name: FINAL.format(name=name, written=way) for name, way in WAYS.items()}
        return {f"{name}.sql": text for name, text in models.items()} | {
            "sources.yml": with_name("name"),
            "stg_items.sql": "{{ cdc.events(source('app', 'items')) }}",
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return {"snapshots.yml": snapshots()}

    @pytest.fixture
    def built(self, project: Any, spark: Any) -> Iterator[Any]:
        run_dbt(["deps"])
        yield spark

    def test_rows_are_those_of_spark(self, project: Any, built: Any) -> None:
        raw = f"{project.test_schema}.items"

        def event(key: int, seq: int, op: str, batch: int) -> tuple[Any, ...]:
            name = None if key % 7 == 0 else f"{op}{seq} é"
            place = None if key % 5 == 0 else (key, seq / 8)
            day = f"20{10 + key % 10}-02-28"
            seen = f"2026-01-{1 + seq % 28:02d} 12:30:00.123456"
            return (key, seq, op, name, name, f"{seq}.25", day, [op, None], place, seen, batch)

        def arrive(batch: int, *events: tuple[int, int, str]) -> None:
            frame = [event(*each, batch) for each in events]
            columns = RAW.replace("decimal(12,2)", "string").replace(" date", " string")
            rows = built.createDataFrame(frame, columns.replace(" timestamp", " string"))
            kinds = [part.strip().split(" ", 1) for part in RAW.split(", ")]
            typed = rows.selectExpr(*[f"cast({name} as {kind}) as {name}" for name, kind in kinds])
            append(built, raw, typed.collect(), typed.schema)

        arrive(1, *[(key, key, "I") for key in range(1, 60)])
        run_dbt(["build"])
        arrive(2, *[(key, key + 100, "U") for key in range(5, 20)], (30, 130, "D"), (61, 161, "I"))
        run_dbt(["build"])
        # A late event, a delete that ends, and a column with another name.
        arrive(3, (8, 50, "U"), (30, 140, "I"), (9, 150, "D"), (10, 151, "U"))
        write_file(
            with_name("title", ", renames: {title: name}"),
            project.project_root,
            "models",
            "sources.yml",
        )
        run_dbt(["build", "--no-partial-parse"])
        self.compare(project, built)
        operation = ["run-operation", "cdc_optimize"]
        run_dbt([*operation, "--args", "{dry_run: false, min_small_files: 2}"])
        self.compare(project, built)

    def compare(self, project: Any, spark: Any) -> None:
        problems = []
        for way in WAYS:
            kind = way.partition("_")[0]
            for table in (way, f"{way}_history"):
                name = f"{project.test_schema}.{table}"
                if kind == "lake":
                    name = f"{CATALOG}.{name}"
                rows = spark.table(name)
                path = (
                    Path(spark.sql(f"select file from {name}.metadata_log_entries").first()[0])
                    if kind == "lake"
                    else Path(spark.sql(f"describe detail {name}").first()["location"])
                )
                path = Path(str(path).removeprefix("file:"))
                path = path.parents[1] if kind == "lake" else path
                for read in READERS[kind]:
                    expected = ordered(rows.toArrow(), read)
                    assert len(expected) > 40
                    try:
                        found = ordered(read(path), read)
                    except Exception as exc:
                        problems.append(f"{read.__name__} {table}: {type(exc)} {str(exc)[:300]}")
                        continue
                    if found != expected:
                        first = [
                            pair
                            for pair in zip(found, expected, strict=False)
                            if pair[0] != pair[1]
                        ][:1]
                        problems.append(
                            f"{read.__name__} {table}: {len(found)} of {len(expected)}: {first}"
                        )
        assert not problems, "\n".join(problems)


def ordered(table: Any, read: Callable[[Path], Any]) -> list[str]:
    """Rows as text, in an order; what pyiceberg reads of a NULL list of structs is an empty one."""
    without = ["_events"] if read is of_pyiceberg and "_events" in table.column_names else []
    return sorted(str(sorted(row.items())) for row in table.drop_columns(without).to_pylist())
