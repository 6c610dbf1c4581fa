"""What docs/manual_changes.md says of changes by hand that no other test makes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from tests.functional.history.tables import FINAL, histories, rows

FLAGGED = "format: flagged, sequence_by: seq, operation: op, keys: [id]"
RESOLVED = "format: change_event, payload: value, keys: [id], key_changes: true"
TABLES = {
    "parquet": FLAGGED,
    "renamed": FLAGGED,
    "dropped": FLAGGED,
    "more": FLAGGED,
    "updated": FLAGGED,
    "ends_dropped": FLAGGED,
    "ends_deleted": FLAGGED,
    "raw": FLAGGED,
    "recreated": RESOLVED,
    "future": RESOLVED,
    "resolver": RESOLVED,
    "alone": f"{FLAGGED}, history: false",
    "keyless": FLAGGED.replace("keys: [id]", "keys: []"),
}
RESOLVERS = [name for name, options in TABLES.items() if options is RESOLVED]
SOURCE = """
      - name: {name}
        identifier: raw_{name}
        config: {{meta: {{cdc: {{{options}, arrival: batch}}}}}}
        columns: [{{name: id, data_type: int}}, {{name: a, data_type: string}}]
"""
KEYS = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="_event_id")
    return resolve_keys(dbt, session, dbt.ref("stg_{name}"))
"""
PLAIN = FINAL.replace("='merge'", "='insert_overwrite', file_format='parquet', partition_by=['a']")

Event = tuple[int, str, int, str | None, int]
FIRST: list[Event] = [(1, "I", 1, "a", 7), (2, "I", 2, "z", 7)]
WHOLE = [(1, "a"), (2, "z")]


def change_event(event: Event) -> str:
    """A ChangeEvent, as dbt takes it in a statement that it formats."""
    key, op, seq, a, _ = event
    kind = {"I": "insert", "U": "update"}[op]
    row = {"columnNames": ["id", "a"], "columnValues": [str(key), a]}
    text = json.dumps({"changeType": kind, "timestamp": str(seq), **row})
    return text.replace("{", "{{").replace("}", "}}")


