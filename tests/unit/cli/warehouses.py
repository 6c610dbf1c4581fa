"""Projects with Delta tables, written without Spark."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from dbt.adapters.sparkcdc.session.statement_log import FILE as STATEMENTS
from pyarrow import parquet

TYPES = {
    "int64": "long",
    "string": "string",
    "null": "long",
    "timestamp[us]": "timestamp",
    "double": "double",
    "date32[day]": "date",
    "decimal128(14, 2)": "decimal(14,2)",
}
# 2026-01-01 00:00:00 UTC.
DAY = 1767225600000

COUNTED = {
    "read": 10,
    "inserted": 4,
    "updated": 3,
    "deleted": 1,
    "unchanged": 0,
    "duplicate": 1,
    "late": 2,
    "tied": 0,
    "quarantined": 1,
    "left_out": 0,
    "watermark_before": None,
    "watermark_after": 1,
}


class Delta:
    """A Delta table that grows by commits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = -1

    def commit(
        self,
        minutes: int,
        rows: pa.Table | None = None,
        checkpoint: dict[str, Any] | None = None,
        partition: dict[str, str] | None = None,
        actions: list[dict[str, Any]] | None = None,
        **file: Any,
    ) -> Delta:
        """Writes a commit, so many minutes after the first of January."""
        self.version += 1
        at = DAY + minutes * 60_000
        log = self.folder / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        info = {"timestamp": at, "operation": "WRITE"}
        if checkpoint:
            info["userMetadata"] = json.dumps({"cdc": f"s.{self.folder.name}", **checkpoint})
        lines: list[dict[str, Any]] = [{"commitInfo": info}]
        if self.version == 0:
            fields = [
                {"name": field.name, "type": TYPES[str(field.type)], "metadata": {}}
                for field in ([] if rows is None else rows.schema)
            ]
            schema = json.dumps({"type": "struct", "fields": fields})
            lines.append({"metaData": {"schemaString": schema, "configuration": {}}})
        if rows is not None:
            path = f"part {self.version}.parquet"
            kept = rows.drop_columns(list(partition or {}))
            parquet.write_table(kept, self.folder / path)
            added = {
                "path": path.replace(" ", "%20"),
                "partitionValues": partition or {},
                "size": (self.folder / path).stat().st_size,
                "modificationTime": at,
                "dataChange": True,
                "stats": json.dumps(stats_of(kept)),
            }
            lines.append({"add": added | file})
        text = "".join(json.dumps(line) + "\n" for line in [*lines, *(actions or [])])
        (log / f"{self.version:020}.json").write_text(text)
        return self


def stats_of(rows: pa.Table) -> dict[str, Any]:
    """Statistics as Delta writes them."""
    least, most = {}, {}
    for name in rows.column_names:
        values = [value for value in rows[name].to_pylist() if value is not None]
        if values and isinstance(values[0], datetime):
            values = [value.isoformat() + "Z" for value in values]
        elif values and not isinstance(values[0], (int, float, str)):
            continue
        if values:
            least[name], most[name] = min(values), max(values)
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": most, "nullCount": {}}


def raw_rows(table: str, batch: int, count: int = 3) -> pa.Table:
    """Rows of a landed raw table."""
    return pa.table({"_table": [table] * count, "_batch": [batch] * count, "value": ["{}"] * count})


