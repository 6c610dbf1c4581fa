"""What docs/manual_changes.md says of changes by hand that no other test makes."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from dbt.tests.util import run_dbt, write_file

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
# Raw rows that are deleted or loaded again, and types that are widened.
RAW_AND_TYPES = {
    "unread": FLAGGED,
    "all_unread": FLAGGED,
    "retained": FLAGGED,
    "newest_gone": FLAGGED,
    "loaded_again": FLAGGED,
    "loaded_alone": f"{FLAGGED}, history: false",
    "loaded_keys": RESOLVED,
    "wide_history": FLAGGED,
    "wide_final": FLAGGED,
    "wide_alone": f"{FLAGGED}, history: false",
    "wide_raw": FLAGGED,
}
# Their column `a` is a number, whose type is widened by hand.
WIDE = [name for name in RAW_AND_TYPES if name.startswith("wide")]
ALL = TABLES | RAW_AND_TYPES
ALONE = [name for name, options in ALL.items() if "history: false" in options]
RESOLVERS = [name for name, options in ALL.items() if options is RESOLVED]
SOURCE = """
      - name: {name}
        identifier: raw_{name}
        config: {{meta: {{cdc: {{{options}, arrival: batch}}}}}}
        columns: [{{name: id, data_type: int}}, {{name: a, data_type: {type}}}]
"""
KEYS = """
from dbt_spark_cdc.keys import resolve_keys


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="merge", unique_key="_event_id")
    return resolve_keys(dbt, session, dbt.ref("stg_{name}"))
