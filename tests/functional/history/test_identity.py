"""An event that is read again is the same event, whatever its declaration was and is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dbt.tests.util import run_dbt, write_file

from tests.functional.history.tables import FINAL, histories, rows

pytestmark = pytest.mark.extended

FLAGGED = "format: flagged, sequence_by: seq, operation: op"
TYPED = "id int, op string, seq int, a string, city string, n int, batch int"
# Of each table: its options, without an `arrival` where all events are read in every run.
TABLES = {
    "whole": f"{FLAGGED}, keys: [id]",
    "alone": f"{FLAGGED}, keys: [id], history: false",
    "keyless": f"{FLAGGED}, keys: []",
    "keyless_alone": f"{FLAGGED}, keys: [], history: false",
    "sent_again": f"{FLAGGED}, keys: [id], arrival: batch",
    "partial": f"{FLAGGED}, keys: [id], ignore_null_updates: true",
    "envelope": "format: debezium, keys: [id], sequence_by: cast(_message.source.lsn as bigint),"
    " event_time: false",
}
HISTORIES = [name for name in TABLES if "alone" not in name]
# The same two declarations for all: later ones have a column more, one less, and a wider type.
FIRST = {"id": "int", "a": "string", "gone": "string", "n": "int"}
LATER = {"id": "int", "a": "string", "n": "double", "city": "string"}


def sources(columns: dict[str, str], more: str = "") -> str:
    text = 'version: 2\nsources:\n  - name: app\n    schema: "{{ target.schema }}"\n    tables:\n'
    declared = ", ".join(f"{{name: {name}, data_type: {kind}}}" for name, kind in columns.items())
    for name, options in TABLES.items():
        text += f"      - name: {name}\n        config: {{meta: {{cdc: {{{options}{more}}}}}}}\n"
        text += f"        columns: [{declared}]\n"
    return text


# key, operation, position, a, city; `gone` and `n` follow from the position.
EVENTS = [
    (1, "I", 1, "a", "x"),
    (1, "U", 2, "b", "x"),
    (2, "I", 3, "a", "y"),
    (2, "D", 4, "a", "y"),
    (3, "I", 5, "a", None),
    # Two at one position that only their cities tell apart.
    (4, "I", 6, "a", "v"),
    (4, "I", 6, "a", "w"),
    (9, "D", 7, None, "z"),
    (5, "I", 8, "a", "x"),
    # Where NULL is no value, this one says nothing of the city.
    (5, "U", 9, "b", None),
]


def envelope(event: tuple[Any, ...]) -> str:
    """A change event of Debezium."""
    key, op, position, a, city = event
    row = {"id": key, "a": a, "city": city, "gone": f"g{position}", "n": position}
    sides = {"before": row} if op == "D" else {"after": row}
    ops = {"I": "c", "U": "u", "D": "d"}
    return json.dumps({"op": ops[op], **sides, "source": {"lsn": position, "table": "envelope"}})


@pytest.mark.usefixtures("package")
class TestIdentity:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        finals = {
            f"{name}_final.sql": FINAL.format(
                read=f"stg_{name}" if "alone" in name else f"{name}_history"
            ).replace("['id']", "['_row_id']" if "keyless" in name else "['id']")
            for name in TABLES
        }
        return {
            "sources.yml": sources(FIRST),
            **{f"stg_{n}.sql": f"{{{{ cdc.events(source('app', '{n}')) }}}}" for n in TABLES},
            **finals,
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        text = histories(**{f"{name}_history": f"stg_{name}" for name in HISTORIES})[
            "snapshots.yml"
        ]
        keyless = "ref('stg_keyless')\n    config: {strategy: cdc.scd2, unique_key: ["
        return {"snapshots.yml": text.replace(f"{keyless}id", f"{keyless}_row_id")}

    @pytest.fixture(scope="class")
    def story(self, project: Any, package: None) -> Iterator[Any]:
        for name in TABLES:
            columns = "value string" if name == "envelope" else f"{TYPED}, gone string"
            project.run_sql(f"create table {project.test_schema}.{name} ({columns}) using delta")
            project.run_sql(
                f"alter table {project.test_schema}.{name} set tblproperties"
                " ('delta.enableTypeWidening' = 'true')"
            )
        self.arrive(project, EVENTS, 1)
        run_dbt(["build"])
        # It writes what the first run of a history leaves to the second.
        run_dbt(["build", "--select", *(f"{name}_history" for name in HISTORIES)])
        write_file(sources(LATER), project.project_root, "models", "sources.yml")
        for name in TABLES:
            if name != "envelope":
                project.run_sql(
                    f"alter table {project.test_schema}.{name} alter column n type double"
                )
        self.arrive(project, EVENTS[:5], 2, "sent_again")
        run_dbt(["build"])
        return project

    def arrive(
        self, project: Any, events: list[tuple[Any, ...]], batch: int, only: str | None = None
    ) -> None:
        for name in [only] if only else TABLES:
            values = []
            for event in events:
                key, op, position, a, city = event
                if name == "envelope":
                    # dbt formats the statement.
                    text = envelope(event).replace("{", "{{").replace("}", "}}")
                    values.append(f"('{text}')")
                elif "keyless" not in name or op == "I":
                    texts = [f"'{text}'" if text else "null" for text in (a, city)]
                    row = [key, f"'{op}'", position, *texts, position, batch, f"'g{position}'"]
                    values.append(f"({', '.join(map(str, row))})")
            if values:
                project.run_sql(
                    f"insert into {project.test_schema}.{name} values {', '.join(values)}"
                )

    def versions(self, project: Any, name: str) -> list[tuple[Any, ...]]:
        columns = "id, a, _seq, _seq_end, city, gone, n, dbt_scd_id"
        return rows(
            project, f"select {columns} from {{s}}.{name}_history order by id, _seq, _seq_end, city"
        )

    def current(
        self, project: Any, name: str, columns: str = "id, a, city, gone"
    ) -> list[tuple[Any, ...]]:
        alone = " where _cdc_deleted_at is null" if "alone" in name else ""
        query = f"select {columns} from {{s}}.{name}_final{alone} order by id, city"
        return rows(project, query)

    @pytest.mark.parametrize("name", ["whole", "envelope", "sent_again"])
    def test_a_history_knows_the_events_that_it_reads_again(self, story: Any, name: str) -> None:
        found = [version[:5] for version in self.versions(story, name) if version[0] < 4]
        assert found == [
            (1, "a", 1, 2, "x"),
            (1, "b", 2, None, "x"),
            (2, "a", 3, 4, "y"),
            (3, "a", 5, None, None),
        ]
        tombstones = rows(story, f"show tables in {story.test_schema} like '{name}_history_tomb*'")
        if name != "sent_again":
            assert tombstones
            assert rows(story, f"select id, _op, _seq from {{s}}.{name}_history_tombstones") == [
                (9, "D", 7)
            ]
        # What was dropped stays.
        assert {version[5] for version in self.versions(story, name) if version[0] < 4} == {
            "g1",
            "g2",
            "g3",
            "g5",
        }

    @pytest.mark.parametrize("name", ["whole", "envelope", "alone"])
    def test_a_final_table_has_each_row_once(self, story: Any, name: str) -> None:
        found = self.current(story, name)
        assert found[:2] == [(1, "b", "x", "g2"), (3, "a", None, "g5")]
        # Which of two events at one position comes last is arbitrary; that it is one row, is not.
        assert [row[:2] for row in found[2:]] == [(4, "a"), (5, "b")]

    def test_an_event_leaves_a_new_column_as_it_is(self, story: Any) -> None:
        found = [version[:5] for version in self.versions(story, "partial") if version[0] == 5]
        assert found == [(5, "a", 8, 9, "x"), (5, "b", 9, None, "x")]
        assert self.current(story, "partial")[-1][:3] == (5, "b", "x")
        found = [version[:5] for version in self.versions(story, "whole") if version[0] == 5]
        assert found == [(5, "a", 8, 9, "x"), (5, "b", 9, None, None)]

    @pytest.mark.parametrize("name", ["keyless", "keyless_alone"])
    def test_a_table_without_keys_has_each_row_once(self, story: Any, name: str) -> None:
        expected = [
            (1, "a", "x"),
            (2, "a", "y"),
            (3, "a", None),
            (4, "a", "v"),
            (4, "a", "w"),
            (5, "a", "x"),
        ]
        assert [row[:3] for row in self.current(story, name)] == expected

    def test_nothing_changes_when_all_is_read_once_more(self, story: Any) -> None:
        """Events that the tables know by now, and one that is new, of row 3."""

        def seen() -> list[tuple[str, list[tuple[Any, ...]]]]:
            found = [(name, self.versions(story, name)) for name in HISTORIES]
            found += [(name, self.current(story, name)) for name in TABLES]
            return [(name, [row for row in kept if row[0] != 3]) for name, kept in found]

        before = seen()
        self.arrive(story, EVENTS[:5], 3, "sent_again")
        # A commit, for a raw table without one is not looked at.
        for name in TABLES:
            if name != "sent_again":
                self.arrive(story, EVENTS[:1], 3, name)
        self.arrive(story, [(3, "U", 20, "b", "u")], 4)
        run_dbt(["build"])
        assert seen() == before
        for name in ("whole", "alone", "sent_again", "envelope"):
            assert (3, "b", "u", None) in self.current(story, name), name

    def test_rows_are_those_of_a_build_from_the_beginning(self, story: Any) -> None:
        """But for the column that is not declared any more, which nothing fills again."""

        def seen() -> dict[str, list[tuple[Any, ...]]]:
            # A final table that is rebuilt has no column that is not declared any more.
            found = {n: self.current(story, n, "id, a, city") for n in TABLES if n != "sent_again"}
            return found | {
                f"{n}_history": [version[:5] for version in self.versions(story, n)]
                for n in ("whole", "partial", "envelope")
            }

        before = seen()
        run_dbt(["build", "--full-refresh", "--exclude", "stg_sent_again+"])
        after = seen()
        for name in before:
            ties = [row for row in before[name] if row[0] == 4]
            assert [row for row in after[name] if row[0] != 4] == [
                row for row in before[name] if row[0] != 4
            ], name
            assert len([row for row in after[name] if row[0] == 4]) == len(ties), name


REPLACED = """
version: 2
sources:
  - name: app
    schema: "{{{{ target.schema }}}}"
    config:
      meta:
        cdc: {{format: flagged, keys: [id], sequence_by: seq, operation: op, arrival: batch}}
    tables:
      - {{name: raw, columns: [{{name: id, data_type: int}}, {{name: a, data_type: string}}{more}]}}
