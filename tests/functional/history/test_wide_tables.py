"""Plans grow with the columns of a table and no faster: their size is compared, not their time."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from dbt.adapters.sparkcdc.session.cursor import Cursor
from dbt.tests.util import run_dbt
from dbt_common.events.contextvars import get_node_info

from tests.functional.history.tables import FINAL, append, histories, rows

FORMATS = ("flagged", "maxwell")
WIDTHS = (50, 100, 200, 400)
# The plans of wider tables take long to print.
WIDEST_EXPLAINED = 200
# How much twice the columns may cost. Their names get longer, too.
MOST = 2.25

DECLARED = {
    "flagged": "format: flagged, sequence_by: seq, operation: op",
    "maxwell": "format: maxwell",
}
TABLES = [f"{kind}_{width}" for kind in FORMATS for width in WIDTHS]


def sources() -> str:
    text = 'version: 2\nsources:\n  - name: app\n    schema: "{{ target.schema }}"\n    tables:\n'
    for kind in FORMATS:
        for width in WIDTHS:
            columns = [
                {"name": name, "data_type": type_of(name)} for name in ("id", *values(width))
            ]
            declared = f"{{{DECLARED[kind]}, keys: [id], arrival: batch}}"
            text += (
                f"      - name: {kind}_{width}\n        identifier: raw_{kind}_{width}\n"
                f"        config: {{meta: {{cdc: {declared}}}}}\n"
                f"        columns: {json.dumps(columns)}\n"
            )
    return text


def values(width: int) -> list[str]:
    return [f"c{number}" for number in range(1, width)]


def type_of(name: str) -> str:
    """One type after the other, strings among them."""
    kinds = ("int", "string", "decimal(12,2)", "date")
    return kinds[int(name[1:]) % len(kinds)] if name != "id" else "int"


@contextmanager
def sizes_of_plans() -> Iterator[dict[str, dict[str, int]]]:
    """Lengths of the statements' texts and of their plans, by node and as `sql` and `plan`."""
    execute = Cursor.execute
    sizes: dict[str, dict[str, int]] = defaultdict(lambda: {"sql": 0, "plan": 0})

    def measured(cursor: Cursor, sql: str, bindings: Any = None) -> None:
        node = get_node_info().get("node_name", "")
        if node and "select" in sql:
            sizes[node]["sql"] += len(sql)
            if int(re.findall(r"\d+", node)[0]) <= WIDEST_EXPLAINED:
                explained = cursor._spark.sql(f"explain extended {sql}").collect()
                sizes[node]["plan"] += len(explained[0][0])
        execute(cursor, sql, bindings)

    Cursor.execute = measured  # type: ignore[method-assign]
    try:
        yield sizes
    finally:
        Cursor.execute = execute  # type: ignore[method-assign]


@pytest.mark.usefixtures("package")
class TestWideTables:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target: dict[str, Any]) -> dict[str, Any]:
        settings = dbt_profile_target["server_side_parameters"]
        printed = {"spark.sql.debug.maxToStringFields": 1_000_000}
        return {**dbt_profile_target, "server_side_parameters": settings | printed}

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": sources(),
            **{f"stg_{t}.sql": f"{{{{ cdc.events(source('app', '{t}')) }}}}" for t in TABLES},
            **{f"{t}.sql": FINAL.format(read=f"{t}_history") for t in TABLES},
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(**{f"{table}_history": f"stg_{table}" for table in TABLES})

    def arrive(self, project: Any, spark: Any, batch: int, *keys: int) -> None:
        """An event of each key for each table."""
        for kind in FORMATS:
            for width in WIDTHS:
                names, raw = values(width), f"{project.test_schema}.raw_{kind}_{width}"
                if kind == "maxwell":
                    messages = [
                        {
                            "database": "app",
                            "table": f"maxwell_{width}",
                            "type": "update",
                            "ts": batch,
                            "xid": batch * 10 + key,
                            "commit": True,
                            "data": {"id": key, **dict.fromkeys(names), names[-1]: None},
                        }
                        for key in keys
                    ]
                    lines = [(json.dumps(message), batch) for message in messages]
                    append(spark, raw, lines, "value string, batch int")
                else:
                    columns = [f"{name} {type_of(name)}" for name in ("id", *names)]
                    schema = ", ".join(["op string", "seq int", "batch int", *columns])
                    events = [
                        ("U", batch * 10 + key, batch, key, *[None] * len(names)) for key in keys
                    ]
                    append(spark, raw, events, schema)

    @pytest.mark.soak
    def test_a_plan_grows_with_the_columns(self, project: Any, spark: Any) -> None:
        for batch, keys in ((1, (1, 2)), (2, (2, 3))):
            self.arrive(project, spark, batch, *keys)
            with sizes_of_plans() as sizes:
                run_dbt(["build"])
            grown = {}
            for node in sorted(sizes):
                wide = re.sub(r"\d+", lambda found: str(int(found[0]) * 2), node, count=1)
                for what, size in sizes[node].items():
                    if wide in sizes and sizes[wide][what]:
                        grown[f"{what} of {wide}"] = sizes[wide][what] / size
            assert len(grown) >= 3 * len(FORMATS) * len(WIDTHS) / 2, sizes
            too_large = {what: ratio for what, ratio in grown.items() if ratio > MOST}
            assert not too_large, f"batch {batch}, beside half the columns: {too_large}"
        for table in TABLES:
            assert rows(project, f"select id from {{s}}.{table} order by id") == [(1,), (2,), (3,)]
