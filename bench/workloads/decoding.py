"""D: the staging SELECT of each format, beside a bare from_json of the same bytes and DuckDB."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
from dbt.adapters.sparkcdc.jvm.settings import cpu_cores

from bench.data import SCHEMA
from bench.results import Results
from bench.scales import Scale
from bench.session import Project, Timing, Workshop, as_yaml
from bench.systems.base import timed
from bench.workloads.formats import COLUMNS, EVENTS, FORMATS, Format

NAMES = ("D",)
# What tells whether the values came through, in the SQL of both.
SUMS = (
    "count(*), sum(id), sum(length(name)), sum(amount), sum(quantity),"
    " sum(year(noted_at) + minute(noted_at) + second(noted_at))"
)


def run(workshop: Workshop, scale: Scale, wanted: set[str], results: Results) -> None:
    """Measures the wanted workloads.

    Args:
        workshop: Where to work.
        scale: How large.
        wanted: Names of workloads.
        results: Gets what was measured.
    """
    for name, form in FORMATS.items():
        _write(workshop, name, form, scale.messages)
    project = _project(workshop)
    project.dbt("run")
    connection = duckdb.connect()
    connection.execute(f"set threads = {cpu_cores()}")
    connection.execute("set TimeZone = 'UTC'")
    for name, form in FORMATS.items():
        _measure(workshop, connection, project.name, name, form, scale, results)
    connection.close()


def _write(workshop: Workshop, name: str, form: Format, count: int) -> None:
    columns = [*form.columns, *([f"{form.message} as value"] if form.message else [])]
    events = workshop.spark.sql(EVENTS.format(count=count)).selectExpr(*columns)
    parts = 2 * cpu_cores()
    events.repartition(parts).write.format("delta").saveAsTable(f"{SCHEMA}.raw_{name}")


def _project(workshop: Workshop) -> Project:
    tables = [
        {
            "name": name,
            "identifier": f"raw_{name}",
            "config": {"meta": {"cdc": {"format": name, "keys": ["id"], **form.options}}},
            "columns": [{"name": column, "data_type": kind} for column, kind in COLUMNS.items()],
        }
        for name, form in FORMATS.items()
    ]
    files = {
        "models/sources.yml": as_yaml(
            {"version": 2, "sources": [{"name": "log", "schema": SCHEMA, "tables": tables}]}
        )
    }
    for name in FORMATS:
        files[f"models/stg_{name}.sql"] = (
            "{{ config(materialized='view') }}\n"
            f"{{{{ cdc.events(source('log', '{name}')) }}}}\n"
        )
    folder = workshop.folder / "projects" / "decoding"
    return Project("decoding", folder, workshop.folder, files, True)


def _measure(
    workshop: Workshop,
    connection: duckdb.DuckDBPyConnection,
    schema: str,
    name: str,
    form: Format,
    scale: Scale,
    results: Results,
) -> None:
    spark = workshop.spark
    raw = f"{SCHEMA}.raw_{name}"
    size = f"sum(length({'value' if form.message else 'to_json(struct(*))'}))"
    first = spark.table(raw).selectExpr(size).first()
    assert first is not None
    megabytes = first[0] / 1e6
    parsed = f"from_json(value, '{form.spark_schema}') as message"
    bare = f"select {parsed} from {raw}" if form.spark_schema else f"select * from {raw}"
    events = f"read_parquet('{workshop.folder}/warehouse/{SCHEMA}.db/raw_{name}/*.parquet')"
    duck = form.duck.replace("{events}", events)
    columns = f"op, seq, {', '.join(COLUMNS)}"

    def through_spark(sql: str) -> Callable[[], object]:
        # The sink that throws away everything, once it is computed.
        return lambda: spark.sql(sql).write.format("noop").mode("overwrite").save()

    works: dict[str, Callable[[], object]] = {
        "cdc": through_spark(f"select * from {schema}.stg_{name}"),
        "spark_from_json": through_spark(bare),
        # The hash stands for the event's id, and makes DuckDB compute every column.
        "duckdb": lambda: connection.execute(
            f"select bit_xor(hash({columns})), bit_xor(hash(ts)) from ({duck})"
        ).fetchall(),
    }
    timings: dict[str, list[Timing]] = {system: [] for system in works}
    for number in range(1 + scale.decode_repeats):  # the first one warms up
        for system, work in list(works.items()):
            try:
                timing = timed(work)
            except Exception as exc:
                results.fail(f"D {name}", system, exc)
                del works[system]
                del timings[system]
                continue
            if number:
                timings[system].append(timing)
    for system, measured in timings.items():
        results.add(f"D {name}", system, measured)
        seconds = results.seconds[f"D {name}"][system] or 0.001
        results.details[f"D {name}"][system] |= {
            "events_per_second": round(scale.messages / seconds),
            "megabytes_per_second": round(megabytes / seconds, 1),
        }
    expected = _sums(
        spark.sql(f"select {SUMS} from ({EVENTS.format(count=scale.messages)}) where op <> 'D'")
    )
    if "cdc" in timings:
        found = _sums(spark.sql(f"select {SUMS} from {schema}.stg_{name} where _op <> 'D'"))
        results.judge([f"D {name}"], "cdc", found == expected)
    if "duckdb" in timings:
        row = connection.execute(f"select {SUMS} from ({duck}) where op <> 'D'").fetchone()
        results.judge([f"D {name}"], "duckdb", [str(value) for value in row or ()] == expected)


def _sums(frame: object) -> list[str]:
    return [str(value) for value in frame.first()]  # type: ignore[attr-defined]