def ledger_rows(*rows: dict[str, Any]) -> pa.Table:
    """Rows of `cdc_runs`."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        counters = {("" if "watermark" in k else "events_") + k: v for k, v in COUNTED.items()}
        for name, value in {**counters, **row}.items():
            columns.setdefault(name, []).append(value)
    return pa.table(columns)


def node(
    name: str, kind: str, above: list[str], macros: list[str] = (), **config: Any
) -> dict[str, Any]:
    """A node of a manifest."""
    return {
        "unique_id": f"{kind}.p.{name}",
        "resource_type": kind,
        "name": name,
        "alias": name,
        "schema": "S",
        "relation_name": f"s.{name}",
        "language": "sql",
        "config": {"materialized": "snapshot" if kind == "snapshot" else "incremental", **config},
        "depends_on": {"nodes": above, "macros": list(macros)},
    }


def source(name: str, **declared: Any) -> dict[str, Any]:
    """A source of a manifest."""
    return {
        "unique_id": f"source.p.shop.{name}",
        "resource_type": "source",
        "source_name": "shop",
        "name": name,
        "identifier": "Shop",
        "schema": "raw",
        "source_meta": {"cdc": {"format": "wal2json_v2"}},
        "config": {"meta": {"cdc": {"keys": ["id"], **declared}}},
        "columns": {"id": {"name": "id", "data_type": "int"}},
    }


def manifest(*tables: str, **declared: Any) -> dict[str, Any]:
    """A project of tables with histories, all landed into one raw table."""
    nodes, sources = [], []
    for table in tables:
        sources.append(source(table, **{"landed": True, **declared}))
        staging, history = f"model.p.stg_{table}", f"snapshot.p.{table}_history"
        nodes += [
            node(
                f"stg_{table}",
                "model",
                [sources[-1]["unique_id"]],
                ["macro.cdc.events"],
                materialized="view",
            ),
            node(f"{table}_history", "snapshot", [staging], strategy="cdc.scd2"),
            node(table, "model", [history], ["macro.cdc.current"]),
        ]
    return {
        "metadata": {"project_name": "p"},
        "nodes": {one["unique_id"]: one for one in nodes},
        "sources": {one["unique_id"]: one for one in sources},
    }


def project(folder: Path, *tables: str, target: str = "{type: sparkcdc, schema: s}") -> Path:
    """A project without tables; their folders come from `Delta`."""
    (folder / "target").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: p\nversion: 1.0.0\nprofile: p\n")
    (folder / "profiles.yml").write_text(f"p: {{target: a, outputs: {{a: {target}}}}}\n")
    (folder / "target" / "manifest.json").write_text(json.dumps(manifest(*tables)))
    return folder


def charted(
    folder: Path, name: str, chart: Any, rows: pa.Table | None, **config: Any
) -> Delta | None:
    """Adds a model with a chart to a project, and its table where it has rows."""
    path = folder / "target" / "manifest.json"
    found = json.loads(path.read_text())
    added = node(
        name, "model", [], **{"materialized": "table", "meta": {"cdc_chart": chart}, **config}
    )
    found["nodes"][added["unique_id"]] = added
    path.write_text(json.dumps(found))
    if rows is None:
        return None
    return Delta(folder / "warehouse" / "s.db" / name).commit(0, rows)


def results(folder: Path, *statuses: tuple[str, str, str], command: str = "build") -> None:
    """dbt's target/run_results.json: node, status and message."""
    found = {
        "metadata": {"invocation_id": "r9", "invocation_started_at": "2026-01-01T01:00:00Z"},
        "args": {"which": command},
        "elapsed_time": 12.5,
        "results": [
            {
                "unique_id": unique_id,
                "status": status,
                "message": message,
                "execution_time": 1.5 + place,
                "timing": [{"completed_at": "2026-01-01T01:00:09Z"}],
            }
            for place, (unique_id, status, message) in enumerate(statuses)
        ],
    }
    (folder / "target" / "run_results.json").write_text(json.dumps(found))


def statements(folder: Path, *recorded: tuple[str, str, float, str]) -> None:
    """What `log_statements` leaves: run, node, seconds and SQL."""
    lines = [
        {"run_id": run, "node": unique_id, "seconds": seconds, "failed": False, "sql": sql}
        for run, unique_id, seconds, sql in recorded
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "target" / STATEMENTS).write_text(text)


def table(rows: dict[str, list[Any]]) -> pa.Table:
    """A table of Arrow."""
    return pa.table(rows)


def built(folder: Path, name: str, raw_versions: int = 1) -> tuple[Delta, Delta]:
    """History and final table of a project's table, that have read so many raw versions."""
    warehouse = folder / "warehouse" / "s.db"
    history, final = Delta(warehouse / f"{name}_history"), Delta(warehouse / name)
    for number in range(raw_versions):
        run = {"id": f"r{number}", "table": f"shop.{name}", "counters": COUNTED}
        checkpoint = {"read_to": number, "raw_version": number, "run": run}
        rows = pa.table({"id": [1, 2], "dbt_updated_at": ["2026-01-01T00:00:00.000Z"] * 2})
        history.commit(10 + 20 * number, rows, checkpoint)
        current = pa.table({"id": [1], "_cdc_updated_at": ["2026-01-01T00:00:00.000Z"]})
        final.commit(11 + 20 * number, current, {"version": number, "history": "r0"})
    return history, final
