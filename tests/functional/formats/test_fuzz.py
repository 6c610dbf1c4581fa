"""Whatever a source sends, the run goes on; each row ends as event, in quarantine, or counted."""

from __future__ import annotations

import json
import os
import re
import time
from functools import partial
from typing import Any, ClassVar

import pytest
from dbt.tests.util import run_dbt

from tests.functional.formats.decoding import Decoding, source_yaml
from tests.functional.formats.hostile import (
    COLUMNS,
    MESSAGES,
    TYPED,
    VALUES,
    draw_rows,
    message,
    typed,
)

pytestmark = pytest.mark.extended

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "100"))
SEED = int(os.environ.get("FUZZ_SEED", "20261121"))

ROWS = {name: COLUMNS[name] for name in VALUES}
OPTIONS: dict[str, dict[str, Any]] = {
    "debezium": {"message_key": "key", "old_key": "if(startswith(key, '!'), key, null)"},
    "canal": {"sequence_by": "offset"},
}
# Raw table, and what is declared of it, by the name of the source.
TYPED_SOURCES: dict[str, tuple[str, dict[str, Any]]] = {
    "change_event_rows": ("change_event_rows", {"format": "change_event", "columns": COLUMNS}),
    "debezium_rows": (
        "debezium_rows",
        {"format": "debezium", "payload": None, "columns": ROWS, "message_key": "'{\"id\":1}'"},
    ),
    "flagged": (
        "rows",
        {"format": "flagged", "columns": ROWS, "operation": "op", "sequence_by": "seq"},
    ),
    "dms_rows": ("rows", {"format": "dms", "columns": ROWS, "sequence_by": "seq"}),
    "delta_cdf": ("feed", {"format": "delta_cdf", "columns": ROWS}),
}
# How a record shows that it is no change of a row. Only such rows may be left out.
CONTROL = {
    "debezium": r'"m"|"ddl"|"BEGIN"|"END"|"ts_ms"|"payload"',
    "wal2json_v1": r'"message"|"change": *\[ *\]',
    "wal2json_v2": r'"action": *"[BCM]"',
    "dms": r'"control"',
    "maxwell": r"bootstrap-(start|complete)|table-|database-",
    "canal": r'"isDdl": *"?true|CREATE|ALTER|ERASE|RENAME|QUERY|CINDEX|DINDEX',
    "delta_cdf": r"update_preimage",
}

SNAPSHOT = {"strategy": "cdc.scd2", "unique_key": ["id", "part"], "file_format": "delta"}
AUDIT = "select * from ({{{{ cdc.audit(ref('{name}_history'), ref('{name}_history')) }}}})"
# All formats are decoded; these make a history too, which takes longer. The others have what the
# audit asks of one.
HISTORIES = ("debezium", "maxwell", "flagged")
NO_HISTORY = (
    "select id, part, _event_id, array(struct(_op, _event_id)) as _events"
    " from {{{{ ref('stg_{name}') }}}}"
)
BISECT_SECONDS = 120


def source(columns: dict[str, str], **options: Any) -> dict[str, Any]:
    return {"keys": ["id", "part"], "arrival": "offset", "columns": columns, **options}


class Fuzzed:
    """The built project, and what the tests ask of it."""

    def __init__(self, session: Any, schema: str) -> None:
        self.session, self.schema = session, schema

    def put(self, raw: str, columns: dict[str, str], rows: list[Any]) -> None:
        fields = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        frame = self.session.createDataFrame(rows, fields).coalesce(1)
        writer = frame.write.format("delta").mode("overwrite")
        writer.option("overwriteSchema", "true").saveAsTable(f"{self.schema}.raw_{raw}")

    def offsets(self, view: str) -> list[int]:
        """The raw row of each row of a view; every column is computed."""
        query = f"select _arrived, xxhash64(struct(*)) from {self.schema}.{view}"
        return [row[0] for row in self.session.sql(query).collect()]

    def lost(self, name: str) -> list[Any]:
        """Good rows that the history does not remember."""
        return self.session.sql(
            "with known as (select"
            " explode(coalesce(_events._event_id, array(_event_id))) as _event_id"
            f" from {self.schema}.{name}_history) select s.* from {self.schema}.stg_{name} s"
            " left anti join known using (_event_id) where _op in ('I', 'U')"
        ).collect()

    def decodes(self, name: str) -> bool:
        try:
            self.offsets(f"stg_{name}")
            self.offsets(f"{name}_quarantine")
        except Exception:
            return False
        return True

    def builds(self, name: str) -> bool:
        rebuild = ["--full-refresh", "--vars", "{cdc_rebuild: true}"]
        results = run_dbt(["build", *rebuild, "--select", f"{name}_history"], expect_pass=None)
        return all(result.status == "success" for result in results)