@pytest.mark.soak
@pytest.mark.usefixtures("package")
class TestManualChanges:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        text = (
            'version: 2\nsources:\n  - name: app\n    schema: "{{ target.schema }}"\n    tables:\n'
        )
        models = {}
        for name, options in TABLES.items():
            text += SOURCE.format(name=name, options=options)
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            final = (PLAIN if name == "parquet" else FINAL).format(
                read="stg_alone" if name == "alone" else f"{name}_history"
            )
            models[f"{name}_final.sql"] = (
                final.replace("['id']", "['_row_id']") if name == "keyless" else final
            )
        models |= {f"{name}_keys.py": KEYS.format(name=name) for name in RESOLVERS}
        return {"sources.yml": text, **models}

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        read = {
            f"{name}_history": f"{name}_keys" if name in RESOLVERS else f"stg_{name}"
            for name in TABLES
            if name != "alone"
        }
        text = histories(**read)["snapshots.yml"]
        keyless = "ref('stg_keyless')\n    config: {strategy: cdc.scd2, unique_key: ["
        return {"snapshots.yml": text.replace(f"{keyless}id", f"{keyless}_row_id")}

    def arrive(self, project: Any, name: str, *events: Event) -> None:
        for event in events:
            key, op, seq, a, batch = event
            value = "null" if a is None else f"'{a}'"
            row = f"{key}, '{op}', {seq}, {value}, {batch}"
            if name in RESOLVERS:
                row = f"'{change_event(event)}', {batch}"
            project.run_sql(f"insert into {project.test_schema}.raw_{name} values ({row})")

    def create_raw(self, project: Any, name: str) -> None:
        columns = "id int, op string, seq int, a string, batch int"
        if name in RESOLVERS:
            columns = "value string, batch int"
        project.run_sql(
            f"create or replace table {project.test_schema}.raw_{name} ({columns}) using delta"
        )

    def by_hand(self, project: Any) -> None:
        for statement in (
            "insert into {s}.parquet_final select * from {s}.parquet_final where id = 1",
            "alter table {s}.renamed_history set tblproperties ('delta.columnMapping.mode'='name')",
            "alter table {s}.renamed_history rename column a to mine",
            "alter table {s}.dropped_history set tblproperties ('delta.columnMapping.mode'='name')",
            "alter table {s}.dropped_history drop column a",
            "alter table {s}.more_history add columns (mine string)",
            "update {s}.updated_history set a = 'mine' where id = 1",
            "drop table {s}.ends_dropped_history_tombstones",
            "delete from {s}.ends_deleted_history_tombstones",
            "delete from {s}.raw_raw where id = 1",
            "update {s}.raw_raw set a = 'changed' where id = 2",
            "delete from {s}.resolver_keys where id = 2",
            "delete from {s}.alone_final where id = 1",
            "truncate table {s}.keyless_history",
        ):
            project.run_sql(statement.replace("{s}", project.test_schema))

    @pytest.fixture(scope="class")
    def failed(self, project: Any, package: None) -> dict[str, str]:
        """The story; what was said of nodes that failed in its last build."""
        for name in TABLES:
            self.create_raw(project, name)
            self.arrive(project, name, *FIRST)
        self.arrive(project, "future", (3, "I", 3, "w", 1000))
        ends = ("ends_dropped", "ends_deleted")
        for name in ends:
            self.arrive(project, name, (5, "D", 8, None, 7))
        run_dbt(["build"])
        for name in ends:
            self.arrive(project, name, (6, "D", 8, None, 8))
        run_dbt(["build", "--select", *(f"{name}_history" for name in ends)])

        self.by_hand(project)
        self.create_raw(project, "recreated")
        # One of them below what was read, as from a topic that was created again.
        self.arrive(project, "recreated", (2, "U", 5, "y", 5), (1, "U", 6, "b", 9))
        self.arrive(project, "future", (2, "U", 5, "y", 9))
        self.arrive(project, "more", (3, "I", 3, "w", 8))
        for name in ends:
            self.arrive(project, name, (5, "I", 4, "late", 9), (6, "I", 4, "late", 9))
        for name in ("renamed", "dropped"):
            self.arrive(project, name, (1, "U", 3, "b", 8))
        results = run_dbt(["build"], expect_pass=False)
        return {r.node.name: str(r.message) for r in results if str(r.status) == "error"}

    def current(self, project: Any, name: str, columns: str = "id, a") -> list[tuple[Any, ...]]:
        living = " where _cdc_deleted_at is null" if name == "alone" else ""
        return rows(project, f"select {columns} from {{s}}.{name}_final{living} order by id")

    @pytest.mark.parametrize("name", ["parquet", "alone", "keyless", "resolver", "raw"])
    def test_tables_have_their_rows_again(
        self, project: Any, failed: dict[str, str], name: str
    ) -> None:
        assert self.current(project, name) == WHOLE

    def test_a_resolver_resolves_deleted_rows_again(
        self, project: Any, failed: dict[str, str]
    ) -> None:
        assert rows(project, "select id from {s}.resolver_keys order by id") == [(1,), (2,)]

    @pytest.mark.parametrize("name", ["renamed", "dropped"])
    def test_a_history_without_a_declared_column_is_refused(
        self, project: Any, failed: dict[str, str], name: str
    ) -> None:
        assert set(failed) == {"renamed_history", "dropped_history"}
        assert "has no column `a`, which it was built with" in failed[f"{name}_history"]
        assert f"{name}_history" in failed[f"{name}_history"]

    def test_a_column_that_was_added_to_a_history_is_kept(
        self, project: Any, failed: dict[str, str]
    ) -> None:
        found = self.current(project, "more", "id, a, mine")
        assert found == [(1, "a", None), (2, "z", None), (3, "w", None)]

    def test_a_history_that_was_updated_is_what_its_final_table_shows(
        self, project: Any, failed: dict[str, str]
    ) -> None:
        assert self.current(project, "updated") == [(1, "mine"), (2, "z")]

    @pytest.mark.parametrize("name", ["ends_dropped", "ends_deleted"])
    def test_tombstones_are_looked_for_again(
        self, project: Any, failed: dict[str, str], name: str
    ) -> None:
        query = f"select id, _seq, _seq_end from {{s}}.{name}_history where id > 2 order by id"
        assert rows(project, query) == [(5, 4, 8), (6, 4, 8)]
        assert self.current(project, name) == WHOLE

    def test_a_resolver_reads_what_came_with_lower_arrivals(
        self, project: Any, failed: dict[str, str]
    ) -> None:
        assert self.current(project, "recreated") == [(1, "b"), (2, "y")]
        assert self.current(project, "future") == [(1, "a"), (2, "y"), (3, "w")]