"""


@pytest.mark.usefixtures("package")
class TestReplaced:
    """A history that was replaced by a table which says nothing of itself."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {
            "sources.yml": REPLACED.format(more=""),
            "stg_raw.sql": "{{ cdc.events(source('app', 'raw')) }}",
            "raw_final.sql": FINAL.format(read="raw_history"),
        }

    @pytest.fixture(scope="class")
    def snapshots(self) -> dict[str, str]:
        return histories(raw_history="stg_raw")

    def test_it_knows_its_events_and_says_what_it_is(self, project: Any) -> None:
        project.run_sql(
            f"create table {project.test_schema}.raw"
            " (id int, op string, seq int, a string, city string, batch int) using delta"
        )
        arrive = f"insert into {project.test_schema}.raw values "
        project.run_sql(arrive + "(1, 'I', 1, 'a', 'x', 1), (2, 'I', 2, 'b', 'y', 1)")
        run_dbt(["build"])
        later = REPLACED.format(more=", {name: city, data_type: string}")
        write_file(later, project.project_root, "models", "sources.yml")
        project.run_sql(arrive + "(2, 'D', 3, null, null, 2)")
        run_dbt(["build"])
        before = rows(project, "show tblproperties {s}.raw_history")

        project.run_sql(
            f"create or replace table {project.test_schema}.raw_history using delta"
            f" as select * from {project.test_schema}.raw_history version as of 0"
        )
        run_dbt(["build"])
        found = rows(project, "select id, a, city, _seq, _seq_end from {s}.raw_history order by id")
        assert found == [(1, "a", "x", 1, None), (2, "b", "y", 2, 3)]
        assert rows(project, "select id, a, city from {s}.raw_final") == [(1, "a", "x")]
        after = rows(project, "show tblproperties {s}.raw_history")
        assert {row for row in before if row[0] in ("cdc.keys", "cdc.identity")} <= set(after)