class TestFuzz(Decoding):
    sources: ClassVar[dict[str, Any]] = {
        **{
            name: source(COLUMNS, format=name, payload="value", **OPTIONS.get(name, {}))
            for name in MESSAGES
        },
        **{name: source(raw=raw, **options) for name, (raw, options) in TYPED_SOURCES.items()},
    }

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        dispatch = {"macro_namespace": "dbt", "search_order": ["test", "cdc", "dbt"]}
        return {"models": {"+materialized": "view"}, "dispatch": [dispatch]}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {"sources.yml": source_yaml(self.sources)}
        for name in self.sources:
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            models[f"{name}_quarantine.sql"] = f"{{{{ cdc.quarantine(source('app', '{name}')) }}}}"
            models[f"{name}_audit.sql"] = AUDIT.format(name=name)
            if name not in HISTORIES:
                models[f"{name}_history.sql"] = NO_HISTORY.format(name=name)
        return models

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        found = [
            {"name": f"{name}_history", "relation": f"ref('stg_{name}')", "config": SNAPSHOT}
            for name in HISTORIES
        ]
        return {"snapshots.yml": json.dumps({"version": 2, "snapshots": found})}

    @pytest.fixture(scope="class")
    def raw_tables(self) -> dict[str, tuple[dict[str, str], list[Any]]]:
        """Columns and rows of each raw table."""
        tables = {}
        for name in MESSAGES:
            drawn = draw_rows(partial(message, kind=name), EXAMPLES, SEED)
            rows = [
                (i, None if i % 9 else b'{"id":1,"part":2}', one) for i, one in enumerate(drawn)
            ]
            tables[name] = {"offset": "bigint", "key": "binary", "value": "binary"}, rows
        for name, columns in TYPED.items():
            drawn = draw_rows(partial(typed, kind=name), EXAMPLES, SEED)
            rows = [(i, *one) for i, one in enumerate(drawn)]
            tables[name] = {"offset": "bigint", **columns}, rows
        return tables

    @pytest.fixture(scope="class")
    def fuzzed(self, project: Any, session: Any, raw_tables: dict[str, Any]) -> Fuzzed:
        fuzzed = Fuzzed(session, project.test_schema)
        for name, (columns, rows) in raw_tables.items():
            fuzzed.put(name, columns, rows)
        run_dbt(["deps"])
        run_dbt(["parse"])  # deps forgets the adapter
        results = run_dbt(["build"], expect_pass=None)
        failed = [r.node.name for r in results if r.status == "error"]
        if failed:
            name = re.sub("^stg_|_(history|audit|quarantine)$", "", failed[0])
            raw = self.sources[name].get("raw", name)
            pytest.fail(explain(fuzzed, name, raw, *raw_tables[raw]))
        return fuzzed

    @pytest.mark.parametrize("name", sources)
    def test_every_row_ends_somewhere(
        self, fuzzed: Fuzzed, raw_tables: dict[str, Any], name: str
    ) -> None:
        raw = self.sources[name].get("raw", name)
        columns, rows = raw_tables[raw]
        try:
            good, bad = fuzzed.offsets(f"stg_{name}"), fuzzed.offsets(f"{name}_quarantine")
        except Exception as exc:
            pytest.fail(explain(fuzzed, name, raw, columns, rows) + f"\n{str(exc)[:2000]}")
        counts = fuzzed.session.table(f"{fuzzed.schema}.{name}_audit").collect()[0]
        left_out = {row[0]: row for row in rows if row[0] not in {*good, *bad}}
        for row in left_out.values():
            shown = (
                repr(row[1:])
                if row[-1] is None or raw not in MESSAGES
                else row[-1].decode(errors="replace")
            )
            assert re.search(CONTROL.get(name, "(?!)"), shown) or row[-1] is None, shown
        if name in ("wal2json_v1", "canal"):  # of several rows in a message
            assert len(left_out) <= counts["events_left_out"]
        else:
            assert len(left_out) == counts["events_left_out"]
        assert counts["events_read"] == len(good) + len(bad)
        assert counts["events_quarantined"] == len(bad)
        applied = counts["events_applied"] + counts["events_duplicate"]
        assert counts["events_read"] == applied + len(bad)
        if name in HISTORIES:
            assert fuzzed.lost(name) == []
        # Neither all good nor all bad, or nothing was tried.
        assert min(len(good), len(bad)) > EXAMPLES / 20


def explain(fuzzed: Fuzzed, name: str, raw: str, columns: dict[str, str], rows: list[Any]) -> str:
    """The raw row that fails, or the fewest rows that fail together."""
    works = fuzzed.builds if fuzzed.decodes(name) else fuzzed.decodes
    end = time.monotonic() + BISECT_SECONDS
    halves = [rows]
    while halves and time.monotonic() < end:
        rows = halves[0]
        middle = len(rows) // 2
        halves = []
        for half in (rows[:middle], rows[middle:]):
            fuzzed.put(raw, columns, half)
            if len(rows) > 1 and not works(name):
                halves = [half]
                break
    shown = "\n".join(repr(row)[:3000] for row in rows[:5])
    return f"{name} fails on {len(rows)} row(s):\n{shown}"
