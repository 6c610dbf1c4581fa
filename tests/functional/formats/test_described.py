"""What `cdc describe` prints builds as it stands, and reads each event of the sample."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
import yaml
from click.testing import CliRunner

from dbt_spark_cdc.cli import main
from dbt_spark_cdc.words import quoted
from tests.functional.formats.decoding import Decoding, source_yaml
from tests.unit.cli.test_describe import FORMATS, POSITIONS, without

pytestmark = pytest.mark.extended

TABLES = {
    "flagged": "flag,emp_no,salary,seq\n i,7,10.50,9\nU,7,11.00,10\nD,7,,11\n",
    "flagged_by_time": "op,id,changed_at\nI,1,2026-01-01 10:00:00Z\nU,1,2026-01-02 10:00:00Z\n",
    "odd_names": "op,id,back`tick,_op,seq\nI,1,2,3,1\nU,1,3,4,2\n",
    "dms_files": "Op,id,BI_id,scn\nI,1,,1\nU,2,1,2\n",
}
# Rows that arrive once a sample was described: a cast that threw would stop the whole table.
ARRIVES = {"flagged_by_time": "U,1,n/a\n"}


def samples() -> dict[str, list[Any]]:
    """Events of each format, and the same without a position."""
    found = {name.replace(" ", "_"): events for name, (events, _) in FORMATS.items()}
    for name, (missing, order) in POSITIONS.items():
        if missing and order != "TODO":
            found[f"{name.replace(' ', '_')}_bare"] = without(FORMATS[name][0], *missing)
    return found


def described(path: Any) -> dict[str, Any]:
    """The one declaration that is printed for a sample."""
    said = CliRunner().invoke(main, ["describe", str(path), "--yaml"]).output
    ((table,),) = (source["tables"] for source in yaml.safe_load(said)["sources"])
    columns = {column["name"]: column["data_type"] for column in table["columns"]}
    return {**table["config"]["meta"]["cdc"], "columns": columns}


def rows_sql(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0])
    lines = (
        ", ".join(json.dumps(row[name]) if row[name] != "" else "null" for name in names)
        for row in rows
    )
    values = ", ".join(f"({values})" for values in lines)
    return f"select * from values {values} as t ({', '.join(map(quoted, names))})"


class TestDescribed(Decoding):
    sources: ClassVar[dict[str, Any]] = {}
    raw: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(scope="class")
    def models(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("samples")
        for name, events in samples().items():
            path = folder / f"{name}.jsonl"
            path.write_text("".join(json.dumps(event) + "\n" for event in events))
            self.sources[name] = described(path)
            if name == "delta_cdf":
                self.raw[name] = rows_sql(events)
            else:  # beside a message key stands the event
                self.raw[name] = [e.get("value", e) if "key" in e else e for e in events]
        for name, text in TABLES.items():
            path = folder / f"{name}.csv"
            path.write_text(text)
            self.sources[name] = described(path)
            lines = [line.split(",") for line in (text + ARRIVES.get(name, "")).splitlines()]
            names, *lines = lines
            self.raw[name] = rows_sql([dict(zip(names, line, strict=True)) for line in lines])
        models = {"sources.yml": source_yaml(self.sources)}
        for name in self.sources:
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            models[f"{name}_quarantine.sql"] = f"{{{{ cdc.quarantine(source('app', '{name}')) }}}}"
        return models

    def test_each_event_is_read(self, built: Any) -> None:
        bad = {
            name: [row["_reason"] for row in built(f"{name}_quarantine")] for name in self.sources
        }
        assert {name: found for name, found in bad.items() if found} == {
            "flagged_by_time": ["no sequence; no event time"]
        }
        empty = [name for name in self.sources if not built(f"stg_{name}")]
        assert empty == []