"""
PLAIN = FINAL.replace("='merge'", "='insert_overwrite', file_format='parquet', partition_by=['a']")

Event = tuple[int, str, int, "str | int | None", int]
FIRST: list[Event] = [(1, "I", 1, "a", 7), (2, "I", 2, "z", 7)]
NUMBERS: list[Event] = [(1, "I", 1, 10, 7), (2, "I", 2, 20, 7)]
WHOLE = [(1, "a"), (2, "z")]
BIG = 3_000_000_000


def change_event(event: Event) -> str:
    """A ChangeEvent, as dbt takes it in a statement that it formats."""
    key, op, seq, a, _ = event
    kind = {"I": "insert", "U": "update"}[op]
    row = {"columnNames": ["id", "a"], "columnValues": [str(key), a]}
    text = json.dumps({"changeType": kind, "timestamp": str(seq), **row})
    return text.replace("{", "{{").replace("}", "}}")


class ManualChanges:
    """A project of some tables."""

    tables: ClassVar[dict[str, str]]

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        models = {}
        for name in self.tables:
            models[f"stg_{name}.sql"] = f"{{{{ cdc.events(source('app', '{name}')) }}}}"
            final = (PLAIN if name == "parquet" else FINAL).format(
                read=f"stg_{name}" if name in ALONE else f"{name}_history"
            )
            models[f"{name}_final.sql"] = (
                final.replace("['id']", "['_row_id']") if name == "keyless" else final
            )
        models |= {
            f"{name}_keys.py": KEYS.format(name=name) for name in self.tables if name in RESOLVERS
        }
        return {"sources.yml": self.sources("int"), **models}

    def sources(self, number: str) -> str:
        """The declarations, with the type of columns that are numbers."""
        text = (
            'version: 2\nsources:\n  - name: app\n    schema: "{{ target.schema }}"\n    tables:\n'
        )
        for name, options in self.tables.items():
            kind = number if name in WIDE else "string"
            text += SOURCE.format(name=name, options=options, type=kind)
        return text

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        read = {
            f"{name}_history": f"{name}_keys" if name in RESOLVERS else f"stg_{name}"
            for name in self.tables
            if name not in ALONE
        }
        text = histories(**read)["snapshots.yml"]
        keyless = "ref('stg_keyless')\n    config: {strategy: cdc.scd2, unique_key: ["
        return {"snapshots.yml": text.replace(f"{keyless}id", f"{keyless}_row_id")}

    def arrive(self, project: Any, name: str, *events: Event) -> None:
        for event in events:
            key, op, seq, a, batch = event
            value = "null" if a is None else repr(a)
            row = f"{key}, '{op}', {seq}, {value}, {batch}"
            if name in RESOLVERS:
                row = f"'{change_event(event)}', {batch}"
            project.run_sql(f"insert into {project.test_schema}.raw_{name} values ({row})")

    def create_raw(self, project: Any, name: str) -> None:
        kind = "int" if name in WIDE else "string"
        columns = f"id int, op string, seq int, a {kind}, batch int"
        if name in RESOLVERS:
            columns = "value string, batch int"
        project.run_sql(
            f"create or replace table {project.test_schema}.raw_{name} ({columns}) using delta"
        )

    def current(self, project: Any, name: str, columns: str = "id, a") -> list[tuple[Any, ...]]:
        living = " where _cdc_deleted_at is null" if name in ALONE else ""
        return rows(project, f"select {columns} from {{s}}.{name}_final{living} order by id")


@pytest.mark.soak
@pytest.mark.usefixtures("package")
class TestManualChanges(ManualChanges):
    tables = TABLES

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


@pytest.mark.soak
@pytest.mark.usefixtures("package")
class TestRawTablesAndTypes(ManualChanges):
    tables = RAW_AND_TYPES

    def by_hand(self, project: Any) -> None:
        for statement in (
            "delete from {s}.raw_unread where batch = 8",
            "delete from {s}.raw_all_unread where batch = 8",
            "delete from {s}.raw_retained where batch <= 7",
            "delete from {s}.raw_newest_gone where batch = 8",
            "delete from {s}.raw_loaded_again where id = 2",
            "truncate table {s}.raw_loaded_alone",
            "truncate table {s}.raw_loaded_keys",
            *(
                f"alter table {{s}}.{table} {change}"
                for table in (
                    "wide_history_history",
                    "wide_final_final",
                    "wide_alone_final",
                    "raw_wide_raw",
                )
                for change in (
                    "set tblproperties ('delta.enableTypeWidening' = 'true')",
                    "alter column a type bigint",
                )
            ),
        ):
            project.run_sql(statement.replace("{s}", project.test_schema))

    @pytest.fixture(scope="class")
    def failed(self, project: Any, package: None) -> dict[str, str]:
        """The story; what was said of nodes that failed in its last build."""
        for name in RAW_AND_TYPES:
            self.create_raw(project, name)
            self.arrive(project, name, *(NUMBERS if name in WIDE else FIRST))
        self.arrive(project, "newest_gone", (3, "I", 3, "w", 8))
        run_dbt(["build"])
        for name in ("unread", "all_unread"):
            self.arrive(project, name, (3, "I", 3, "w", 8))
        self.by_hand(project)
        self.arrive(project, "unread", (4, "I", 4, "v", 9))
        self.arrive(project, "retained", (3, "I", 3, "w", 8))
        # With the number that the deleted rows had, as somebody writes who corrects them.
        for name in ("loaded_again", "loaded_alone", "loaded_keys"):
            self.arrive(project, name, (2, "U", 5, "y", 7))
        for name in WIDE:
            self.arrive(project, name, (2, "U", 5, 21, 8))
        self.arrive(project, "wide_raw", (3, "I", 6, BIG, 8))
        results = run_dbt(["build"], expect_pass=False)
        return {r.node.name: str(r.message) for r in results if str(r.status) == "error"}

    def test_nothing_else_is_refused(self, failed: dict[str, str]) -> None:
        refused = {"newest_gone_history", "wide_history_history", "wide_alone_final"}
        assert set(failed) == refused

    def test_events_that_were_deleted_unread_are_passed_by(
        self, project: Any, failed: dict[str, str]
    ) -> None:
        assert self.current(project, "all_unread") == WHOLE
        assert self.current(project, "unread") == [*WHOLE, (4, "v")]
        assert self.current(project, "retained") == [*WHOLE, (3, "w")]

    @pytest.mark.parametrize("name", ["loaded_again", "loaded_alone", "loaded_keys"])
    def test_events_in_the_place_of_deleted_ones_are_read(
        self, project: Any, failed: dict[str, str], name: str
    ) -> None:
        assert self.current(project, name) == [(1, "a"), (2, "y")]

    def test_a_raw_table_that_lost_its_newest_events_is_refused(
        self, failed: dict[str, str]
    ) -> None:
        assert "up to `batch` 8, and the highest in" in failed["newest_gone_history"]
        assert "cdc_replay" in failed["newest_gone_history"]

    @pytest.mark.parametrize("name", ["wide_history_history", "wide_alone_final"])
    def test_a_type_that_was_widened_where_events_are_kept_is_refused(
        self, failed: dict[str, str], name: str
    ) -> None:
        assert "column `a` is bigint and is now declared as int" in failed[name]

    @pytest.mark.parametrize("name", ["wide_final", "wide_raw"])
    def test_a_type_that_was_widened_elsewhere_does_no_harm(
        self, project: Any, failed: dict[str, str], name: str
    ) -> None:
        assert self.current(project, name) == [(1, 10), (2, 21)]

    def test_the_next_events_are_read(self, project: Any, failed: dict[str, str]) -> None:
        """What was refused goes on by the remedy, and the others go on."""
        write_file(self.sources("bigint"), project.project_root, "models", "sources.yml")
        self.arrive(project, "all_unread", (3, "I", 3, "w", 8))
        self.arrive(project, "wide_final", (2, "U", 7, 22, 9))
        self.arrive(project, "wide_alone", (2, "U", 7, 22, 9))
        self.arrive(project, "wide_raw", (1, "U", 7, BIG, 9))
        run_dbt(["run-operation", "cdc_replay", "--args", "{table: newest_gone_history}"])
        named = ["all_unread", "newest_gone", *WIDE]
        run_dbt(["build", "--select", *(f"+{name}_final" for name in named)])
        for name in ("all_unread", "newest_gone"):
            assert self.current(project, name) == [*WHOLE, (3, "w")], name
        assert self.current(project, "wide_history") == [(1, 10), (2, 21)]
        for name in ("wide_final", "wide_alone"):
            assert self.current(project, name) == [(1, 10), (2, 22)]
        assert self.current(project, "wide_raw") == [(1, BIG), (2, 21)]
